"""Rules about HBM and VMEM."""

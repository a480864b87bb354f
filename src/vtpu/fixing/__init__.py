"""Changes tried on the virtual slice: applied, compiled and run again, compared, combined."""

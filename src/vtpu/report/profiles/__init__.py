"""A timeline in the field's own formats: an XSpace for XProf and TensorBoard, a trace for Perfetto."""

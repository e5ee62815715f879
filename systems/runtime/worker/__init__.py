"""Worker of any backend: it builds the model, computes steps, and records evidence."""

"""The report: figures, tables and a static page from stored runs, and from nothing else."""

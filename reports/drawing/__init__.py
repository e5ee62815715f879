"""Drawing of figures and tables, and the files that they become."""

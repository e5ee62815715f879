"""Selection and naming of stored runs for reports."""

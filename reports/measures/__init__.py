"""Measures of stored runs, for figures and verdicts."""

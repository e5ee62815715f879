"""Metrics, each computed from the records of a run."""

"""Benchmarks of Elastrace itself that replay no trace."""

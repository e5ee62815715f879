"""Sweeps: many runs, one process each, with progress and a summary."""

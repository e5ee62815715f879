"""Trace as a value: its jobs, its events, and statistics of them."""

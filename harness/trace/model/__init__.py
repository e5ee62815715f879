"""Trace as a value: its jobs, its events, and what they amount to."""

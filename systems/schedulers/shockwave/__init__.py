"""Shockwave: slots by a market over a window of time."""

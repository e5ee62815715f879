"""Faults on purpose: workers of a live run are killed or stopped at random moments."""

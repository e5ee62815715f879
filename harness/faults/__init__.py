"""Fault injection: workers of a live run are killed, stopped or slowed at random moments."""

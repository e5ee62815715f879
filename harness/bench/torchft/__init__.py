"""Comparison of stop-free elasticity with torchft: the same scale-out and the same worker death."""

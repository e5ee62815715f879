"""Sums of gradients over the workers of a job."""

"""Traces: jobs, one reader for each published format, transforms, lint and show."""

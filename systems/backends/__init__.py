"""Backends that configurations name: each says how a job's workers start, change and end."""

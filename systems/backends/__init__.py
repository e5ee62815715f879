"""Backends that configurations name: each defines how a job's workers start, change and end."""

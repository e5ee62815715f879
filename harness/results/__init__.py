"""Stored runs: records, tables, the store and its archives."""

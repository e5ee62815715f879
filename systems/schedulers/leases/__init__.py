"""Leases over time, for Chronus."""

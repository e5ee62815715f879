"""Launchers: they start worker processes on slots, signal them and tell their ends."""

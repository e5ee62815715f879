"""Stored runs as reports select and name them."""

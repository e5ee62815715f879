"""Stored runs next to each other: their inputs, their settings, their assumptions."""

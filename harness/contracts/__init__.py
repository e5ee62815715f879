"""Contracts between the parts. A reader who has opened these files has understood the project."""

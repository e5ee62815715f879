"""Placements: each chooses the slots of a grant, given their number."""

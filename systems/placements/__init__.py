"""Placements: each turns a number of slots into the slots themselves."""

"""Measurements of Elastrace itself that are no replays."""

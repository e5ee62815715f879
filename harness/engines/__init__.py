"""Engines: each advances time and applies the changes of a replay."""

"""Sia: slots of several device types by an integer program."""

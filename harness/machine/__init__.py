"""This machine: its processes, signals, terminal, network and description."""

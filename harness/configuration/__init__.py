"""Configuration of runs: composed, checked, identified, and turned into parts."""

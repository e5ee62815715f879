"""Bit-by-bit comparison of two jobs' training: the first difference and its cause."""

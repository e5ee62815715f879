"""Whether two jobs trained the same, bit by bit, and if not, where they part and why."""

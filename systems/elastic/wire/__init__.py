"""Orders, options and messages that an elastic job's processes send each other."""

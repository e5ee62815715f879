"""Plain data-parallel training: a program of its own. See ``__main__``."""

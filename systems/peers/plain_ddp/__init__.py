"""Plain data-parallel training as a stand-alone program. See ``__main__``."""

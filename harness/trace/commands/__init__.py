"""Commands of ``python -m harness.trace``."""

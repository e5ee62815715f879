"""Error for a profile that cannot be used, with all its mistakes."""

from __future__ import annotations

from harness.errors import UserError


class ProfileError(UserError):
    """Mistakes of a profile; ``problems`` has a line for each: place, fact and hint."""

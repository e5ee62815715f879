"""The error for a profile that cannot be used, with all its mistakes."""

from __future__ import annotations

from collections.abc import Sequence


class ProfileError(Exception):
    """An error for a profile that cannot be used.

    ``problems`` holds one line for each mistake: its place, the fact and the way out.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)

    def __reduce__(self) -> tuple[type[ProfileError], tuple[list[str]]]:
        return type(self), (self.problems,)

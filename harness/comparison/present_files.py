"""Current contents of the files behind a stored run's trace and profile, if they still exist.

The run may come from another person. Nothing that its configuration names is imported or built. Of
the files that it names, only a digest is compared with the run's own.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

from harness.configuration.identity import is_named_by_path, own_paths
from harness.errors import UserError
from harness.profiles import load_profile
from harness.trace.build import present_files_digest

_UNREADABLE = (OSError, ValueError, UserError)
"""Errors that are raised for files that are gone or no longer fit the configuration."""


@dataclass
class PresentFiles:
    """Digests of the user's own files as they are now. Each file is read once."""

    _traces: dict[str, str | None] = field(default_factory=dict)
    _profiles: dict[str, tuple[str, str] | None] = field(default_factory=dict)

    def trace(self, name: str, config: Any) -> str | None:
        """Return the current digest of a trace's files, as in manifests; None if it is unknown.

        Args:
            name: key that is the same for configurations that name the same files.
            config: the trace of a run's configuration.
        """
        if name not in self._traces:
            digest = None
            if own_paths(config):
                with contextlib.suppress(*_UNREADABLE):
                    digest = present_files_digest(config)
            self._traces[name] = digest
        return self._traces[name]

    def profile(self, name: str, config: Any) -> tuple[str, str] | None:
        """Return a profile's current digests of numbers and of its other statements; None if
        unknown.

        Args:
            name: key that is the same for configurations that name the same files.
            config: the profile of a run's configuration.
        """
        if name not in self._profiles:
            digests = None
            if is_named_by_path(config):
                with contextlib.suppress(*_UNREADABLE):
                    profile = load_profile(config)
                    digests = profile.digest, profile.stated_digest
            self._profiles[name] = digests
        return self._profiles[name]

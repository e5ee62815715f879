"""Digests of the data behind a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.profiles import Profile
    from harness.trace.model.trace import Trace
from harness.configuration.identity import is_named_by_path


def input_digests(
    profile_config: Mapping[str, Any], trace: Trace, profile: Profile
) -> dict[str, str]:
    """Return the digests that identify a run in addition to its configuration, by name.

    A shipped profile is in the configuration as a whole. For a profile named by a path, the digest
    of its other statements counts too.
    """
    digests = {"trace": trace.digest, "profile": profile.digest}
    if is_named_by_path(profile_config) and profile.stated_digest:
        digests["profile_stated"] = profile.stated_digest
    return digests

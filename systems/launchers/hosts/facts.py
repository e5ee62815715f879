"""Facts of this host: versions, and a digest of the code that it runs."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import Final

from systems.launchers.hosts.messages import HostFacts

_PACKAGES: Final = ("torch", "numpy", "msgspec")
"""Packages whose versions decide whether two hosts compute the same and understand each other."""
_SOURCES: Final = ("harness", "systems", "workloads")


def host_facts() -> HostFacts:
    """Return the facts of this host, as this process sees it."""
    return HostFacts(
        packages={"python": platform.python_version()}
        | {name: metadata.version(name) for name in _PACKAGES},
        code_digest=code_digest(),
    )


@cache
def code_digest() -> str:
    """Return the SHA-256 of the source files that workers run, by their paths in the packages."""
    digest = hashlib.sha256()
    for name in _SOURCES:
        spec = util.find_spec(name)
        for root in sorted(spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(root).rglob("*.py")):
                digest.update(f"{name}/{path.relative_to(root)}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def differences(here: HostFacts, there: HostFacts) -> list[str]:
    """Return how a host's code or versions differ from those of the driver, as clauses."""
    found = [
        f"{name} is {there.packages.get(name, 'missing')} there and {version} here"
        for name, version in here.packages.items()
        if there.packages.get(name) != version
    ]
    if here.code_digest != there.code_digest:
        found.append("the code of Elastrace differs there")
    return found

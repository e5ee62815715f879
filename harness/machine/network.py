"""Network of this machine, as the worker processes need it."""

from __future__ import annotations

from functools import lru_cache

import psutil


@lru_cache(maxsize=64)
def interface_of(address: str) -> str | None:
    """Return the name of this machine's interface with that address; None if no interface has it.

    Collectives that use it stay on the network of the host's address.
    """
    for name, entries in psutil.net_if_addrs().items():
        if any(entry.address == address for entry in entries):
            return name
    return None

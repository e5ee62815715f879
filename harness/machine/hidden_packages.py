"""Packages of Elastrace that are hidden by a file in the current directory.

``python -m`` looks in the current directory first. A plain folder there hides nothing; a package or
module does.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from harness.errors import Problem

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("systems", "workloads", "reports")


def hidden_packages() -> list[Problem]:
    """Return a problem for each package of Elastrace for which Python finds another one."""
    found = []
    for name in _PACKAGES:
        spec = find_spec(name)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is not None and origin.parent != _ROOT / name:
            fact = f"hides Elastrace's package {name}"
            hint = "rename it, work in another directory, or set PYTHONSAFEPATH=1"
            found.append(Problem(str(origin), fact, hint))
    return found

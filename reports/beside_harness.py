"""Ends the process with one line if what Python calls harness is not Elastrace's.

Every other module of the report imports harness. If a package in the directory of a command hides
it (``harness/hidden.py`` has the other packages), only code that needs nothing of it can say so.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

_harness = find_spec("harness")
_place = Path((_harness.origin if _harness is not None else None) or "harness").resolve()
if _place.parent.parent != Path(__file__).resolve().parent.parent:
    print(
        f"{_place}: hides Elastrace's package harness; rename it, work in another directory, or"
        " set PYTHONSAFEPATH=1",
        file=sys.stderr,
    )
    sys.exit(2)

"""Check that ``harness`` is Elastrace's package; otherwise end the process with one line.

Every other module of the report imports ``harness``. If a package in the working directory hides
it, only code that does not import it can say so. ``harness/machine/hidden_packages.py`` checks the
other packages.
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

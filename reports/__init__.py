"""The report: figures, tables and a static page from stored runs, and from nothing else."""

import sys
from importlib.util import find_spec
from pathlib import Path

# Every module of the report imports harness. If a directory of the user's hides it, only code that
# needs nothing of it can say so.
_harness = find_spec("harness")
_place = Path((_harness.origin if _harness is not None else None) or "harness").resolve()
if _place.parent.parent != Path(__file__).resolve().parent.parent:
    print(
        f"{_place}: hides Elastrace's package harness; rename it, work in another directory, or"
        " set PYTHONSAFEPATH=1",
        file=sys.stderr,
    )
    sys.exit(2)
from harness.starting import end_at_once_until_main  # noqa: E402

end_at_once_until_main()

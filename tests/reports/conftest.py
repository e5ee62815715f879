"""Report tests share the sample runs of the result tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "results"))

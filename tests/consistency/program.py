"""Stands in for a reference: what it writes is right, unless it is told to do otherwise."""

import json
import sys
from pathlib import Path

if "--fail" in sys.argv:
    print("no room for another worker", file=sys.stderr)
    sys.exit(3)
step = {"step": 1, "loss": "0x1p6", "losses": ["0x1p0", "0x1p1"]}
end = {"digest_buffers": "0"}
if "--half" in sys.argv:
    del step["losses"]
if "--no-digests" in sys.argv:
    del end["digest_buffers"]
lines = [] if "--empty" in sys.argv else [step, end]
out = Path(sys.argv[sys.argv.index("--out") + 1])
out.write_text("".join(json.dumps(line) + "\n" for line in lines))

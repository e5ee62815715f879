"""``python -m tests.fuzz --minutes 30 --out FILE``: hostile inputs for every reader, on record.

Inputs come from atheris (``pip install .[fuzz]``), which follows the code that they reach. Targets
take turns, each turn a process of its own, so that none starves and a dead interpreter costs
one turn. The record counts, by target: inputs, crashes (any error but the project's own refusals),
hangs, inputs that wrote elsewhere, started a process or imported what they name, the longest input
in seconds of the processor, and the most memory of a process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.files.atomic_json import write_json
from harness.machine.manifest import environment
from tests.fuzz.target import MOST_CPU_S

TARGETS = (
    "traces", "profiles", "clusters", "studies", "manifests", "tables", "archives", "checkpoints",
    "messages",
)  # fmt: skip
_COUNTS = ("inputs", "crashes", "hangs", "strayed")


def main() -> int:
    """Fuzz until the time is over or the inputs are made; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="over all targets")
    parser.add_argument("--turn-s", type=float, default=30.0, help="wall-clock seconds of a turn")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument(
        "--out", type=Path, required=True, help="the record; a round is added to it"
    )
    parser.add_argument("--kept", type=Path, required=True, help="folder of inputs and crashes")
    chosen = parser.parse_args()
    document = _document(chosen.out)
    record = _begun()
    document["rounds"].append(record)
    end = time.monotonic() + 60 * chosen.minutes
    while time.monotonic() < end and _total(record) < chosen.inputs:
        # The target with the fewest turns is next: slow readers get as much time as quick ones.
        name = min(chosen.targets, key=lambda each: record["targets"].get(each, {}).get("turns", 0))
        turn_s = min(chosen.turn_s, end - time.monotonic())
        _add(record["targets"].setdefault(name, {}), _turn(name, turn_s, chosen.kept))
        record["total"] = {key: _sum(record, key) for key in _COUNTS}
        write_json(chosen.out, document)
    print(json.dumps(record["total"]))
    return 1 if any(record["total"][key] for key in _COUNTS[1:]) else 0


def _document(out: Path) -> dict[str, Any]:
    """Return the record so far: every call adds a round, which is of one state of the code."""
    found: dict[str, Any] = {"schema_version": 1, "rounds": []}
    if out.is_file():
        found = json.loads(out.read_text())
    return found


def _begun() -> dict[str, Any]:
    made = environment(["python", "-m", "tests.fuzz", *sys.argv[1:]])
    return {**made, "bounds": {"cpu_s_per_input": MOST_CPU_S}, "total": {}, "targets": {}}


def _sum(record: dict[str, Any], key: str) -> int:
    return sum(int(found.get(key, 0)) for found in record["targets"].values())


def _total(record: dict[str, Any]) -> int:
    return _sum(record, "inputs")


def _turn(name: str, turn_s: float, kept: Path) -> dict[str, Any]:
    """Let one target run in a process of its own; what it counted."""
    with tempfile.TemporaryDirectory() as folder:
        counted = Path(folder) / "counted.json"
        words = ["-m", "tests.fuzz.turn", name, str(turn_s), str(counted), str(kept)]
        done = subprocess.run([sys.executable, *words], stderr=subprocess.PIPE, check=False)
        found: dict[str, Any] = json.loads(counted.read_text()) if counted.is_file() else {}
        if not found.pop("ended", False):  # the interpreter itself died
            found["crashes"] = found.get("crashes", 0) + 1
            (kept / f"{name}-death.txt").write_bytes(done.stderr[-20_000:])
        return {**found, "turns": 1}


def _add(into: dict[str, Any], found: dict[str, Any]) -> None:
    for key, value in found.items():
        is_most = key.startswith("most_")
        into[key] = max(into.get(key, 0), value) if is_most else into.get(key, 0) + value


if __name__ == "__main__":
    sys.exit(main())

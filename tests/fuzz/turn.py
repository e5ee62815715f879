"""One turn of one target: atheris gives it inputs until the time is over."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

_WRITTEN_EVERY_S = 2.0
_KEPT = 20
"""Inputs of each kind of fault that are kept."""


def main() -> None:
    """Fuzz; libFuzzer ends the process."""
    import atheris

    name, turn_s, counted, kept = (
        sys.argv[1],
        float(sys.argv[2]),
        Path(sys.argv[3]),
        Path(sys.argv[4]),
    )
    with atheris.instrument_imports(include=["harness", "systems.runtime", "reports"]):
        target = importlib.import_module(f"tests.fuzz.{name}").TARGET
    from tests.fuzz.target import give

    warnings.simplefilter("ignore")
    corpus = kept / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    place = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    counts: dict[str, Any] = {
        "inputs": 0,
        "crashes": 0,
        "hangs": 0,
        "strayed": 0,
        "most_cpu_s": 0.0,
    }
    until = time.monotonic() + turn_s
    written = 0.0

    def write(ended: bool) -> None:
        peak_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        text = json.dumps({**counts, "most_memory_bytes": peak_bytes, "ended": ended})
        counted.write_text(text)

    def one(data: bytes) -> None:
        nonlocal written
        folder = place / "input"
        folder.mkdir()
        outcome = give(target, data, folder)
        shutil.rmtree(folder, ignore_errors=True)
        counts["inputs"] += 1
        counts["hangs"] += outcome.is_hang
        counts["strayed"] += bool(outcome.strayed)
        counts["crashes"] += outcome.crash is not None
        counts["most_cpu_s"] = max(counts["most_cpu_s"], round(outcome.cpu_s, 3))
        if outcome.crash is not None:
            frames = traceback.format_exception(outcome.crash)
            _keep(kept, name, "crash", data, "".join(frames), frames[-1] + frames[-2][:200])
        if outcome.is_hang or outcome.strayed:
            kind = "hang" if outcome.is_hang else "strayed"
            _keep(kept, name, kind, data, "\n".join(outcome.strayed), str(outcome.strayed[:1]))
        now = time.monotonic()
        if now - written > _WRITTEN_EVERY_S:
            written = now
            write(ended=False)
        if now > until:
            write(ended=True)
            shutil.rmtree(place, ignore_errors=True)
            os._exit(0)  # libFuzzer's own end would wait for its next report

    words = [sys.argv[0], str(corpus), "-max_len=4096", "-rss_limit_mb=8000", "-timeout=3600"]
    atheris.Setup([*words, "-print_final_stats=0", "-verbosity=0", "-detect_leaks=0"], one)
    atheris.Fuzz()


def _keep(kept: Path, name: str, kind: str, data: bytes, text: str, which: str) -> None:
    digest = hashlib.sha256(which.encode()).hexdigest()[:10]
    base = kept / f"{name}-{kind}-{digest}"
    if (
        not base.with_suffix(".bin").exists()
        and len(list(kept.glob(f"{name}-{kind}-*.bin"))) < _KEPT
    ):
        base.with_suffix(".bin").write_bytes(data)
        base.with_suffix(".txt").write_text(text, errors="backslashreplace")


if __name__ == "__main__":
    main()

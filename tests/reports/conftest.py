"""Report tests share the sample runs of the result tests, and one whole site."""

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "results"))

RECORD = {
    "hardware": {"cpu": "Quiet CPU", "cores": 4, "memory_bytes": 16 << 30, "accelerators": []},
    "load": {"load_1min": 0.5},
    "load_1min": {"median": 0.25},
    "packages": {"torch": "9.9.9"},
    "cells": [
        {
            "workload": "tiny/vgg16",
            "num_workers": 2,
            "trials": 7,
            "median": {"noise": {"value": 1.02, "low": 0.99, "high": 1.05}},
        }
    ],
}
"""A record of the overhead, as far as the pages read it."""


PLANS = {
    "hardware": RECORD["hardware"],
    "packages": RECORD["packages"],
    "settings": {
        "jobs": 100,
        "steps": 5,
        "nodes": 190,
        "trials": 3,
        "gap": 0.001,
        "methods": ["fast", "tight"],
    },
    "rows": [
        {
            "trial": trial,
            "method": method,
            "wall_ms": factor * (trial + 1),
            "cpu_ms": factor,
            "below_best_bound": 0.0001 * trial,
        }
        for method, factor in (("fast", 10.0), ("tight", 1000.0))
        for trial in range(3)
    ],
}
"""A record of plans, as far as the pages read it."""


@pytest.fixture(scope="session")
def full_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two schedulers in both engines, five trials each; records of the overhead and of plans."""
    from sample_runs import write_run

    root = tmp_path_factory.mktemp("runs")
    for scheduler in ("fifo", "uniform"):
        for repetition in range(5):
            load = {"load_1min": 0.2 * (repetition + 1)}
            write_run(root, scheduler=scheduler, repetition=repetition)
            write_run(root, scheduler=scheduler, live=True, repetition=repetition, load=load)
    (root / "bench_overhead").mkdir()
    (root / "bench_overhead" / "record.json").write_text(json.dumps(RECORD))
    (root / "hu_plans").mkdir()
    (root / "hu_plans" / "record.json").write_text(json.dumps(PLANS))
    return root


@pytest.fixture(scope="session")
def full_site(full_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of these runs."""
    from reports.__main__ import main

    out = tmp_path_factory.mktemp("site")
    assert main(["--results", str(full_store), "--out", str(out)]) == 0
    return out

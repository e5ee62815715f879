"""Marks: what a worker writes is what another process sees, also when the worker is dead."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from harness.contracts.marks import WorkerPhase
from harness.faults.marks import SeenMarks
from systems.runtime.worker.mark import PhaseMark

NUM_STORES = 2000
LIMIT_S = 20e-6
"""What a store is held to here, where anything may run beside; measured alone it is below 0.5 µs
(docs/measurements/faults.md). A call to the system for every store would already be slower."""


def test_what_is_stored_is_seen(tmp_path: Path) -> None:
    seen = SeenMarks(tmp_path)
    assert seen.of("w1") is None
    assert seen.doing("w1") is WorkerPhase.START
    mark = PhaseMark(str(tmp_path / "w1"))
    found = seen.of("w1")
    assert found is not None
    assert (found.pid, found.leads, found.is_first) == (os.getpid(), False, False)
    assert seen.doing("w1") is WorkerPhase.PREPARE
    for doing in WorkerPhase:
        mark.now(doing)
        assert found.doing == doing
    mark.leads(True)
    mark.first(True)
    assert (found.leads, found.is_first) == (True, True)
    mark.leads(False)
    assert (found.leads, found.is_first, found.doing) == (False, True, max(WorkerPhase))


def test_the_last_word_of_a_dead_worker_stays(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        PhaseMark(str(tmp_path / "w1")).now(WorkerPhase.UPDATE)
        signal.pause()
    seen = SeenMarks(tmp_path)
    while seen.doing("w1") is not WorkerPhase.UPDATE:
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert seen.doing("w1") is WorkerPhase.UPDATE


def test_a_store_costs_no_call_to_the_system(tmp_path: Path) -> None:
    mark = PhaseMark(str(tmp_path / "w1"))
    best_s = float("inf")
    for _ in range(50):
        started = time.perf_counter()
        for _ in range(NUM_STORES):
            mark.now(WorkerPhase.FORWARD)
        best_s = min(best_s, (time.perf_counter() - started) / NUM_STORES)
    assert best_s < LIMIT_S


def test_without_a_file_nobody_sees_it(tmp_path: Path) -> None:
    PhaseMark(None).now(WorkerPhase.UPDATE)
    assert list(tmp_path.iterdir()) == []

"""What virtual workers that take turns on one slot cost, in time and in memory.

As in ``tests/virtual/run_phases.py`` and ``run_memory.py``, whose texts say what is measured.
"""

import os
import random
import statistics
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from systems.runtime.driver.launch import slot_environment
from systems.runtime.wire.kernels import kernels_of
from tests.gpu.jobs import shared_cluster
from tests.virtual.run_memory import gradient_bytes, workload
from tests.virtual.run_phases import SWITCH, WARM_UP, Pair

ADDRESS = "127.0.0.1"
STEPS = 4
"""After so many everything has been allocated once."""


def turns(device, folder, model, pool="small", workers=4, batch=32, steps=20):
    """Steps of virtual workers and of accumulation in drawn order, then phases of the former.

    Phases are watched after the steps were timed: on a device they have to wait for it.
    """
    pair = _pair(device, folder, workload(pool, model), workers, batch)
    drawn, steps_s = random.Random(model), {"virtual": [], "plain": []}
    for number in range(WARM_UP + steps):
        for kind in drawn.sample(("virtual", "plain"), 2):
            took_s = _timed(pair, kind)
            if number >= WARM_UP:
                steps_s[kind].append(took_s)
    pair.watch()
    phases_s, whole_s = defaultdict(list), []
    for _ in range(steps):
        pair.spent_s.clear()
        whole_s.append(_timed(pair, "virtual"))
        for phase, spent_s in pair.spent_s.items():
            phases_s[phase].append(spent_s)
    pair.trainer.close()
    medians_s = {phase: statistics.median(own) for phase, own in phases_s.items()}
    ratios = np.array(steps_s["virtual"]) / np.array(steps_s["plain"])
    return {
        "pool": pool, "logical_workers": workers, "batch": batch, "steps": steps,
        "plain_step_s": statistics.median(steps_s["plain"]),
        "virtual_step_s": statistics.median(steps_s["virtual"]),
        "over_plain": statistics.median(steps_s["virtual"]) / statistics.median(steps_s["plain"]),
        "over_plain_quartiles": [float(end) for end in np.percentile(ratios, (25, 75))],
        "watched_step_s": statistics.median(whole_s),
        "phases_s": medians_s,
        "switch_share": sum(medians_s.get(phase, 0.0) for phase in SWITCH)
        / statistics.median(whole_s),
    }  # fmt: skip


def memory(device, folder, model, pool="small", counts=(1, 2, 4, 8), batch=4):
    """Most memory that a slot has held with so many virtual workers, and the slope over them in
    copies of the gradients; each number in a process of its own."""
    spec, peaks = workload(pool, model), []
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        for count in counts:
            own = folder / str(count)
            own.mkdir()
            peaks.append(processes.submit(peak_bytes, device, own, spec, count, batch).result())
    copy = gradient_bytes(spec)
    return {
        "pool": pool, "batch_each": batch, "logical_workers": list(counts),
        "peak_bytes": peaks, "gradient_bytes": copy,
        "copies_a_worker": float(np.polyfit(counts, peaks, 1)[0]) / copy,
    }  # fmt: skip


def peak_bytes(device, folder, spec, workers, batch):
    """Of a few steps: of tensors on the device or, on a CPU, of the whole process."""
    pair = _pair(device, folder, spec, workers, batch * workers)
    for _ in range(STEPS):
        pair.virtual()
    pair.settle()
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def _pair(device, folder, spec, workers, batch):
    slot = shared_cluster(device).slots[0]
    os.environ |= slot_environment(slot, ADDRESS, kernels_of(slot))
    return Pair(0, spec, workers, 1, batch, str(folder), device)


def _timed(pair, kind):
    pair.settle()
    began = time.perf_counter()
    getattr(pair, kind)()
    pair.settle()
    return time.perf_counter() - began

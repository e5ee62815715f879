"""Needs of a live run before its first worker starts: memory, and modules to pre-import."""

from __future__ import annotations

from harness.contracts.process import Warmth
from harness.engines.setup import EngineSetup


def estimated_memory_bytes(setup: EngineSetup) -> int:
    """Return the memory if every slot runs workers of the largest workload and as many more start.

    A slot has one worker. Where the backend gives it several executors, it has at most one per
    logical worker. A rescale can keep the old workers while the new ones start. The new ones count
    half, because they have no activations yet: only one worker per slot and executor trains. Spares
    that wait are added, with what standbys have built.
    """
    executors = setup.backend.executors
    sizes = [
        setup.memory_bytes_per_worker.get(job.workload, 0) * min(executors, job.num_logical_workers)
        for job in setup.jobs
    ]
    num_slots = setup.cluster.num_slots
    warmth, spares_bytes = setup.backend.warmth, 0
    if warmth.is_kept:
        known = {job.workload for job in setup.jobs} if warmth is Warmth.STANDBY else set()
        built_bytes = sum(setup.memory_bytes_per_worker.get(name, 0) for name in known)
        spares_bytes = setup.launcher.spares_bytes(num_slots, built_bytes)
    return int(1.5 * num_slots * max(sizes, default=0)) + spares_bytes


def reference_memory_bytes(setup: EngineSetup) -> int:
    """Return the memory of the largest reference training, with all its fixed workers at once."""
    memory = setup.memory_bytes_per_worker
    sizes = (job.num_logical_workers * memory.get(job.workload, 0) for job in setup.jobs)
    return max(sizes, default=0)


def workload_modules(setup: EngineSetup) -> list[str]:
    """Return the modules of the workloads that the trace's jobs train, sorted."""
    used = {job.workload for job in setup.jobs}
    return sorted(
        {spec.target.rpartition(".")[0] for name, spec in setup.workloads.items() if name in used}
    )

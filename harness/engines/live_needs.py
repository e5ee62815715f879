"""What a live run needs before its first worker starts: memory, and modules to import ahead."""

from __future__ import annotations

from harness.contracts.launcher import Warmth
from harness.engines.setup import EngineSetup


def estimated_memory_bytes(setup: EngineSetup) -> int:
    """Memory if every slot runs the workers of the largest workload, and as many start beside.

    A slot has one worker or, where the backend gives it several executors, as many as there are
    logical workers to run in them. A rescale can keep the old workers while the new ones start,
    but only one worker a slot and executor trains; the second is counted at half its size since it
    has no activations yet. Spares that wait for their work come on top, with what standbys have
    built.
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
    """Memory of the largest training that a job is held to, all its fixed workers side by side."""
    memory = setup.memory_bytes_per_worker
    sizes = (job.num_logical_workers * memory.get(job.workload, 0) for job in setup.jobs)
    return max(sizes, default=0)


def workload_modules(setup: EngineSetup) -> list[str]:
    """Modules of the workloads that the trace's jobs train, sorted."""
    used = {job.workload for job in setup.jobs}
    return sorted(
        {spec.target.rpartition(".")[0] for name, spec in setup.workloads.items() if name in used}
    )

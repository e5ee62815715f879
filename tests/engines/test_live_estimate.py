"""How long a live run is said to take where nobody has measured its program."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.contracts.workload import WorkloadSpec
from harness.engines.live.memory_estimate import estimated_memory_bytes
from harness.engines.live.options import Live
from tests.engines.setups import setup
from tests.replay.worlds import Mechanism, job, profile

WORK = 80_000.0
"""10,000 steps of eight samples."""


def estimate_s(memory_bytes: int, **options: object) -> float:
    world = setup(profile(), job("a", 0.0, 2, WORK, workload="net"))
    world = replace(
        world,
        workloads={"net": WorkloadSpec("net", "workloads.toy.Toy", options)},
        memory_bytes_per_worker={"net": memory_bytes},
    )
    return Live(fast_forward=False).estimated_wall_s(world)


def test_steps_of_toys_are_short_and_those_of_an_emulated_device_as_long_as_it_says() -> None:
    toy = estimate_s(318_000_000)
    real = estimate_s(1_000_000_000)
    assert toy < 60 < 1000 < real
    # Eight samples of 10 ms on two slots, on half of the slots of the cluster.
    slow = estimate_s(318_000_000, sample_s=0.01)
    assert slow - toy == pytest.approx(10_000 * 0.04 / 2)
    assert estimate_s(0) == real, "of which nothing is known"


def test_programs_without_a_curve_are_guessed_also_where_others_were_measured() -> None:
    world = setup(profile(), job("a", 0.0, 2, WORK, workload="absent"))
    provenance = {**world.profile.provenance, "measured_here": True}
    measured = replace(world, profile=replace(world.profile, provenance=provenance))
    live = Live(fast_forward=False)
    assert live.estimated_wall_s(measured) == live.estimated_wall_s(world) > 1000


@pytest.mark.parametrize(("executors", "processes"), [(1, 1), (2, 2), (5, 3)])
def test_memory_counts_every_executor_of_a_slot(executors: int, processes: int) -> None:
    """As many as there are logical workers, three, to run in them."""
    net = replace(job("a", 0.0, 2, WORK, workload="net"), logical_workers=3)
    world = setup(profile(), net)
    per_worker = 1_000_000_000
    world = replace(
        world,
        backend=Mechanism(executors=executors),  # type: ignore[arg-type]
        memory_bytes_per_worker={"net": per_worker},
    )
    expected = 1.5 * world.cluster.num_slots * processes * per_worker
    assert estimated_memory_bytes(world) == expected

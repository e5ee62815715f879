"""Jobs that are saved, stopped and started again are recovered bitwise, whenever a worker dies."""

import random

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.engines.live.slot_outages import WatchedLauncher
from harness.faults.injector import FaultyBackend
from harness.faults.plan import FaultPlan
from systems.backends.virtual_thread import VirtualThread
from tests.backends.world import World, workers
from tests.elastic.histories import STEP_S
from tests.virtual.worlds import BATCH, SEED, check_same_bits

OF_A_STEP = ("forward", "backward", "reduce", "update", "between")
OPTIONS = {"step_s": STEP_S, "width": 100}
ATTEMPTS = 5
"""A phase of a step may be over before the signal is there; then its mark says so."""
AGAIN = (ReportKind.DONE, ReportKind.LOST)
"""How a change ends here."""


def by_checkpoints(launcher, folder, plan=None):
    """A world of virtual threads that restart, struck as planned."""
    backend = VirtualThread(start="preimported", reconfigure="checkpoint", checkpoint_every=7)
    watched = WatchedLauncher(launcher)
    if plan is not None:
        backend = FaultyBackend(backend, watched, plan, str(folder))
    return World(backend, watched, folder)


def begin(world, slots, num_workers):
    job = {"seed": SEED, "batch": BATCH, "logical_workers": num_workers}
    world.until_change(world.start(slots, **job, **OPTIONS))


def ended(world, change):
    """How a change ended: done, or the job was lost in it. It may have been read already."""

    def is_answer(report):
        return report.kind in AGAIN and report.change_id == change

    return next(filter(is_answer, world.reports), None) or world.until(is_answer)


def is_lost(world, since=0):
    """Whether the job lost its workers by a death that has happened (``since`` so many reports).

    If not, the struck one had nothing to do for it any more, and the others go on: by more steps
    than can have been made before the death and not been read.
    """
    if any(report.kind is ReportKind.LOST for report in world.reports[since:]):
        return True
    goal = world.reports[-1].step + 100
    report = world.until(lambda r: r.kind is ReportKind.LOST or r.step >= goal)
    return report.kind is ReportKind.LOST


def resume(world, slots):
    return world.ask(ChangeKind.RESUME, slots, batch=BATCH)


def end_of(world):
    """Some more steps, another change, and the end."""
    world.until_step(world.reports[-1].step + 5)
    world.do(ChangeKind.RESCALE, (2,), batch=BATCH)
    world.until_step(world.reports[-1].step + 5)
    world.backend.set_target_step("job", 0)
    return world.until_end()


def struck_once(launcher, folder, moment, during, num_workers):
    """One life with one death, held to stock training; returns the fault."""
    plan = FaultPlan(count=1, at=(moment,), during=during, settle_s=0.1, spread_s=0.2)
    world = by_checkpoints(launcher, folder, plan)
    few, many = (0, 1), (1, 2, 3)[:num_workers]
    try:
        now = many
        begin(world, now, num_workers)
        while not world.backend.faults:
            step = world.reports[-1].step
            world.until(lambda r, goal=step + 12: r.step >= goal or world.backend.faults)
            if plan.is_of_a_change(moment):
                now = few if now == many else many
                ended(world, world.ask(ChangeKind.RESCALE, now, batch=BATCH))
        if is_lost(world):
            world.until_change(resume(world, (0, 2)))
        end = end_of(world)
        (fault,) = world.backend.faults
    finally:
        world.backend.close()
    check_same_bits(world, folder, end, num_workers, BATCH, **OPTIONS)
    return fault


def struck_in(launcher, folder, moment, during="steady", num_workers=4):
    """Lives until one was struck where it should be."""
    faults = []
    while not faults or faults[-1].struck_in != moment:
        assert len(faults) < ATTEMPTS, faults
        into = folder / str(len(faults))
        faults.append(struck_once(launcher, into, moment, during, num_workers))


@pytest.mark.parametrize("num_workers", [2, pytest.param(4, marks=pytest.mark.long)])
def test_a_death_while_the_job_is_saved_for_a_change_leaves_no_trace(
    launcher, tmp_path, num_workers
):
    struck_in(launcher, tmp_path, "save", "change", num_workers)


@pytest.mark.long
@pytest.mark.parametrize(
    "moment",
    [
        *(pytest.param(moment, marks=pytest.mark.soak) for moment in OF_A_STEP[1:]),
        OF_A_STEP[0],
        "save",
    ],
)
def test_a_death_in_a_step_or_between_leaves_no_trace(launcher, tmp_path, moment):
    struck_in(launcher, tmp_path, moment)


@pytest.mark.long
@pytest.mark.parametrize("moment", ["leave", "prepare", "copy"])
def test_a_death_while_slots_leave_or_the_job_restarts_leaves_no_trace(launcher, tmp_path, moment):
    struck_in(launcher, tmp_path, moment)


def kill_one(world, rng):
    """Any worker, once there is one; which."""
    while not (found := workers()):
        world.poll(0.01)
    victim = rng.choice(found)
    victim.kill()
    return victim


def hesitate(world, rng):
    for _ in range(rng.randint(0, 25)):
        world.poll(0.02)


def hurt(world, rng, num_deaths):
    """Kill workers at random moments: of steps, of changes, and of the restarts after a loss."""
    for _ in range(num_deaths):
        world.until_step(world.reports[-1].step + rng.randint(1, 9))
        leavers = []
        if rng.random() < 0.5:
            leavers = workers()
            slots = tuple(rng.sample(range(4), rng.randint(1, 4)))
            change = world.ask(ChangeKind.RESCALE, slots, batch=BATCH)
            hesitate(world, rng)
        victim = kill_one(world, rng)
        is_hurt = is_lost(world, since=len(world.reports))
        # One that was leaving, and had saved what the others go on from, can die in peace.
        assert is_hurt or (victim in leavers and ended(world, change).kind is ReportKind.DONE)
        while is_hurt:
            change = resume(world, tuple(rng.sample(range(4), rng.randint(1, 4))))
            hesitate(world, rng)
            if is_hurt := rng.random() < 0.4:
                kill_one(world, rng)
            if ended(world, change).kind is ReportKind.DONE and is_hurt:  # it died after that
                world.until(lambda r: r.kind is ReportKind.LOST)


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3))]
)
def test_workers_killed_at_random_leave_no_trace(launcher, tmp_path, seed):
    world = by_checkpoints(launcher, tmp_path)
    try:
        begin(world, (0, 1, 2), 4)
        hurt(world, random.Random(seed), num_deaths=6)
        end = end_of(world)
    finally:
        world.backend.close()
    check_same_bits(world, tmp_path, end, 4, BATCH, **OPTIONS)

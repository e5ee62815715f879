"""A worker dies or hangs in each phase of its work: the others go on, with the bits of their
history."""

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.engines.live.slot_outages import WatchedLauncher
from harness.faults.injector import FaultyBackend
from harness.faults.plan import FaultPlan
from systems.backends.stop_free import StopFree
from tests.backends.world import ENDS, World
from tests.elastic.histories import (
    BATCH,
    DATA,
    SOON,
    STEP_S,
    TRANSFERS,
    check_samples,
    forced,
    history,
)

OF_A_STEP = ("forward", "backward", "reduce", "update")
ANSWERS = (ReportKind.DONE, ReportKind.FAILED, ReportKind.RETRY)
ATTEMPTS = 20
"""A phase of a step may be over before the signal is there; then its mark says so."""


FEW, MANY, ELSEWHERE = (0, 1), (0, 1, 2), (0, 2)


def struck_once(
    launcher,
    folder,
    moment,
    who="any",
    transfer="background",
    to=MANY,
    signal="SIGKILL",
    **options,
):
    """One life with one death, held to its history; returns the fault. ``to``: other slots.

    A recovery may be over before anybody is struck in it. Too few are left for another one then,
    and the fault is the death that it was about.
    """
    watched = WatchedLauncher(launcher)
    plan = FaultPlan(count=1, at=(moment,), who=who, settle_s=0.1, spread_s=0.2, signal=signal)
    options = {"transfer": transfer, "recovery": "exact", **SOON, **DATA, **options}
    inner = StopFree(start="preimported", **options)
    backend = FaultyBackend(inner, watched, plan, str(folder))
    world = World(backend, watched, folder / "free")
    try:
        now = to if moment == "recover" else FEW
        world.until_change(world.start(now, batch=BATCH, step_s=STEP_S))
        while not any(fault.aimed_at == moment for fault in backend.faults):
            after_some_steps(world)
            if moment == "recover" and backend.num_missed:
                break
            if plan.is_of_a_change(moment):
                now = FEW if now == to else to
                kind = ChangeKind.MIGRATE if len(to) == len(FEW) else ChangeKind.RESCALE
                change = world.ask(kind, now, batch=BATCH)
                until(world, lambda r, own=change: r.change_id == own and r.kind in ANSWERS)
        after_some_steps(world)
        backend.set_target_step("job", 0)
        end = world.until_end()
        fault = backend.faults[-1]
        assert watched.crashes == []
    finally:
        backend.close()
    segments = history(world.job_dir(), end.step)
    assert end.results == forced(launcher, folder / "forced", segments)
    check_samples(world.job_dir(), end)
    return fault


def until(world, wanted):
    """Poll until a report is wanted; the job must not end, nor be lost."""

    def is_it(report):
        is_of_a_change = report.kind is ReportKind.FAILED and report.change_id is not None
        assert report.kind not in ENDS or is_of_a_change, str(report)
        return wanted(report)

    world.until(is_it)


def after_some_steps(world):
    seen = max(report.step for report in world.reports)
    until(world, lambda report: report.step >= seen + 20)


def struck_in(launcher, folder, moment, **options):
    """Lives until one was struck where it should be."""
    faults = []
    while not faults or faults[-1].struck_in != moment:
        assert len(faults) < ATTEMPTS, faults
        faults.append(struck_once(launcher, folder / str(len(faults)), moment, **options))
    return faults[-1]


@pytest.mark.parametrize("moment", ["update"])
def test_a_death_in_the_update_gives_the_bits_of_its_history(launcher, tmp_path, moment):
    struck_in(launcher, tmp_path, moment)


@pytest.mark.long
@pytest.mark.parametrize("who", ["leader", "first", "any"])
@pytest.mark.parametrize("moment", OF_A_STEP)
def test_a_death_in_a_step_gives_the_bits_of_its_history(launcher, tmp_path, moment, who):
    fault = struck_in(launcher, tmp_path, moment, who=who)
    assert who == "any" or (fault.led if who == "leader" else fault.was_first)


@pytest.mark.long
@pytest.mark.parametrize("transfer", TRANSFERS)
@pytest.mark.parametrize("moment", ["prepare", "copy", "switch"])
def test_a_death_in_a_change_gives_the_bits_of_its_history(launcher, tmp_path, moment, transfer):
    struck_in(launcher, tmp_path, moment, transfer=transfer)


@pytest.mark.long
@pytest.mark.parametrize("who", ["leader", "first"])
@pytest.mark.parametrize("transfer", TRANSFERS)
def test_a_leader_s_death_in_a_switch_gives_the_bits_of_its_history(
    launcher, tmp_path, transfer, who
):
    struck_in(launcher, tmp_path, "switch", who=who, transfer=transfer)


@pytest.mark.long
@pytest.mark.parametrize("transfer", TRANSFERS)
def test_a_leader_s_death_where_the_other_is_relieved_gives_the_bits_of_its_history(
    launcher, tmp_path, transfer
):
    """Whoever is about to leave has the only state then, and is the only one that can lead."""
    struck_in(launcher, tmp_path, "switch", who="leader", transfer=transfer, to=ELSEWHERE)


@pytest.mark.long
def test_a_death_while_a_checkpoint_is_written_gives_the_bits_of_its_history(launcher, tmp_path):
    struck_in(launcher, tmp_path, "save", checkpoint_every=5)


@pytest.mark.long
@pytest.mark.parametrize("to", [MANY, ELSEWHERE])
def test_a_death_of_one_that_leaves_gives_the_bits_of_its_history(launcher, tmp_path, to):
    struck_in(launcher, tmp_path, "leave", to=to)


@pytest.mark.long
@pytest.mark.parametrize(
    "moment",
    [
        *(pytest.param(moment, marks=pytest.mark.soak) for moment in (*OF_A_STEP, "leave")),
        *("prepare", "copy", "switch", "recover"),
    ],
)
def test_a_hang_in_a_phase_gives_the_bits_of_its_history(launcher, tmp_path, moment):
    struck_in(launcher, tmp_path, moment, signal="SIGSTOP")


@pytest.mark.long
def test_a_second_death_in_a_recovery_gives_the_bits_of_its_history(launcher, tmp_path):
    struck_in(launcher, tmp_path, "recover")

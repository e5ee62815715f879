"""Stragglers among real workers: one that is slowed is taken out, and nobody else is."""

import subprocess
import sys
from contextlib import suppress
from functools import partial

import psutil
import pytest

from harness.cluster import uniform_cluster
from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.faults.slowing import Slowing
from tests.backends.world import descendants, workers
from tests.elastic.histories import check_samples, forced, history, stop_free

BATCH = 24
SAMPLE_S = 0.005
"""A step of four workers takes 30 ms, and none of it a core's."""
HALF = {"speed": 0.5, "period_s": 0.01, "lasting_s": 120.0}
ENDS = (ReportKind.FAILED, ReportKind.LOST, ReportKind.SHRUNK, ReportKind.FINISHED)


@pytest.fixture
def worlds(launcher, tmp_path):
    opened = []

    def make(num_workers=4, sample_s=SAMPLE_S, **options):
        world = stop_free(launcher, tmp_path / "free", **{"straggler": "remove", **options})
        opened.append(world)
        slots = tuple(range(num_workers))
        world.until_change(world.start(slots, batch=BATCH, sample_s=sample_s))
        return world

    yield make
    for world in opened:
        world.backend.close()
    assert descendants() == []


@pytest.fixture
def slowed():
    begun = []

    def slow(process, **how):
        begun.append(Slowing(**{"signal_worker": ignoring_death(process), **HALF, **how}))
        return begun[-1]

    yield slow
    for slowing in begun:
        slowing.end()


def by_rank():
    """The founders, in the order in which they were started, which is that of their ranks."""
    return sorted(workers(), key=lambda process: process.pid)


def ignoring_death(process):
    """Signals a process while it lives."""
    return partial(_signal, process)


def _signal(process, signum):
    with suppress(psutil.NoSuchProcess):  # a look before would leave a gap between the two
        process.send_signal(signum)


def finish(world):
    world.backend.set_target_step("job", 0)
    return world.until_end()


@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.long), 2])
def test_a_slow_worker_leaves_in_order_and_the_bits_are_those_of_the_history(
    worlds, launcher, tmp_path, victim
):
    world = worlds()
    world.until_step(15)
    process = by_rank()[victim]
    slowing = Slowing(ignoring_death(process), **HALF)
    shrunk = world.until(lambda report: report.kind in ENDS)
    slowing.end()
    assert shrunk.kind is ReportKind.SHRUNK, shrunk
    assert (shrunk.slots, shrunk.lost_slots) == (
        tuple(slot for slot in range(4) if slot != victim),
        (victim,),
    )
    assert len(shrunk.stragglers) == 1
    assert "straggler" in shrunk.reason
    assert "straggler_ratio 1.2 in straggler_window 10" in shrunk.reason
    assert 0 <= shrunk.phases_s["remove_switch"] <= shrunk.phases_s["remove"]
    assert shrunk.change_id is None
    assert process not in workers()
    world.until_step(shrunk.step + 30)
    end = finish(world)
    segments = history(world.job_dir(), end.step)
    assert [segment.num_workers for segment in segments] == [4, 3]
    assert end.results == forced(launcher, tmp_path / "forced", segments)
    check_samples(world.job_dir(), end)


@pytest.mark.long
def test_two_at_once_are_taken_out_at_three_quarters_of_their_speed(launcher, tmp_path, slowed):
    """As in EDL, section 6.2. Together, or one by one if one was slow some steps before."""
    five = uniform_cluster(name="five", num_hosts=1, devices_per_host=5, device_type="cpu")
    world = stop_free(launcher, tmp_path / "free", cluster=five, straggler="remove")
    try:
        started = world.start((0, 1, 2, 3, 4), batch=25, sample_s=0.04)
        world.until_change(started)
        world.until_step(5)
        for victim in (1, 3):
            process = by_rank()[victim]
            # Stops are long beside what the emulated device makes up of a late wake-up.
            slowed(process, speed=0.75, period_s=0.08, signal_worker=ignoring_death(process))
        lost = set()
        while lost != {1, 3}:
            shrunk = world.until(lambda report: report.kind in ENDS)
            assert shrunk.kind is ReportKind.SHRUNK, shrunk
            lost |= set(shrunk.lost_slots)
            assert lost <= {1, 3}
        assert shrunk.slots == (0, 2, 4)
        check_samples(world.job_dir(), finish(world))
    finally:
        world.backend.close()


def test_nobody_is_taken_out_where_the_rule_is_off(worlds, slowed):
    world = worlds(straggler="off")
    slowed(by_rank()[1])
    world.until_step(40)
    assert not any(report.kind in ENDS for report in world.reports)
    assert len(workers()) == 4


def test_two_workers_have_no_straggler(worlds, slowed):
    world = worlds(num_workers=2)
    slowed(by_rank()[1])
    world.until_step(40)
    assert not any(report.kind in ENDS for report in world.reports)


def test_a_straggler_that_dies_before_it_has_left_is_just_a_death(worlds):
    world = worlds()
    world.until_step(5)
    process = by_rank()[3]
    slowing = Slowing(ignoring_death(process), **HALF)
    seen = max(report.step for report in world.reports)
    world.until_step(seen + 8)
    process.kill()
    slowing.end()
    shrunk = world.until(lambda report: report.kind in ENDS)
    assert shrunk.kind is ReportKind.SHRUNK
    assert shrunk.slots == (0, 1, 2)
    world.until_step(shrunk.step + 20)
    end = finish(world)
    assert [one.kind for one in world.reports].count(ReportKind.SHRUNK) == 1
    check_samples(world.job_dir(), end)


def test_a_request_during_a_removal_is_told_to_come_again_once_that_is_over(worlds):
    world = worlds()
    slowing = Slowing(ignoring_death(by_rank()[2]), **HALF)
    while not is_removing(world):
        world.poll(0.002)
    change = world.ask(ChangeKind.RESCALE, (0, 1), batch=BATCH)
    answer = world.until(lambda report: report.change_id == change)
    slowing.end()
    assert answer.kind is ReportKind.RETRY, "and was not accepted before"
    world.until(lambda report: report.kind in ENDS)
    assert world.reports[-1].kind is ReportKind.SHRUNK
    assert world.reports[-1].slots == (0, 1, 3)
    world.do(ChangeKind.RESCALE, (0, 1), batch=BATCH)
    check_samples(world.job_dir(), finish(world))


def is_removing(world):
    """Whether the driver is at a change of its own."""
    job = world.backend._driver._jobs["job"]
    return job._work.adjusting is not None


def test_nobody_is_taken_out_while_the_machine_is_busy(worlds):
    check_nobody_is_named(worlds(), 100)


@pytest.mark.soak
def test_nobody_is_taken_out_in_a_long_run_on_a_busy_machine(worlds):
    check_nobody_is_named(worlds(), 2000)


def check_nobody_is_named(world, steps):
    """So many steps, beside two processes that would like to have all cores for themselves."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for step in range(0, steps, 50):
            world.until_step(step + 50)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    finish(world)
    kinds = {report.kind for report in world.reports}
    assert kinds == {ReportKind.ACCEPTED, ReportKind.DONE, ReportKind.PROGRESS, ReportKind.FINISHED}

"""What the driver of an elastic job makes of what it hears."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from harness.contracts.change import Change, ChangeKind
from harness.contracts.process import Exit
from systems.backends.stop_free import StopFree
from systems.elastic.driver.job_members import JobMembers
from systems.elastic.driver.pending_change import Verdict
from systems.elastic.driver.processes import Process
from systems.elastic.wire.messages import (
    AdjustFailed,
    Deposed,
    Leads,
    LeadsNot,
    Recovered,
    Recovering,
    Suspect,
    Switched,
)
from systems.runtime.driver.ending import Phase
from systems.runtime.driver.job_status import JobStatus
from systems.runtime.wire.messages import Left, Progress
from systems.runtime.wire.protocol import ControlError, kind_of
from tests.replay.worlds import job

LEFT = Left(progress=Progress(5, 60, 0.1, 0.0), finished=False, overruns=0)


class JobServices:
    """Keeps what is sent to whom; a connection is the worker's name."""

    def __init__(self):
        self.sent = []
        self.killed = []

    def send(self, connection, message):
        self.sent.append((connection, kind_of(message)))

    def kill(self, handle):
        self.killed.append(handle)


def switched(change_id, *members, generation=10):
    return Switched(
        progress=LEFT.progress,
        generation=generation,
        members=members,
        change_id=change_id,
        started=0.0,
        stopping_time_s=0.0,
        phases_s={},
    )


def recovered(generation, *members):
    return Recovered(
        progress=LEFT.progress,
        generation=generation,
        members=members,
        lost=(),
        change_id=None,
        phases_s={},
    )


@pytest.fixture
def services():
    return JobServices()


@pytest.fixture
def work(services, tmp_path):
    """Two workers that train."""
    options = StopFree(start="cold")._options
    order = SimpleNamespace(job_id="a", target_step=100, step_floor_s={}, job_dir=tmp_path)
    status = JobStatus(order, lambda report: None, 0)
    processes = SimpleNamespace(services=services, options=options, order=order)
    change = Change(1, ChangeKind.START, job("a"), (), (0, 1), 8)
    work = JobMembers(processes, status, change, lambda fate, reason: None)
    status.phase = Phase.RUNNING
    for slot, name in enumerate(work.members):
        work.process_table.workers[name] = Process(
            name, slot, slot, 0.0, connection=name, ordered_at=1.0
        )
    return work


@pytest.mark.parametrize("how", ["left", "died"])
def test_leaders_that_are_heard_in_the_wrong_order(work, services, how):
    """Two connections: the first of two leaders may be heard after the one that followed it."""
    first, second = (work.process_table.workers[name] for name in work.members)
    work.on_leads(second, Leads(term=1))
    work.on_leads(first, Leads(term=1))
    first.left = LEFT if how == "left" else None
    getattr(work, how)(first)
    assert (second.name, "who_leads") in services.sent
    work.on_leads(second, Leads(term=1))
    assert asked(work, services) == second.name


def test_who_has_left_is_not_asked_even_if_it_was_elected_last(work, services):
    first, second = (work.process_table.workers[name] for name in work.members)
    work.on_leads(second, Leads(term=1))
    first.left = LEFT
    work.left(first)
    work.on_leads(first, Leads(term=1))  # its election took a moment longer than its training
    assert asked(work, services) == second.name


def asked(work, services):
    """Who is asked for a change."""
    services.sent.clear()
    work.recovery.met()
    work.adjust(Change(2, ChangeKind.RESCALE, job("a"), (0, 1), (1,), 8))
    ((name, kind),) = services.sent
    assert kind == "adjust"
    assert services.killed == []
    return name


@pytest.mark.parametrize("how", ["deposed", "ended", "died"])
def test_whom_a_leader_has_halted_are_awaited_as_long_as_it_leads(work, how):
    """Who follows it is told by those that it has halted, and says so in its turn."""
    first, second = (work.process_table.workers[name] for name in work.members)
    work.on_recovering(first, Recovering(generation=5))
    assert work.recover_by is not None
    work.recovery.deposed(second.name)
    assert work.recover_by is not None
    if how == "deposed":
        work.on_deposed(first, Deposed())
    elif how == "ended":
        work.recovery.deposed(first.name)
    else:
        work.died(first)
        work.recovery.deposed(first.name)
    assert (work.recover_by is None) == (how != "died"), "those that live go on after a death"


def test_a_leader_that_halts_them_in_the_place_of_another_is_waited_for(work):
    first, second = (work.process_table.workers[name] for name in work.members)
    work.on_recovering(first, Recovering(generation=5))
    work.on_recovering(second, Recovering(generation=6))
    work.recovery.deposed(first.name)
    assert work.recover_by is not None
    work.recovery.deposed(second.name)
    assert work.recover_by is None


def test_of_two_that_do_not_hear_each_other_one_goes_on(work, services, tmp_path):
    """The second had said the same before it could know that it was to go."""
    work.process_table.processes.order = SimpleNamespace(job_dir=tmp_path)
    first, second = (work.process_table.workers[name] for name in work.members)
    work.on_suspect(first, Suspect(worker=second.name, silent_s=2.1))
    work.on_suspect(second, Suspect(worker=first.name, silent_s=2.1))
    assert services.killed == [second.handle]


def ask(work, services, slots=(1,)):
    """The driver asks the first worker for a change; what that was told."""
    first = work.process_table.workers[work.members[0]]
    work.on_leads(first, Leads(term=1))
    services.sent.clear()
    work.adjust(Change(2, ChangeKind.RESCALE, job("a"), (0, 1), slots, 8))
    return first


def test_an_answer_to_an_earlier_attempt_means_nothing(work, services):
    """A leader before the present one had given the change up; that one was asked again since."""
    first = ask(work, services)
    second = work.process_table.workers[work.members[1]]
    work.on_leads(second, Leads(term=1))
    failed = AdjustFailed(change_id=2, attempt=1, reason="a worker died")
    work.on_adjust_failed(first, failed)
    assert work.adjusting.verdict is Verdict.OPEN
    work.on_adjust_failed(second, replace(failed, attempt=2))
    assert work.adjusting.verdict is Verdict.FAILED


def test_a_recovery_leaves_it_to_the_leader_whether_a_change_has_failed(work, services):
    """It may have been asked for it again since, and be making it."""
    first = ask(work, services)
    services.sent.clear()
    work.on_recovered(first, recovered(9, *work.members))
    work.settle()
    assert work.adjusting.verdict is Verdict.OPEN
    assert services.sent == [(first.name, "withdraw")]


def test_a_worker_that_leads_no_more_is_not_asked_in_vain(work, services):
    first = ask(work, services)
    services.sent.clear()
    work.on_leads_not(first, LeadsNot())
    assert (work.members[1], "who_leads") in services.sent


def test_a_newcomer_that_was_sent_away_ends_the_change(work, services):
    work.process_table.processes.worker_spec = lambda worker, slot: worker
    services.launch = lambda name: 7
    ask(work, services, slots=(0, 1, 2))
    services.sent.clear()
    joiner = work.process_table.workers[work.adjusting.joiners[0]]
    joiner.left = LEFT
    work.left(joiner)
    assert (work.members[0], "withdraw") in services.sent


def test_what_is_told_of_a_change_that_was_answered_is_no_other_change(work, services):
    """One of its workers died in its first step, and is not buried yet."""
    first = ask(work, services, slots=(1, 0))
    ends = []
    work._end = lambda *why: ends.append(why)
    for process in work.process_table.workers.values():
        work.adjusting.switched[process.name] = switched(2, *work.members)
    work.settle()
    assert work.adjusting is None
    work.on_switched(first, switched(2, first.name))
    assert ends == []
    work.on_switched(first, switched(3, first.name))
    assert ends, "nobody had asked for that"


@pytest.mark.parametrize(("silent_s", "is_killed"), [(0.0, False), (2.5, True)])
def test_a_leaver_is_killed_for_its_silence_and_not_for_the_end_of_its_line(
    work, services, silent_s, is_killed
):
    """Others may be waiting for it, in a recovery."""
    leaver, leader = (work.process_table.workers[name] for name in work.members)
    ask(work, services, slots=(1,))
    leaver.left = LEFT
    work.on_suspect(leader, Suspect(worker=leaver.name, silent_s=silent_s))
    assert (services.killed == [leaver.handle]) is is_killed
    services.sent.clear()
    leaver.end = Exit(leaver.handle, -9, "SIGKILL") if is_killed else Exit(leaver.handle, 0, "")
    work.died(leaver)
    assert ((leader.name, "workers_lost") in services.sent) is is_killed


def test_who_accuses_a_worker_that_has_ended_is_told_so(work, services):
    """It may never have had a line to it, and have missed its end."""
    gone, leader = (work.process_table.workers[name] for name in work.members)
    gone.left, gone.end = LEFT, Exit(gone.handle, 0, "")
    services.sent.clear()
    work.on_suspect(leader, Suspect(worker=gone.name, silent_s=5.0))
    assert services.sent == [(leader.name, "workers_lost")]
    assert services.killed == []


@pytest.mark.parametrize("told", ["switched", "recovered"])
def test_a_message_that_names_unknown_workers_makes_no_sense(work, told):
    """The driver closes the connection of the worker that sent it, and lives on."""
    first = work.process_table.workers[work.members[0]]
    hear, make = {
        "switched": (work.on_switched, switched),
        "recovered": (work.on_recovered, recovered),
    }[told]
    with pytest.raises(ControlError, match="the job does not have"):
        hear(first, make(9, first.name, "w99"))

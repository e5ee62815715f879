"""The greedy node allocator: Hu's figures 4 and 8, and scenarios by hand."""

import pytest

from harness.contracts.decision import Grant
from harness.contracts.event import Event, EventKind
from harness.contracts.job_state import JobState
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.fifo import Fifo
from systems.schedulers.hu_greedy import HuGreedy
from tests.replay.worlds import cluster, job
from tests.schedulers.world import periods, run


def trained(job_id, minutes, nodes, at_s=3600.0, **more):
    """A job that has trained for so many minutes, or that waits where it has no nodes."""
    spec = job(job_id, at_s - 60.0 * minutes, 1, 1e9, max_slots=16, **more)
    grant = Grant(nodes) if nodes else None
    state = JobState.RUNNING if nodes else JobState.PENDING
    slots = tuple(range(nodes))
    seconds = 60.0 * minutes
    return JobView(spec, state, grant, slots, at_s, 0.0, seconds, 0.0, 0.0, 0.0)


def decided(jobs, num_nodes, scheduler=None):
    """What changes at the full hour; the jobs are all new to the scheduler."""
    view = ClusterView(
        time_s=3600.0,
        cluster=cluster(num_nodes, 1),
        jobs={one.job_id: one for one in jobs},
        news=[Event(3600.0, EventKind.ARRIVAL, one.job_id) for one in jobs],
        num_granted=sum(one.grant.num_slots for one in jobs if one.grant),
    )
    changes = (scheduler or HuGreedy()).decide(view).changes
    return {job_id: grant.num_slots for job_id, grant in changes.items()}


def test_section_1_a_job_of_fixed_size_leaves_92_of_100_nodes_idle():
    idle = {}
    for scheduler in (Fifo(), HuGreedy()):
        records, _ = run([job("j", 0, 8, 1e5, max_slots=64)], scheduler, cluster(100, 1))
        idle[type(scheduler).__name__] = {100 - len(grant.slots) for grant in records.grants}
    assert idle["Fifo"] == {92}
    assert max(idle["HuGreedy"]) < 92


def test_figure_4_above_the_newest_job_takes_the_two_idle_nodes():
    jobs = [trained(i, minutes, 2) for i, minutes in zip("1234", (15, 12, 5, 1), strict=True)]
    assert decided(jobs, 10) == {"4": 4}


def test_figure_4_below_the_oldest_job_is_halved_for_the_queue():
    jobs = [trained("5", 15, 4), trained("6", 12, 4), trained("7", 5, 2), trained("8", 0, 0)]
    assert decided(jobs, 10) == {"5": 2, "8": 2}


def test_scenario_1_gives_the_queue_as_much_as_it_can_use_in_powers_of_two():
    jobs = [trained("a", 9, 2), trained("b", 3, 0), trained("c", 2, 0), trained("d", 1, 0)]
    assert decided(jobs, 21) == {"b": 16, "c": 2, "d": 1}
    assert decided(jobs, 9) == {"b": 4, "c": 2, "d": 1}


def test_scenario_2_goes_on_to_the_next_job_with_what_is_left():
    """7 idle: the newest goes from 2 to 8 (6 more), the next from 1 to 2; nothing is left."""
    jobs = [trained("a", 9, 4), trained("b", 3, 1), trained("c", 2, 2)]
    assert decided(jobs, 14) == {"c": 8, "b": 2}


def test_scenario_3_passes_over_jobs_that_cannot_be_halved():
    jobs = [
        trained("one", 60, 1),
        trained("fixed", 50, 1, elastic=False),
        trained("least", 40, 4, min_slots=4),
        trained("can", 30, 4),
        trained("new", 0, 0),
    ]
    assert decided(jobs, 10) == {"can": 2, "new": 2}
    assert decided([trained("one", 60, 1), trained("new", 0, 0)], 1) == {}


def test_idle_nodes_that_are_too_few_for_the_queue_count_as_none():
    """One idle, the first that waits needs four: the oldest is halved until they are there."""
    jobs = [trained("a", 9, 4), trained("b", 3, 4), trained("w", 1, 0, min_slots=4)]
    assert decided(jobs, 9) == {"a": 2}
    assert decided(jobs, 9, HuGreedy(halvings=2)) == {"a": 2, "b": 2, "w": 4}


def test_scenario_4_changes_nothing():
    assert decided([trained("a", 9, 4), trained("b", 3, 4)], 8) == {}


def test_figure_8_freed_nodes_go_to_the_queue_one_second_later():
    """Job 1 has 8 nodes and ends at 9:02:09 (second 129 here); job 2 waits since second 62."""
    jobs = [job("1", 0, 1, 8 * 129.0, max_slots=8), job("2", 62, 1, 800.0, max_slots=8)]
    records, _ = run(jobs, HuGreedy(most_nodes=8), cluster(8, 1))
    assert periods(records, "1") == [(0, 129, 8)]
    assert periods(records, "2") == [(130, 230, 8)]


def test_it_acts_on_multiples_of_the_period_while_there_are_jobs():
    """Two nodes, period 10: b comes at 3 and has a's second node at 10; a, alone again, grows at
    the next multiple. c comes at 47, long after all is over, and starts at once."""
    jobs = [job("a", 0, 1, 30.0), job("b", 3, 1, 5.0), job("c", 47, 1, 2.0)]
    records, recorder = run(jobs, HuGreedy(every_s=10.0), cluster(2, 1))
    assert periods(records, "a") == [(0, 10, 2), (10, 20, 1)]
    assert periods(records, "b") == [(10, 15, 1)]
    assert periods(records, "c") == [(47, 48, 2)]
    last = recorder.views[-1]
    assert (last.time_s, recorder.decisions[-1].wake_s) == (48.0, None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"every_s": 0.0}, "every_s is 0.0; give the seconds between activations"),
        ({"most_nodes": 0}, "most_nodes is 0; a job needs at least 1 node"),
        ({"reaction_s": -1.0}, "reaction_s is -1.0; give seconds from 0 on"),
        ({"halvings": 0}, "halvings is 0; allow at least 1"),
    ],
)
def test_wrong_options_are_told(options, text):
    with pytest.raises(ValueError, match=text):
        HuGreedy(**options)

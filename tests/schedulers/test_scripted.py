"""The scripted scheduler: scripts followed by hand, and scripts refused."""

from __future__ import annotations

import pytest

from harness.contracts.decision import Grant, Suspend
from harness.contracts.scheduler import Requirement
from harness.replay import replay
from systems.placements.consolidated import Consolidated
from systems.schedulers.scripted import Scripted
from tests.replay.worlds import cluster, engine, job, profile
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.world import Recorder, periods, run


def test_without_a_script_it_is_fifo():
    jobs = [job("a", 0, 3, 30), job("b", 1, 2, 20), job("c", 2, 1, 5)]
    records, recorder = run(jobs, Scripted(), cluster(1, 4))
    assert periods(records, "b") == [(10, 20, 2)]
    assert periods(records, "c") == [(10, 15, 1)]
    assert not recorder.wants_progress
    assert recorder.requires == frozenset()


def test_rescale_at_a_number_of_samples():
    """2 slots make 2 samples/s: 20 are done at 10 s; then 4 slots do the other 40 in 10 s."""
    script = [{"job": "a", "at_samples": 20, "slots": 4}]
    records, recorder = run([job("a", 0, 2, 60)], Scripted(script), cluster(1, 4))
    assert periods(records, "a") == [(0, 10, 2), (10, 20, 4)]
    assert recorder.wants_progress
    assert recorder.requires == {Requirement.RESCALE}


def test_steps_are_those_of_the_jobs_own_batch():
    """Batch 8: step 5 is sample 40, which 2 slots reach at 20 s."""
    script = [{"job": 0, "at_step": 5, "slots": 1}, {"job": 0, "at_step": 6, "slots": 4}]
    records, _ = run([job("a", 0, 2, 80)], Scripted(script), cluster(1, 4))
    assert periods(records, "a") == [(0, 20, 2), (20, 28, 1), (28, 36, 4)]


def test_rescales_that_cost_time_shift_the_steps_that_follow():
    """A start and every rescale cost 3 s of pause; samples are counted, not seconds."""
    known = profile(pause_s=3.0)
    where = cluster(1, 4)
    recorder = Recorder(Scripted([{"job": "a", "at_samples": 20, "slots": 4}]))
    records = replay(
        jobs=[job("a", 0, 2, 60)],
        cluster=where,
        scheduler=recorder,
        placement=Consolidated(),
        engine=engine(where, known),
        profile=known,
    )
    rescale = next(change for change in records.changes if change.kind == "rescale")
    assert rescale.requested_s == 13.0
    assert records.jobs[0].finish_s == 13.0 + 3.0 + 10.0


def test_reports_of_progress_bring_the_step_about_too():
    chaos = ChaosEngine(cluster(1, 4), 0, progress=True)
    script = [{"job": "a", "at_samples": 20, "slots": 4}]
    records, recorder = run([job("a", 0, 2, 60)], Scripted(script), cluster(1, 4), chaos=chaos)
    assert periods(records, "a") == [(0, 10, 2), (10, 20, 4)]
    assert len(recorder.views) > 10


def test_suspend_and_resume_at_times_of_the_clock():
    script = [
        {"job": "a", "at_s": 5, "slots": "suspend"},
        {"job": "a", "at_s": 8, "slots": 1},
        {"job": "a", "at_s": 10, "slots": 2},
    ]
    records, recorder = run([job("a", 0, 2, 20)], Scripted(script), cluster(1, 4))
    assert periods(records, "a") == [(0, 5, 2), (8, 10, 1), (10, 14, 2)]
    assert recorder.requires == {Requirement.SUSPEND, Requirement.RESCALE}
    assert [d.changes for d in recorder.decisions[:3]] == [
        {"a": Grant(2)},
        {"a": Suspend()},
        {"a": Grant(1)},
    ]


def test_a_job_can_be_held_back_and_started_later_while_others_go_on():
    script = [{"job": 0, "at_s": 0, "slots": "suspend"}, {"job": 0, "at_s": 6, "slots": 4}]
    jobs = [job("a", 0, 1, 8), job("b", 1, 2, 20)]
    records, recorder = run(jobs, Scripted(script), cluster(1, 4))
    assert periods(records, "b") == [(1, 11, 2)]
    assert periods(records, "a") == [(11, 13, 4)]  # 4 slots are free only then
    assert recorder.requires == {Requirement.SUSPEND}


def test_a_step_waits_for_slots_and_nobody_new_goes_before_it():
    """At 2 s a wants 4, but b has 2 of them until 10 s; c, which would fit, waits too."""
    script = [{"job": "a", "at_s": 2, "slots": 4}]
    jobs = [job("a", 0, 1, 100), job("b", 0, 2, 20), job("c", 3, 1, 5)]
    records, _ = run(jobs, Scripted(script), cluster(1, 4))
    assert periods(records, "a")[:2] == [(0, 10, 1), (10, pytest.approx(32.5), 4)]
    assert periods(records, "c") == [(32.5, 37.5, 1)]


def test_slots_pass_from_one_job_to_another_in_one_decision():
    """Listed by arrival, a grows before b shrinks; both happen at 5 s all the same."""
    script = [{"job": "a", "at_s": 5, "slots": 3}, {"job": "b", "at_s": 5, "slots": 1}]
    records, _ = run([job("a", 0, 2, 100), job("b", 0, 2, 100)], Scripted(script), cluster(1, 4))
    assert periods(records, "a")[1][0] == periods(records, "b")[1][0] == 5


def test_a_waiting_job_can_be_refused():
    script = [{"job": "b", "at_s": 4, "slots": "refuse"}]
    jobs = [job("a", 0, 4, 40), job("b", 1, 4, 40)]
    records, _ = run(jobs, Scripted(script), cluster(1, 4))
    refused = next(record for record in records.jobs if record.job_id == "b")
    assert (refused.state, refused.finish_s) == ("refused", 4.0)


def test_steps_after_the_one_before_may_become_fewer():
    """Batch 8: 3 steps on 1 slot end at 24 s; 1.62 steps on 2 slots, 12.94 samples, 6.47 s later,
    with the part of a step by which requests differ (``repeated``)."""
    script = [{"job": 0, "after_steps": 3, "slots": 2}, {"job": 0, "after_steps": 1, "slots": 4}]
    records, _ = run([job("a", 0, 1, 80)], Scripted(script), cluster(1, 4))
    (first, second, third) = periods(records, "a")
    assert first == (0, 24, 1)
    assert second == (24, pytest.approx(30.47, abs=0.01), 2)
    assert third[2] == 4


BAD = [
    ({"job": 0, "slots": 2}, "no moment; give exactly one of at_s, at_samples, at_step"),
    ({"job": 0, "at_s": 1, "at_step": 2, "slots": 2}, "has at_s and at_step; give exactly one"),
    ({"job": 0, "at_s": -1, "slots": 2}, "at_s is -1; give a number from 0"),
    ({"job": 0, "at_s": float("nan"), "slots": 2}, "at_s is nan; give a number from 0"),
    ({"job": 0, "at_s": "soon", "slots": 2}, "at_s is 'soon'; give a number from 0"),
    ({"job": 0, "at_step": 2.5, "slots": 2}, "at_step is 2.5; give a whole number from 0"),
    ({"job": 0, "at_s": 1, "slots": 0}, "slots is 0; give a number from 1, suspend or refuse"),
    ({"job": 0, "at_s": 1, "slots": "stop"}, "slots is 'stop'; give a number from 1"),
    ({"job": -1, "at_s": 1, "slots": 1}, "job is -1; give a job id, or an index of arrival"),
    ({"job": 0, "at_s": 1, "slots": 1, "gpu": 3}, "unknown key 'gpu'; known: job, at_s"),
    ("grow", "script[0] is 'grow'; give a mapping"),
]


@pytest.mark.parametrize(("step", "message"), BAD)
def test_a_wrong_step_is_refused_with_place_fact_and_way_out(step, message):
    with pytest.raises(ValueError, match=r"script\[0\]") as caught:
        Scripted([step])
    assert message in str(caught.value)


def test_all_problems_of_a_script_at_once():
    script = [step for step, _ in BAD]
    script += [{"job": 1, "at_s": 9, "slots": 1}, {"job": 1, "at_s": 8, "slots": 2}]
    with pytest.raises(ValueError, match="comes after a later step") as caught:
        Scripted(script)
    assert all(f"script[{i}]" in str(caught.value) for i in [*range(len(BAD)), len(BAD) + 1])


def test_a_step_can_change_the_batch_on_the_same_slots_and_back():
    """Saxena's halt and resume with another batch: the slots stay, the batch changes."""
    script = [
        {"job": "a", "at_s": 5, "slots": 2, "batch": 32},
        {"job": "a", "at_s": 10, "slots": 2},
    ]
    wide = job("a", 0, 2, 60, min_global_batch=8, max_global_batch=64)
    records, recorder = run([wide], Scripted(script), cluster(1, 4))
    assert recorder.requires >= {Requirement.CHANGE_BATCH, Requirement.RESCALE}
    assert [(g.start_s, g.end_s, g.global_batch) for g in records.grants] == [
        (0, 5, 8),
        (5, 10, 32),
        (10, 30, 8),
    ]
    assert [change.kind for change in records.changes] == ["start", "rescale", "rescale"]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"job": 0, "at_s": 1, "slots": 1, "batch": 0}, "batch is 0; give a global batch"),
        ({"job": 0, "at_s": 1, "slots": "suspend", "batch": 8}, "batch without slots"),
    ],
)
def test_a_wrong_batch_is_refused(step, message):
    with pytest.raises(ValueError, match=message):
        Scripted([step])


def test_steps_after_the_step_before_count_from_when_it_was_done():
    """Every rescale costs 3 s of pause, and the next step counts from the end of that."""
    known = profile(pause_s=3.0)
    where = cluster(1, 4)
    script = [{"job": 0, "after_steps": 2, "slots": 4}, {"job": 0, "after_steps": 2, "slots": 2}]
    records = replay(
        jobs=[job("a", 0, 2, 800)],
        cluster=where,
        scheduler=Scripted(script, repeat=2),
        placement=Consolidated(),
        engine=engine(where, known),
        profile=known,
    )
    asked = [change.requested_s for change in records.changes if change.kind == "rescale"]
    # Batch 8: a step takes 4 s on 2 slots and 2 s on 4; parts of a step are multiples of the
    # golden ratio.
    parts = [2.0 + 0.6180339887498949 * k % 1.0 for k in range(4)]
    done, expected = 3.0, []
    for part, step_s in zip(parts, (4.0, 2.0, 4.0, 2.0), strict=True):
        expected.append(done + part * step_s)
        done = expected[-1] + 3.0
    assert asked == pytest.approx(expected)


def test_a_repeated_script_moves_its_times():
    script = [{"job": 0, "at_s": 2, "slots": 4}, {"job": 0, "at_s": 5, "slots": 2}]
    scheduler = Scripted(script, repeat=2, every_s=10.0)
    records, _ = run([job("a", 0, 2, 100)], scheduler, cluster(1, 4))
    assert [start for start, *_ in periods(records, "a")] == [0, 2, 5, 12, 15]


def test_exact_slots_move_a_job_without_changing_its_size():
    script = [{"job": 0, "at_s": 4, "slots": [2, 3]}]
    records, recorder = run([job("a", 0, 2, 40)], Scripted(script), cluster(1, 4))
    assert [grant.slots for grant in records.grants] == [(0, 1), (2, 3)]
    assert [change.kind for change in records.changes] == ["start", "migrate"]
    assert recorder.requires == {Requirement.RESCALE, Requirement.MIGRATE}


@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        (
            [{"job": 0, "at_step": 4, "slots": 2}],
            {"repeat": 2},
            "repeat cannot be combined with at_sa",
        ),
        ([{"job": 0, "at_s": 4, "slots": 2}], {"repeat": 2}, "every_s is 0.0; it must be at lea"),
        ([], {"repeat": 0}, "repeat is 0; give 1 or more"),
        ([{"job": 0, "at_s": 4, "slots": [1, 1]}], {}, "or a list of different slots"),
    ],
)
def test_a_script_that_cannot_be_repeated_is_refused(script, options, message):
    with pytest.raises(ValueError, match=message):
        Scripted(script, **options)

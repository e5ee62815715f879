"""Events of a trace: what they may be, and the transforms that add them."""

from dataclasses import replace

import pytest

from harness.cluster import uniform_cluster
from harness.trace.build import load_trace
from harness.trace.model.events import TraceEvent, TraceEventKind
from harness.trace.model.trace import TraceError
from harness.trace.transforms import (
    CancelJobs,
    CrashJobs,
    FirstJobs,
    HostFailures,
    ReadEvents,
    TransformContext,
    TransientSlots,
)
from tests.trace.examples import job, trace, write

CLUSTER = uniform_cluster(name="hosts", num_hosts=3, devices_per_host=2, device_type="cpu")
CONTEXT = TransformContext(seed=3, cluster=CLUSTER)
TRACE = trace(*(job(number, 100.0 * number, duration_s=400.0) for number in range(1, 41)))


def down(time_s, *slots):
    return TraceEvent(time_s, TraceEventKind.SLOTS_DOWN, slots)


def up(time_s, *slots):
    return TraceEvent(time_s, TraceEventKind.SLOTS_UP, slots)


@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        ((-1.0, "slots_up", (1,)), "time_s"),
        ((float("nan"), "slots_up", (1,)), "time_s"),
        ((1.0, "slots_up", ()), "slots"),
        ((1.0, "slots_down", (1, 1)), "each once"),
        ((1.0, "slots_down", (-1,)), "from 0"),
        ((1.0, "cancel", ()), "job"),
        ((1.0, "cancel", (1,), "a"), "slots"),
        ((1.0, "slots_down", (1,), "a"), "job"),
        ((1.0, "sleep", (1,)), "sleep"),
        ((1.0, "crash"), "only cancel, fail, crash have a job"),
        ((1.0, "fail", (1,), "a"), "slots"),
    ],
)
def test_impossible_events_are_refused(fields, fact):
    with pytest.raises(ValueError, match=fact):
        TraceEvent(*fields)


@pytest.mark.parametrize(
    ("events", "fact"),
    [
        ([up(1.0, 0)], "slot 0 is up already"),
        ([down(1.0, 0, 1), down(2.0, 1)], "slot 1 is down already"),
        ([TraceEvent(5.0, TraceEventKind.CANCEL, job_id="nobody")], "no job of the trace"),
        ([TraceEvent(100.0, TraceEventKind.CANCEL, job_id="001")], "only arrives at 100 s"),
        ([TraceEvent(9.0, TraceEventKind.CRASH, job_id="001")], "only arrives at 100 s"),
    ],
)
def test_events_that_cannot_happen_are_refused(events, fact):
    with pytest.raises(TraceError, match=fact):
        TRACE.with_events("test", events)


def test_events_count_in_the_digest_and_bar_further_steps():
    changed = TRACE.with_events("test: one", [down(10.0, 3)])
    assert changed.digest != TRACE.digest
    assert changed.digest != TRACE.with_events("test: one", [down(11.0, 3)]).digest
    assert changed.jobs == TRACE.jobs
    assert changed.generated == TRACE.generated | {"events"}
    with pytest.raises(TraceError, match=r"FirstJobs changes the jobs.*add events last"):
        FirstJobs(3).apply(changed, CONTEXT)


def test_hosts_fail_whole_and_each_by_itself():
    result = HostFailures(mean_uptime_s=500.0, mean_repair_s=100.0).apply(TRACE, CONTEXT)
    assert result == HostFailures(500.0, 100.0).apply(TRACE, CONTEXT)
    assert result.events != HostFailures(500.0, 100.0).apply(TRACE, replace(CONTEXT, seed=4)).events
    hosts = {tuple(host.slots) for host in CLUSTER.hosts}
    assert {event.slots for event in result.events} == hosts
    for slots in hosts:
        own = [event for event in result.events if event.slots == slots]
        kinds = [event.kind for event in own]
        assert kinds == [TraceEventKind.SLOTS_DOWN, TraceEventKind.SLOTS_UP] * (len(own) // 2)
    failures = [event for event in result.events if event.kind is TraceEventKind.SLOTS_DOWN]
    assert all(event.time_s < 4400.0 for event in failures)
    # Three hosts over 4,400 s, one failure in 600 s each: 22 expected.
    assert 10 < len(failures) < 40
    with pytest.raises(TraceError, match="needs a cluster"):
        HostFailures(500.0, 100.0).apply(TRACE, TransformContext())


def test_some_hosts_may_be_left_out_and_the_others_fail_as_before():
    everywhere = HostFailures(500.0, 100.0).apply(TRACE, CONTEXT).events
    some = HostFailures(500.0, 100.0, hosts=(2, 0)).apply(TRACE, CONTEXT)
    assert some.events == tuple(event for event in everywhere if event.slots != (2, 3))
    assert "of 2 hosts" in some.history[-1]
    with pytest.raises(TraceError, match="no host 3 in cluster hosts, whose 3 hosts"):
        HostFailures(500.0, 100.0, hosts=(0, 3)).apply(TRACE, CONTEXT)


def test_transient_slots_come_and_go_together():
    result = TransientSlots(slots=(5, 4), there_s=240.0, away_s=960.0, until_s=3000.0).apply(
        TRACE, CONTEXT
    )
    assert result.events == (
        down(0.0, 4, 5), up(960.0, 4, 5),
        down(1200.0, 4, 5), up(2160.0, 4, 5),
        down(2400.0, 4, 5), up(3360.0, 4, 5),
    )  # fmt: skip
    drawn = TransientSlots((4,), 240.0, 960.0, random=True).apply(TRACE, CONTEXT)
    assert len({event.time_s for event in drawn.events}) == len(drawn.events) > 2


def test_owners_give_jobs_up_within_their_duration():
    result = CancelJobs(share=0.5).apply(TRACE, CONTEXT)
    assert 8 < len(result.events) < 32
    jobs = {spec.job_id: spec for spec in result.jobs}
    for event in result.events:
        after_s = event.time_s - jobs[event.job_id].arrival_s
        assert 0 < after_s <= 400.0
    everyone = CancelJobs(share=1.0, durations=0.01).apply(TRACE, CONTEXT)
    assert len(everyone.events) == len(TRACE.jobs)
    with pytest.raises(TraceError, match="1 jobs of example have no duration"):
        CancelJobs(0.5).apply(trace(job(1, 0.0, duration_s=None)), CONTEXT)


DAILY = 86400.0 / 800.0
"""Crashes a day so that they are 800 s apart in the mean."""


def test_programs_crash_at_their_rate_and_a_share_of_it_is_fatal():
    result = CrashJobs(DAILY, fatal_share=0.25).apply(TRACE, CONTEXT)
    assert result == CrashJobs(DAILY, fatal_share=0.25).apply(TRACE, CONTEXT)
    other = CrashJobs(DAILY, fatal_share=0.25).apply(TRACE, replace(CONTEXT, seed=4))
    assert result.events != other.events
    arrivals = {spec.job_id: spec.arrival_s for spec in TRACE.jobs}
    assert all(arrivals[event.job_id] < event.time_s < 4400.0 for event in result.events)
    # 40 jobs are watched for 400 to 4,300 s, 94,000 s in all: 117 expected, 29 of them fatal.
    assert 90 < len(result.events) < 145
    fatal = [event for event in result.events if event.kind is TraceEventKind.FAIL]
    assert 15 < len(fatal) < 45
    assert f"{len(fatal)} of them fatal" in result.history[-1]


def test_a_job_crashes_when_it_does_whatever_else_there_is():
    all_of = CrashJobs(DAILY, until_s=5000.0).apply(TRACE, CONTEXT)
    few = CrashJobs(DAILY, until_s=5000.0).apply(FirstJobs(10).apply(TRACE, CONTEXT), CONTEXT)
    shift_s = TRACE.jobs[0].arrival_s  # the first of the ten arrives at 0
    own = {spec.job_id for spec in few.jobs}
    moments = [event for event in all_of.events if event.job_id in own]
    early = [event.time_s for event in few.events if event.time_s < 5000.0 - shift_s]
    assert early == pytest.approx([event.time_s - shift_s for event in moments])
    deadlier = CrashJobs(DAILY, fatal_share=0.5, until_s=5000.0).apply(TRACE, CONTEXT)
    assert {e.time_s for e in deadlier.events} == {e.time_s for e in all_of.events}


def test_a_rate_of_nothing_crashes_nobody_and_impossible_options_are_refused():
    assert CrashJobs(0.0).apply(TRACE, CONTEXT).events == ()
    for options, fact in (
        ({"crashes_per_day": -1.0}, "crashes_per_day is -1.0"),
        ({"crashes_per_day": float("nan")}, "crashes_per_day is nan"),
        ({"crashes_per_day": 1.0, "fatal_share": 1.5}, "fatal_share is 1.5"),
        ({"crashes_per_day": 1.0, "until_s": 0.0}, "until_s is 0.0"),
    ):
        with pytest.raises(ValueError, match=fact):
            CrashJobs(**options)


def test_several_transforms_add_up():
    both = CancelJobs(0.5).apply(HostFailures(500.0, 100.0).apply(TRACE, CONTEXT), CONTEXT)
    both = CrashJobs(DAILY, fatal_share=0.2).apply(both, CONTEXT)
    times = [event.time_s for event in both.events]
    assert times == sorted(times)
    assert {event.kind for event in both.events} == set(TraceEventKind)
    assert [note.partition(":")[0] for note in both.history] == [
        "HostFailures",
        "CancelJobs",
        "CrashJobs",
    ]


EVENTS = """time_s,event,slots,job_id
100,slots_down,0-2 5,
250.5,slots_up,0-2,
300,cancel,,007
320,crash,,008
"""


def test_events_are_read_from_a_file_beside_the_trace(tmp_path):
    write(tmp_path, EVENTS, "events.csv")
    table = "id,at,gpus,model,work,batch\n007,0,1,m,100,8\n008,310,1,m,100,8\n"
    write(tmp_path, table)
    columns = ("job_id", "arrival", "slots", "workload", "work", "batch")
    names = ("id", "at", "gpus", "model", "work", "batch")
    config = {
        "name": "mine",
        "source": "made for a test",
        "licence": "none",
        "reader": {
            "_target_": "harness.trace.columns.ColumnsReader",
            "path": "jobs.csv",
            "columns": dict(zip(columns, names, strict=True)),
            "work": "samples",
        },
        "transforms": [
            {"_target_": "harness.trace.transforms.ReadEvents", "path": "events.csv"},
        ],
    }
    found = load_trace(config, TransformContext(), base_dir=tmp_path)
    assert found.events == (
        down(100.0, 0, 1, 2, 5),
        up(250.5, 0, 1, 2),
        TraceEvent(300.0, TraceEventKind.CANCEL, job_id="007"),
        TraceEvent(320.0, TraceEventKind.CRASH, job_id="008"),
    )
    assert "events" not in found.generated


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("when,what\n", [":1: the columns are when, what; give time_s"]),
        ("", [":1: the columns are none"]),
        (EVENTS + "x,cancel,,a\n9,nap,1,\n9,slots_up,3-1,\n9\n", [":6: ", ":7: ", ":8: ", ":9: "]),
    ],
)
def test_lines_that_are_no_events_are_told_with_their_place(tmp_path, text, facts):
    path = write(tmp_path, text, "events.csv")
    with pytest.raises(TraceError) as caught:
        ReadEvents(str(path)).apply(TRACE, CONTEXT)
    assert len(caught.value.problems) == len(facts)
    for problem, fact in zip(caught.value.problems, facts, strict=True):
        assert str(problem).startswith(f"{path}{fact}")
    with pytest.raises(TraceError, match="cannot be read"):
        ReadEvents(str(tmp_path / "nothing.csv")).apply(TRACE, CONTEXT)


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        (
            "9,slots_dwn,1,",
            "event is 'slots_dwn'; did you mean 'slots_down'? known: cancel",
        ),
        ("abc,slots_up,1,", "time_s is 'abc'; give seconds"),
        ("9,slots_up,3-1,", "slots has '3-1'; a range goes upwards: 1-3"),
        ("9,slots_up,1-x,", "slots has '1-x'; give numbers and ranges"),
        ("9,slots_down,,", "slots is empty; the event slots_down needs slots"),
        ("9,cancel,,", "job_id is empty; the event cancel needs the id of a job"),
        ("9,crash,,", "job_id is empty; the event crash needs the id of a job"),
    ],
)
def test_a_wrong_cell_is_told_with_its_column(tmp_path, line, fact):
    path = write(tmp_path, f"time_s,event,slots,job_id\n{line}\n", "events.csv")
    with pytest.raises(TraceError) as caught:
        ReadEvents(str(path)).apply(TRACE, CONTEXT)
    assert f"{path}:2: {fact}" in str(caught.value)

"""Timelines of runs equal what the runs' records say."""

import math
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from reports.figures.slots_in_use import usage
from reports.perfetto.timeline import levels, timeline
from tests.perfetto.reading import by_track, end, events, names, of_kind, parents


def test_the_runs_have_what_the_tests_are_about(faulty, live, struck) -> None:
    ends = Counter(job.state for job in faulty.jobs)
    assert min(ends[state] for state in ("finished", "refused", "failed", "cancelled")) > 0
    assert faulty.outages
    assert {"start", "rescale"} <= {change.kind for change in live.changes}
    assert {"rescale", "resume"} <= {change.kind for change in struck.changes}
    assert {change.outcome for change in struck.changes} >= {"done", "failed"}
    assert live.stored.facts["fast_forwarded_s"] > 0


def test_slices_of_a_job_are_the_slot_seconds_that_it_held(run) -> None:
    held, pieces = Counter(), Counter()
    for event in of_kind(events(run), "slot"):
        held[event["name"]] += event["dur"] / 1e6
        pieces[event["name"]] += 1
    for job in run.jobs:
        # Each end of a slice is rounded to a microsecond.
        assert held[job.job_id] == pytest.approx(
            job.attained_slot_s, rel=1e-12, abs=1e-6 * (1 + pieces[job.job_id])
        )
    assert set(held) == {grant.job_id for grant in run.grants}


def test_a_slot_holds_the_jobs_of_its_grants(run) -> None:
    listed = events(run)
    track_names = names(listed)
    found = Counter()
    for event in of_kind(listed, "slot"):
        _, track = track_names[event["pid"], event["tid"]]
        found[track, event["name"], event["ts"], event["dur"]] += 1
    wanted = Counter(
        (
            f"slot {slot}",
            grant.job_id,
            round(grant.start_s * 1e6),
            round(grant.end_s * 1e6) - round(grant.start_s * 1e6),
        )
        for grant in run.grants
        for slot in grant.slots
    )
    assert found == wanted


def test_hosts_have_their_slots(faulty, live) -> None:
    groups = defaultdict(list)
    for group, track in names(events(faulty)).values():
        groups[group].append(track)
    hosts = [group for group in groups if group.startswith("host")]
    assert hosts == [f"host{host:03d}" for host in range(16)]
    assert groups["host001"] == [f"slot {slot}" for slot in range(8, 16)]
    own = [track for group, track in names(events(live)).values() if group == "host000"]
    assert own == [f"slot {slot}" for slot in range(live.num_slots)]


def test_every_change_is_there_once(run) -> None:
    listed = events(run)
    track_names = names(listed)
    found = {event["args"]["change_id"]: event for event in of_kind(listed, "change")}
    assert len(found) == len(of_kind(listed, "change")) == len(run.changes)
    for change in run.changes:
        event = found[change.change_id]
        assert track_names[event["pid"], event["tid"]] == ("jobs", change.job_id)
        assert event["name"].split()[0] == change.kind
        assert event["args"]["outcome"] == change.outcome
        assert event["ts"] == round(change.requested_s * 1e6)
        assert end(event) == round(change.ended_s * 1e6)


def test_slices_nest_and_never_overlap(run) -> None:
    inside = {"grant": {"job"}, "waiting": {"job"}, "change": {"grant"}, "phase": {"change"}}
    seen = Counter()
    for slices in by_track(events(run)).values():
        for event, outer in parents(slices):
            assert min(event["dur"], event["ts"]) >= 0
            if outer is not None:
                assert outer["ts"] <= event["ts"] <= end(event) <= end(outer), (event, outer)
            if event["dur"]:  # an instant belongs to any slice that it touches
                kinds = inside.get(event["cat"], {None})
                assert (outer["cat"] if outer else None) in kinds, (event, outer)
                seen[event["cat"]] += 1
    assert {"slot", "job", "grant", "change"} <= set(seen)


def test_phases_are_as_long_as_recorded_and_end_with_their_change(live, struck) -> None:
    for run in (live, struck):
        changes = {change.change_id: change for change in run.changes}
        num_exact = 0
        for slices in by_track(events(run)).values():
            own, change_event = defaultdict(list), None
            for event in slices:
                if event["cat"] == "change":
                    change_event = event
                elif event["cat"] == "phase":
                    own[change_event["args"]["change_id"]].append((event, change_event))
            for change_id, phases in own.items():
                recorded = changes[change_id].phases_s
                drawn = {event["name"]: event for event, _ in phases}
                assert {name: e["args"]["recorded_s"] for name, e in drawn.items()} == recorded
                assert list(drawn)[-1] in ("first_step", "stop")
                assert end(phases[-1][0]) == end(phases[-1][1])
                assert all(end(one) == later["ts"] for (one, _), (later, _) in pairwise(phases))
                for event in drawn.values():
                    share = event["args"].get("drawn_share", 1.0)
                    wanted = event["args"]["recorded_s"] / run.dilation * share * 1e6
                    assert event["dur"] == pytest.approx(wanted, abs=2, rel=1e-5)
                    num_exact += share == 1.0
        assert num_exact > 10


def test_ends_deadlines_and_faults_are_instants(faulty, struck) -> None:
    listed = events(faulty)
    found = Counter(event["name"] for event in of_kind(listed, "end"))
    wanted = Counter(job.state for job in faulty.jobs if job.state != "finished")
    assert found == wanted
    assert len(of_kind(listed, "outage")) == len(faulty.outages)
    downs = [e for e in of_kind(listed, "fault") if e["name"].endswith("went down")]
    assert len(downs) == len(faulty.outages)
    assert all(event["ph"] == "i" for event in of_kind(listed, "end", "fault", "deadline"))
    faults = struck.stored.rows("faults")
    marks = of_kind(events(struck), "fault")
    assert Counter((e["name"], e["args"]["worker"]) for e in marks) == Counter(
        (fault.signal, fault.worker) for fault in faults
    )
    groups = names(events(struck))
    (job,) = struck.jobs
    assert {groups[e["pid"], e["tid"]] for e in marks} == {("workers", f"{job.job_id} steps")}


def test_steps_of_live_jobs_are_slices(live, struck) -> None:
    for run in (live, struck):
        steps = of_kind(events(run), "step")
        recorded = run.stored.rows("steps")
        assert Counter(e["name"] for e in steps) == Counter(f"step {s.step}" for s in recorded)
        drawn_s = math.fsum(event["dur"] / 1e6 for event in steps) * run.dilation
        recorded_s = math.fsum(step.duration_s for step in recorded)
        assert drawn_s == pytest.approx(recorded_s, abs=1e-6 * run.dilation * len(steps))
    (name,) = {group for group, _ in names(events(live)).values() if group.startswith("workers")}
    assert name.startswith("workers (wall clock; the run's clock skipped ")


def test_steps_of_a_fault_run_lie_in_the_time_that_the_job_held_slots(struck) -> None:
    held = [(e["ts"], end(e)) for e in of_kind(events(struck), "grant")]
    for step in of_kind(events(struck), "step"):
        middle = step["ts"] + step["dur"] / 2
        assert any(start <= middle <= until for start, until in held)


def test_counters_are_those_of_the_figures(run) -> None:
    listed = events(run)
    curves = defaultdict(dict)
    for event in listed:
        if event["ph"] == "C":
            ((series, value),) = event["args"].items()
            curves[event["name"], series][event["ts"]] = value
    times, used = usage(run.grants)
    drawn = curves["slots", "in use"]
    for (time_s, later_s), level in zip(pairwise(times), used[:-1], strict=True):
        if later_s - time_s > 4e-6:
            before = max(at for at in drawn if at <= (time_s + later_s) / 2 * 1e6)
            assert drawn[before] == level
    assert list(drawn.values())[-1] == 0
    waited = sum(event["dur"] for event in of_kind(listed, "waiting"))
    queue = curves["jobs", "waiting"]
    assert sum(level * (b - a) for (a, level), (b, _) in pairwise(queue.items())) == waited
    assert min(queue.values()) >= 0


def test_levels_are_sums_of_widths() -> None:
    assert levels([(0, 10, 2), (5, 10, 1), (10, 20, 3), (30, 30, 7)]) == {0: 2, 5: 3, 20: 0}
    assert levels([]) == {}


def test_equal_records_give_an_equal_timeline(run) -> None:
    assert timeline(run).listed == events(run)

"""Every metric on records small enough to work out by hand, and what must always hold."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_runs import simulate

from harness.metrics.compute import compute, jct_common_mean_s
from harness.results.records import (
    AccusationRecord,
    ChangeRecord,
    FaultRecord,
    FixedSizeRecord,
    GrantRecord,
    JobRecord,
    OutageRecord,
    RunRecords,
)
from tests.examples import examples


def job(job_id: str, arrival: float, finish: float | None, **fields: object) -> JobRecord:
    values: dict[str, object] = {
        "workload": "toy",
        "owner": "",
        "requested_slots": 2,
        "global_batch": 8,
        "work_samples": 100.0,
        "deadline_s": None,
        "deadline_kind": "none",
        "state": "finished",
        "first_start_s": arrival,
        "samples_done": 100.0,
        "attained_slot_s": 0.0,
        "executed_s": 0.0,
        "num_rescales": 0,
        "num_preemptions": 0,
        "alone_s": None,
        "fastest_alone_s": None,
    }
    return JobRecord(job_id=job_id, arrival_s=arrival, finish_s=finish, **(values | fields))  # type: ignore[arg-type]


def of(*jobs: JobRecord, num_slots: float = 4.0, **lists: object) -> dict[str, float]:
    return compute(RunRecords(jobs=list(jobs), facts={"num_slots": num_slots}, **lists))  # type: ignore[arg-type]


def change(kind: str, before: tuple[int, ...], after: tuple[int, ...], **fields: object):
    values: dict[str, object] = {
        "change_id": 1,
        "job_id": "a",
        "requested_s": 10.0,
        "ended_s": 18.0,
        "outcome": "done",
        "stopping_time_s": 3.0,
        "samples_lost": 12.0,
    }
    return ChangeRecord(kind=kind, from_slots=before, to_slots=after, **(values | fields))  # type: ignore[arg-type]


def test_nothing_gives_no_metric() -> None:
    assert compute(RunRecords()) == {}


def test_counts() -> None:
    found = of(
        job("a", 0, 10, num_rescales=2, num_preemptions=1),
        job("b", 1, 10, state="refused"),
        job("c", 2, 10, state="failed", num_rescales=1),
        job("d", 3, None, state="running"),
    )
    assert found["jobs_submitted"] == 4
    assert found["jobs_finished"] == found["jobs_refused"] == found["jobs_failed"] == 1
    assert found["job_drop_ratio"] == 0.25
    assert (found["rescales"], found["preemptions"]) == (3, 1)


def test_slots_that_were_down_count_within_the_makespan() -> None:
    """Arrival at 10, end at 30, four slots: 80 slot-seconds, of which 5 + 10 were down."""
    grants = [GrantRecord("a", 10, 30, (0, 1), 8, 2.0)]
    outages = [OutageRecord(3, 0, 15), OutageRecord(2, 20, 99), OutageRecord(3, 40, 50)]
    found = of(job("a", 10, 30), grants=grants, outages=outages)
    assert found["outage_slot_s"] == 15
    assert found["slot_availability"] == pytest.approx(65 / 80)
    assert found["interruptions"] == 0
    assert found["slot_utilization_mean"] == found["cluster_efficiency_mean"] == 0.5
    without = of(job("a", 10, 30), grants=grants)
    assert set(found) - set(without) == {"outage_slot_s", "slot_availability", "interruptions"}


def test_interruptions_are_counted_without_any_outage() -> None:
    facts = {"num_slots": 4.0, "interruptions": 2.0}
    assert compute(RunRecords(jobs=[job("a", 0, 9)], facts=facts))["interruptions"] == 2


def test_completion_times() -> None:
    """JCTs 10, 20, 30, 40, 100; slowdowns 2, 4, 6 where the time alone is known."""
    ends = {"a": 10, "b": 20, "c": 30, "d": 40, "e": 100}
    alone = {"a": 5.0, "b": 5.0, "c": 5.0}
    found = of(*(job(key, 0, end, alone_s=alone.get(key)) for key, end in ends.items()))
    assert found["jct_mean_s"] == 40
    assert found["jct_median_s"] == 30
    assert found["jct_p95_s"] == pytest.approx(40 + 0.8 * 60)
    assert found["jct_p99_s"] == pytest.approx(40 + 0.96 * 60)
    assert found["slowdown_p95"] == pytest.approx(4 + 0.9 * 2)
    assert found["makespan_s"] == 100


def test_makespan_runs_from_the_first_arrival_of_any_job_to_the_last_finish() -> None:
    found = of(job("a", 5, 7, state="refused"), job("b", 8, 20), job("c", 9, 50, state="failed"))
    assert found["makespan_s"] == 15


def test_queueing_counts_every_job_that_started() -> None:
    found = of(
        job("a", 0, 9, first_start_s=1.0),
        job("b", 0, 9, first_start_s=5.0, state="failed"),
        job("c", 0, 9, first_start_s=None, state="refused"),
    )
    assert found["queueing_mean_s"] == 3


def test_who_queues_finishes_all_in_the_end() -> None:
    """Ends at 4, 6 and 9; the last arrives at 6, a refused one counts neither way."""
    jobs = [job("a", 0, 4), job("b", 1, 6), job("c", 6, 9), job("d", 2, 2, state="refused")]
    assert of(*jobs)["jobs_finished_by_last_arrival"] == 2
    assert "jobs_finished_by_last_arrival" not in of(job("a", 0, 4), job("b", 0, 6))


def test_best_effort_jobs_beside_deadlines() -> None:
    """Completion times of 30 and 50; absent where none has a deadline, or where one is open."""
    free = [job("a", 0, 30), job("b", 10, 60)]
    bound = job("c", 0, 60, deadline_s=90.0)
    assert of(*free, bound)["jct_best_effort_mean_s"] == 40
    assert "jct_best_effort_mean_s" not in of(*free)
    assert "jct_best_effort_mean_s" not in of(bound)
    still = job("d", 0, None, state="running")
    assert "jct_best_effort_mean_s" not in of(*free, bound, still)


def test_a_refused_job_counts_as_run_alone_after_all_others() -> None:
    """Finished at 10 and 30; then one after another: 30 + 5 = 35 and 35 + 7 = 42."""
    found = of(
        job("a", 0, 10, alone_s=9.0),
        job("b", 10, 30, alone_s=9.0),
        job("c", 5, 5, state="refused", alone_s=5.0),
        job("d", 12, 12, state="refused", alone_s=7.0),
    )
    assert found["jct_penalised_mean_s"] == (10 + 20 + (35 - 5) + (42 - 12)) / 4
    assert found["jct_mean_s"] == 15
    unknown = of(job("a", 0, 10), job("c", 5, 5, state="refused"))
    assert "jct_penalised_mean_s" not in unknown


def test_common_jct_uses_the_jobs_that_finished_in_every_run() -> None:
    first = [job("a", 0, 10), job("b", 0, 20), job("c", 0, 5, state="refused")]
    second = [job("a", 0, 30), job("b", 0, 5, state="refused"), job("c", 0, 99)]
    assert jct_common_mean_s([first, second]) == [10, 30]
    assert jct_common_mean_s([first, [job("c", 0, 1)]]) is None
    assert jct_common_mean_s([]) is None


def test_deadlines() -> None:
    """a meets its own; b is late by 5; c is refused though feasible; d was never feasible."""
    found = of(
        job("a", 0, 10, deadline_s=10.0, fastest_alone_s=4.0),
        job("b", 0, 25, deadline_s=20.0, fastest_alone_s=4.0),
        job("c", 0, 1, deadline_s=20.0, fastest_alone_s=20.0, state="refused"),
        job("d", 0, 2, deadline_s=20.0, fastest_alone_s=20.5, state="refused"),
        job("e", 0, 500),
    )
    assert found["deadline_satisfactory_ratio"] == 0.25
    assert found["deadline_feasible_ratio"] == pytest.approx(1 / 3)
    assert found["tardiness_mean_s"] == 2.5


def test_deadline_metrics_are_absent_without_deadlines_or_profile() -> None:
    assert not [name for name in of(job("a", 0, 10)) if "deadline" in name or "tardi" in name]
    found = of(job("a", 0, 10, deadline_s=10.0))
    assert found["deadline_satisfactory_ratio"] == 1
    assert "deadline_feasible_ratio" not in found


def test_cluster_efficiency_and_utilization_are_means_over_the_makespan() -> None:
    """Window 0..20 on 4 slots: speedup 1.5 on 2 slots for 10 s, 1 on 1 slot for 10 s."""
    grants = [
        GrantRecord("a", 0, 10, (0, 1), 8, 1.5),
        GrantRecord("a", 10, 20, (0,), 8, 1.0),
        GrantRecord("late", 20, 90, (0, 1, 2, 3), 8, 4.0),
    ]
    jobs = (job("a", 0, 20), job("late", 5, 90, state="failed"))
    found = of(*jobs, grants=grants)
    assert found["cluster_efficiency_mean"] == pytest.approx((15 + 10) / 80)
    assert found["slot_utilization_mean"] == pytest.approx((20 + 10) / 80)
    unknown = [replace(grants[0], speedup=None)]
    assert "cluster_efficiency_mean" not in of(*jobs, grants=unknown)


def test_finish_time_fairness() -> None:
    """Two jobs of 2 slots on 2 slots, both present 0..10, then b alone to 20.

    a: N = 2, isolated 4 * 2 * 2 / 2 = 8, rho = 10 / 8.
    b: N = 1.5, isolated 12 * 2 * 1.5 / 2 = 18, rho = 20 / 18.
    """
    found = of(job("a", 0, 10, alone_s=4.0), job("b", 0, 20, alone_s=12.0), num_slots=2.0)
    assert found["finish_time_fairness_max"] == pytest.approx(1.25)
    swapped = of(job("a", 0, 10, alone_s=8.0), job("b", 0, 20, alone_s=12.0), num_slots=2.0)
    assert swapped["finish_time_fairness_max"] == pytest.approx(20 / 18)


def test_an_isolated_share_is_never_more_than_the_request() -> None:
    assert of(job("a", 0, 10, alone_s=8.0))["finish_time_fairness_max"] == 1.25


def test_sjs_efficiency_as_in_the_paper() -> None:
    """10 minutes on one slot against 6 minutes on two: 10 / 12."""
    found = of(job("a", 0, 360, attained_slot_s=720.0, single_slot_s=600.0))
    assert found["sjs_efficiency"] == pytest.approx(10 / 12)
    half = job("a", 0, 360, attained_slot_s=720.0, single_slot_s=600.0, samples_done=50.0)
    assert of(half)["sjs_efficiency"] == pytest.approx(5 / 12)
    assert "sjs_efficiency" not in of(job("a", 0, 360, attained_slot_s=720.0))


def test_rescales_by_direction() -> None:
    changes = [
        change("rescale", (0,), (0, 1), stopping_time_s=2.0, samples_lost=10.0),
        change("rescale", (0,), (0, 1), stopping_time_s=4.0, samples_lost=20.0),
        change("rescale", (0, 1), (1,), stopping_time_s=1.0, samples_lost=None),
        change("rescale", (0, 1), (1,), stopping_time_s=9.0, outcome="failed"),
        change("migrate", (0,), (1,), stopping_time_s=7.0, samples_lost=99.0),
        change("start", (), (1,), stopping_time_s=None),
    ]
    found = of(changes=changes)
    assert found["stopping_time_scale_out_mean_s"] == 3
    assert found["stopping_time_scale_in_mean_s"] == 1
    assert found["samples_lost_per_rescale_mean"] == 15


def test_resource_loss() -> None:
    """Requested 10, ended 18, stopped 3 s: 5 s more in which the added slots idle.

    Out, 1 to 3: 3 slots * 3 s + 2 added * 5 s = 19. In, 3 to 1: 3 * 3 = 9.
    Migration 0 to 1: 2 * 3 + 1 * 5 = 11.
    """
    out, shrink = change("rescale", (0,), (0, 1, 2)), change("rescale", (0, 1, 2), (0,))
    move = change("migrate", (0,), (1,))
    assert of(changes=[out])["resource_loss_slot_s"] == 19
    assert of(changes=[shrink])["resource_loss_slot_s"] == 9
    assert of(changes=[move])["resource_loss_slot_s"] == 11
    assert of(changes=[out, shrink, move])["resource_loss_slot_s"] == 39
    assert "resource_loss_slot_s" not in of(changes=[replace(out, stopping_time_s=None)])


def test_resource_loss_counts_wall_clock_under_a_dilated_clock() -> None:
    """8 s of the engine's clock are 16 s: 3 slots * 3 s + 2 added * 13 s."""
    records = RunRecords(changes=[change("rescale", (0,), (0, 1, 2))], facts={"dilation": 2.0})
    assert compute(records)["resource_loss_slot_s"] == 35


def test_latencies_in_milliseconds() -> None:
    found = of(latencies_us=[1000, 2000, 3000])
    assert found["decision_latency_p50_ms"] == 2
    assert found["decision_latency_p99_ms"] == pytest.approx(2.98)


def test_speed_and_shares_from_facts() -> None:
    facts = {
        "num_events": 500.0,
        "replay_wall_s": 2.0,
        "steps_executed": 30.0,
        "steps_credited": 90.0,
        "similarity_load": 0.7,
        "peak_memory_bytes": 1e9,
        "pace_overrun_share": math.nan,
    }
    found = compute(RunRecords(jobs=[job("a", 0, 20), job("b", 0, 5)], facts=facts))
    assert found["replay_events_per_s"] == 250
    assert found["replay_wall_s"] == 2
    assert found["executed_share"] == 0.25
    assert found["similarity_load"] == 0.7
    assert found["peak_memory_bytes"] == 1e9
    assert "pace_overrun_share" not in found, "not a number: absent"
    assert found["throughput_samples_per_s"] == 10


def test_a_run_of_no_length_has_no_rates() -> None:
    found = of(job("a", 3, 3), grants=[GrantRecord("a", 3, 3, (0,), 8, 1.0)])
    assert found["makespan_s"] == 0
    assert not {"slot_utilization_mean", "throughput_samples_per_s"} & set(found)


@settings(max_examples=examples(30), deadline=None)
@given(
    seed=st.integers(0, 5),
    num_jobs=st.integers(1, 20),
    num_slots=st.integers(1, 6),
    live=st.booleans(),
    shift=st.floats(0, 1e6),
)
def test_invariants(seed: int, num_jobs: int, num_slots: int, live: bool, shift: float) -> None:
    records = simulate(seed, num_jobs, num_slots, live)
    found = compute(records)
    assert list(found) == sorted(found)
    assert all(math.isfinite(value) for value in found.values())
    assert found["jct_median_s"] <= found["jct_p95_s"] <= found["jct_p99_s"]
    assert found["jct_p99_s"] <= found["makespan_s"] + 1e-9
    assert found["queueing_mean_s"] <= found["jct_mean_s"]
    assert 0 < found["slot_utilization_mean"] <= 1 + 1e-9
    assert found["cluster_efficiency_mean"] <= found["slot_utilization_mean"] + 1e-9
    assert found["jct_penalised_mean_s"] == pytest.approx(found["jct_mean_s"])
    assert found["deadline_satisfactory_ratio"] <= found["deadline_feasible_ratio"] <= 1
    assert 0 < found["sjs_efficiency"] <= 1 + 1e-9
    later = replace_times(records, shift)
    for name, value in compute(later).items():
        assert value == pytest.approx(found[name], rel=1e-6, abs=1e-6), name


def replace_times(records: RunRecords, shift: float) -> RunRecords:
    """The same run, begun later on its clock."""
    moved = {"jobs": ["arrival_s", "deadline_s", "first_start_s", "finish_s"]}
    moved |= {"grants": ["start_s", "end_s"], "changes": ["requested_s", "ended_s"]}
    lists = {
        table: [
            replace(row, **{name: getattr(row, name) + shift for name in names})
            for row in getattr(records, table)
        ]
        for table, names in moved.items()
    }
    return replace(records, **lists)


def test_hangs_are_told_from_false_kills() -> None:
    faults = [
        FaultRecord(10.0, "SIGSTOP", "0.w2", "steady", -1, 2),
        FaultRecord(20.0, "SIGKILL", "0.w3", "steady", -1, 2),
        FaultRecord(30.0, "SIGSTOP", "0.w4", "steady", -1, 2),
        FaultRecord(40.0, "SIGSTOP", "0.w5", "steady", -1, 2),
    ]
    accusations = [
        AccusationRecord("0", 10.5, "0.w2", "0.w1", 0.4),
        AccusationRecord("0", 29.0, "0.w4", "0.w1", 0.4),  # killed in error, then signalled
        AccusationRecord("0", 40.7, "0.w5", "0.w1", 0.4),
        AccusationRecord("0", 50.0, "0.w1", "0.w6", 0.4),
    ]
    records = RunRecords(faults=faults, accusations=accusations)
    assert compute(records) == {}, "an older run recorded no accusations"
    records.facts["stress_processes"] = 2.0
    found = compute(records)
    assert found["false_kills"] == 2
    assert found["hang_detection_median_s"] == pytest.approx(0.6)
    quiet = compute(RunRecords(facts={"stress_processes": 0.0}))
    assert quiet == {"false_kills": 0}


def test_bits_are_equal_if_those_of_all_finished_jobs_are() -> None:
    jobs = [job("a", 0.0, 10.0), job("b", 0.0, 20.0)]
    failed = job("c", 0.0, None, state="failed")
    same = [FixedSizeRecord(name, 4, 30, "", 30, "key") for name in ("a", "b")]
    other = replace(same[1], different="digest_buffers", equal_steps=12)
    assert "bitwise_equal" not in of(*jobs), "not checked"
    assert of(*jobs, fixed_size=same)["bitwise_equal"] == 1.0
    assert of(*jobs, fixed_size=[same[0], other])["bitwise_equal"] == 0.0
    assert of(*jobs, fixed_size=same[:1])["bitwise_equal"] == 0.0, "one was not held to anything"
    assert of(*jobs, failed, fixed_size=same)["bitwise_equal"] == 0.0
    losses = replace(same[1], equal_steps=29)
    assert of(*jobs, fixed_size=[same[0], losses])["bitwise_equal"] == 0.0, "a loss differs"

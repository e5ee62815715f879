"""What workers note of messages and of their election: in real jobs, and worked out by hand."""

import time

import pytest
from msgspec.structs import replace

from harness.contracts.change import ChangeKind
from harness.engines.live.coordination import coordination_facts, read_notes, training_period
from harness.engines.live.observations import read_steps
from harness.metrics.compute import compute
from harness.results.records import RunRecords
from systems.elastic.wire.coordination_log import KEPT, CoordinationLog, stamped
from systems.elastic.wire.messages import LeaderBeat
from systems.runtime.wire.messages import SetTarget
from systems.runtime.wire.protocol import encode
from tests.elastic.histories import STEP_S, stop_free

TOLD = {"num_messages": 2, "num_bytes": 80, "timed": []}


def test_a_real_job_notes_its_messages_and_its_one_leader(launcher, tmp_path):
    world = stop_free(launcher, tmp_path, heartbeat_s=0.02)
    began = time.monotonic()
    try:
        world.until_change(world.start((0, 1, 2), step_s=STEP_S))
        world.until_step(60)
        world.do(ChangeKind.RESCALE, (0, 1, 2, 3))
        world.until_step(120)
        world.backend.set_target_step("job", 0)
        end = world.until_end()
    finally:
        world.backend.close()
    took_s = time.monotonic() - began
    notes = read_notes(world.job_dir())
    assert sorted(each["num_founders"] for each in notes) == [0, 3, 3, 3], "one joined later"
    assert all(each["num_messages"] >= len(each["timed"]) > 0 for each in notes)
    steps = read_steps(world.job_dir() / "steps.jsonl", "job", 0.0)
    facts = coordination_facts([(notes, *training_period(steps, 0.0))])
    assert facts["elections"] == 1
    assert facts["leaders_at_founding_max"] == 1
    assert 0 <= facts["election_mean_ms"] < 1000 * took_s
    assert 0 < facts["election_slowest_worker_ms"] < 1000 * took_s
    assert 0 < facts["messages_timed"] < facts["messages"], "some came before the first step"
    assert 0 < facts["message_latency_median_us"] <= facts["message_latency_p95_us"]
    assert 0 < facts["message_latency_mean_us"] < 1e6 * took_s
    found = compute(RunRecords(facts={**facts, "steps_executed": float(end.step)}))
    beat = len(encode(stamped(LeaderBeat())))
    assert beat - 8 < found["message_size_mean_bytes"] < 10 * beat
    assert found["messages_per_step"] == facts["messages"] / end.step


def test_a_job_that_is_resumed_elects_anew(launcher, tmp_path):
    world = stop_free(launcher, tmp_path)
    try:
        world.until_change(world.start((0, 1), step_s=STEP_S))
        world.do(ChangeKind.SUSPEND)
        world.do(ChangeKind.RESUME, (0,))
        world.until_step(world.reports[-1].step + 50)  # a lone worker trains while it elects
        world.backend.set_target_step("job", 0)
        world.until_end()
    finally:
        world.backend.close()
    facts = coordination_facts([(read_notes(world.job_dir()), 0.0, 0.0)])
    assert facts["elections"] == 2
    assert facts["leaders_at_founding_max"] == 1


def test_a_message_is_noted_with_its_size_and_the_time_it_took(tmp_path):
    log = CoordinationLog()
    message = stamped(LeaderBeat())
    assert message.sent <= time.monotonic()
    log.note(replace(message, sent=message.sent - 0.25))
    log.note(SetTarget(target_step=3))  # the driver's
    ((_, latency_us),) = log._timed
    assert 250_000 <= latency_us < 1_250_000
    assert (log._num_messages, log._num_bytes) == (1, pytest.approx(len(encode(message)), abs=4))
    for _ in range(KEPT + 5):
        log.note(message)
    assert (log._num_messages, len(log._timed)) == (KEPT + 6, KEPT)


def founder(worker, began, knew, leader="a", founders=2, generation=1):
    return {
        **TOLD,
        "worker": worker,
        "generation": generation,
        "num_founders": founders,
        "began": began,
        "knew": knew,
        "leader": leader,
    }


def test_an_election_lasts_from_the_last_to_begin_until_all_know():
    late = [founder("w1", 10.0, 10.03), founder("w2", 10.02, 10.025)]
    facts = coordination_facts([(late, 0.0, 0.0)])
    assert facts["election_mean_ms"] == pytest.approx(10.0)
    assert facts["election_slowest_worker_ms"] == pytest.approx(30.0)
    assert (facts["messages"], facts["message_bytes"]) == (4.0, 160.0)
    assert (facts["messages_timed"], facts["leaders_at_founding_max"]) == (0.0, 1.0)
    assert "message_latency_mean_us" not in facts

    two_leaders = [founder("w1", 10.0, 10.03), founder("w2", 10.02, 10.04, "b")]
    facts = coordination_facts([(late, 0.0, 0.0), (two_leaders, 0.0, 0.0)])
    assert (facts["elections"], facts["leaders_at_founding_max"]) == (2.0, 2.0)
    assert facts["election_mean_ms"] == pytest.approx(15.0)


def test_an_election_counts_if_every_founder_told():
    joiner = founder("w4", 30.0, 30.5, founders=0, generation=0)
    one_of_two = founder("w1", 10.0, 10.03)
    without_leader = [founder("w1", 20.0, None, None), founder("w2", 20.0, 20.01)]
    facts = coordination_facts([([one_of_two, joiner], 0.0, 0.0), (without_leader, 0.0, 0.0)])
    assert facts["elections"] == 0
    assert not [name for name in facts if name.startswith(("election_", "leaders"))]


def test_messages_count_while_their_job_trains():
    timed = [[1.0, 400], [5.0, 100], [6.0, 200], [7.0, 600], [9.9999, 900], [11.0, 50]]
    note = {**founder("w1", 0.0, 0.1, founders=1), "timed": timed}
    facts = coordination_facts([([note], 2.0, 10.0)])
    assert facts["messages_timed"] == 3
    assert facts["message_latency_mean_us"] == pytest.approx(300.0)
    assert facts["message_latency_median_us"] == pytest.approx(200.0)
    assert facts["message_latency_p95_us"] == pytest.approx(560.0)
    found = compute(RunRecords(facts={**facts, "steps_executed": 4.0}))
    assert found["message_size_mean_bytes"] == 40.0
    assert found["messages_per_step"] == 0.5
    assert found["message_latency_mean_us"] == pytest.approx(300.0)


def test_workers_without_a_leader_have_no_such_numbers(tmp_path):
    assert read_notes(tmp_path) == []
    assert coordination_facts([([], 0.0, 0.0)]) == {}
    assert set(compute(RunRecords(facts={"steps_executed": 4.0}))) == {"executed_share"}

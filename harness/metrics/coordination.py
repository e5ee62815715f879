"""Metrics of the cost of coordinating elastic jobs: pure functions of records."""

from __future__ import annotations

from harness.results.records import RunRecords

_AS_THEY_ARE = (
    "messages_timed",
    "message_latency_mean_us",
    "message_latency_median_us",
    "message_latency_p95_us",
    "election_mean_ms",
    "election_slowest_worker_ms",
    "leaders_at_founding_max",
)


def coordination(records: RunRecords) -> dict[str, float | None]:
    """Return messages between workers and leader, and elections [EDL, sections 4.1 and 4.4].

    ``message_size_mean_bytes``: size of a message with its time and its end of line.
    ``messages_per_step``: messages over executed steps. The others are facts, unchanged
    (``harness.engines.live.coordination``). Absent in runs whose workers have no leader.
    """
    facts = records.facts
    num_messages, num_steps = facts.get("messages"), facts.get("steps_executed")
    if not num_messages:
        return {}
    return {
        "message_size_mean_bytes": facts["message_bytes"] / num_messages,
        "messages_per_step": num_messages / num_steps if num_steps else None,
        **{name: facts.get(name) for name in _AS_THEY_ARE},
    }

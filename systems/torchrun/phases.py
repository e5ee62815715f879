"""How long each phase of a change took under TorchElastic.

Who measures what: the agents, through TorchElastic's own metrics, how long they stopped their
worker and were in the rendezvous; the first worker its import and what follows; the driver the
rest. All on ``time.monotonic``, which the processes of one host share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from systems.runtime.step_log import read_lines
from systems.torchrun.membership import Agent, Worker


def phases_of(
    message: Mapping[str, Any],
    agents: Sequence[Agent],
    worker: Worker,
    began: float,
    starts: bool,
) -> dict[str, float]:
    """Phases until the end of the first step of the wanted workers; they follow each other.

    At a start ``agents``: until the first worker's agent enters the rendezvous. Else
    ``detect``: until that agent stops its worker (or enters the rendezvous, where it had
    none); ``rounds``, only where TorchElastic took more than one: from the first of them to
    the last; ``stop``. Then ``rendezvous``, ``spawn`` (until the first worker has greeted the
    driver), and what the first worker measured.

    Args:
        message: what the first worker said after its first step.
        agents: all agents that are not leaving.
        worker: the first worker.
        began: when the change was asked for, or when an agent died.
        starts: whether the job had no workers before.
    """
    (first,) = (agent for agent in agents if agent.number == worker.agent)
    spans = first.spans["rendezvous"]  # its last is over, or it could have no worker
    rendezvous = spans[-1]
    entered = max(began, rendezvous.began)
    stops = first.spans.get("stop", [])
    stopped = stops[-1].began if stops and stops[-1].began >= began else entered
    if starts:
        phases_s = {"agents": entered - began}
    else:
        phases_s = {"detect": stopped - began}
        rounds = [
            span.ended
            for agent in agents
            for span in agent.spans.get("rendezvous", ())
            if began <= span.ended < entered
        ]
        if rounds:
            phases_s = {"detect": min(rounds) - began, "rounds": stopped - min(rounds)}
        phases_s["stop"] = entered - stopped
    phases_s["rendezvous"] = rendezvous.ended - entered
    phases_s["spawn"] = worker.greeted_at - rendezvous.ended
    return {**phases_s, **message["phases_s"]}


def stopping_time_s(job_dir: Path, round_number: int, began: float, started: float) -> float | None:
    """How long the workers there were did not train, by the job's own log of steps.

    From the end of the last step of a round to the start of the first of the next, summed
    where a round of another size than the wanted one has trained for a while.

    Args:
        job_dir: where the log is.
        round_number: the round that was wanted.
        began: when the change was asked for, or when an agent died.
        started: when the first step of that round did.
    """
    stopped_s, ended, number = 0.0, None, 0
    for entry in read_lines(job_dir / "steps.jsonl"):
        if entry["generation"] >= round_number:
            continue
        if ended is not None and entry["generation"] != number and entry["started"] >= began:
            stopped_s += entry["started"] - ended
        ended, number = entry["started"] + entry["duration_s"], entry["generation"]
    return None if ended is None else stopped_s + started - ended

"""Durations of the phases of a change under TorchElastic.

The agents measure, through TorchElastic's own metrics, how long they stopped their worker and were
in the rendezvous. The first worker measures its import and what follows; the driver measures the
rest. All times are on ``time.monotonic``, which the processes of one host share.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from systems.runtime.wire.messages import FirstStep
from systems.runtime.wire.step_log import read_lines
from systems.torchrun.membership import Agent, Worker


def phases_of(
    message: FirstStep,
    agents: Sequence[Agent],
    worker: Worker,
    began: float,
    starts: bool,
) -> dict[str, float]:
    """Return the successive phases until the end of the first step of the wanted workers.

    At a start the first is ``agents``: until the first worker's agent enters the rendezvous.
    Otherwise it is ``detect``: until that agent stops its worker, or enters the rendezvous if it
    had none. Then ``rounds``, only if TorchElastic took more than one: from the first to the last;
    then ``stop``. In both cases ``rendezvous`` follows, then ``spawn`` (until the first worker has
    greeted the driver), and the first worker's own phases.

    Args:
        message: first worker's message after its first step.
        agents: all agents that are not leaving.
        worker: the first worker.
        began: time at which the change was requested, or an agent died.
        starts: true if the job had no workers before.
    """
    (first,) = (agent for agent in agents if agent.number == worker.agent)
    spans = first.spans["rendezvous"]  # the last is over, or the agent could have no worker
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
    return {**phases_s, **message.phases_s}


def stopping_time_s(job_dir: Path, round_number: int, began: float, started: float) -> float | None:
    """Return the time for which the previous workers did not train, from the job's log of steps.

    The time lasts from the end of the last step of a round to the start of the first step of the
    next. Times are summed if a round of another size than the wanted one has trained meanwhile.

    Args:
        job_dir: folder of the log.
        round_number: number of the wanted round.
        began: time at which the change was requested, or an agent died.
        started: start of the first step of that round.
    """
    stopped_s, ended, number = 0.0, None, 0
    for entry in read_lines(job_dir / "steps.jsonl"):
        if entry["generation"] >= round_number:
            continue
        if ended is not None and entry["generation"] != number and entry["started"] >= began:
            stopped_s += entry["started"] - ended
        ended, number = entry["started"] + entry["duration_s"], entry["generation"]
    return None if ended is None else stopped_s + started - ended

"""A worker's messages to the driver after its first step since a switch or a recovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from systems.elastic.wire.recovery_plan import Membership
from systems.elastic.worker.setup import WorkerSetup
from systems.runtime.wire.control import ControlClient


class SwitchReporter:
    """Messages of one worker to the driver."""

    def __init__(self, client: ControlClient, bench: WorkerSetup, worker: str) -> None:
        self._client = client
        self._bench = bench
        self._worker = worker
        self._arrival: Mapping[str, Any] | None = None
        self._lost: Mapping[str, Any] | None = None

    def arrived(self, change_id: int, old_ended: float | None) -> None:
        """Record that the next step is this worker's first step in a generation.

        Args:
            change_id: id of the change that asked for the generation.
            old_ended: end of the worker's last step before; None for a joiner.
        """
        self._arrival = {"change_id": change_id, "old_ended": old_ended}

    def recovered(self, lost: Sequence[str], change_id: int | None) -> None:
        """Record that the next step is the first step without these workers.

        Args:
            lost: the workers.
            change_id: last change that this worker went through; None if there was none.
        """
        self._lost = {"lost": list(lost), "change_id": change_id}

    def over(self, generation: int, membership: Membership) -> None:
        """Report the job's last state in place of the first worker, which has died."""
        group = {"generation": generation, "members": list(membership.members)}
        details: dict[str, Any] = {"lost": [], "change_id": None, "phases_s": {}}
        self._client.send(
            {"kind": "recovered", **group, **details, **self._bench.report.standing()}
        )

    def step(self, started: float, ended: float, generation: int, membership: Membership) -> None:
        """Report the switch or recovery after which this committed step is the first, if any."""
        bench = self._bench
        arrival, self._arrival = self._arrival, None
        lost, self._lost = self._lost, None
        group = {"generation": generation, "members": list(membership.members)}
        if lost is not None and membership.members[0] == self._worker:
            bench.phases_s["first_step"] = ended - started
            self._client.send(
                {
                    "kind": "recovered",
                    **group,
                    **lost,
                    **bench.report.standing(),
                    "phases_s": bench.report.take_phases(),
                }
            )
        if arrival is None:
            return
        old_ended = arrival["old_ended"]
        bench.phases_s["first_step"] = ended - started
        self._client.send(
            {
                "kind": "switched",
                **group,
                "started": started,
                "stopping_time_s": None if old_ended is None else started - old_ended,
                **arrival,
                **bench.report.standing(),
                "phases_s": bench.report.take_phases(),
            }
        )

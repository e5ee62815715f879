"""A worker's messages to the driver after its first step since a switch or a recovery."""

from __future__ import annotations

from collections.abc import Sequence

from systems.elastic.wire.messages import Recovered, Switched
from systems.elastic.wire.recovery_plan import Membership
from systems.elastic.worker.setup import WorkerSetup
from systems.runtime.wire.clock import on_driver_clock
from systems.runtime.wire.control import ControlClient


class SwitchReporter:
    """Messages of one worker to the driver."""

    def __init__(self, client: ControlClient, bench: WorkerSetup, worker: str) -> None:
        self._client = client
        self._bench = bench
        self._worker = worker
        self._arrival: tuple[int, float | None] | None = None
        """Change that was asked for, and end of the last step before; None: nothing to report."""
        self._lost: tuple[tuple[str, ...], int | None] | None = None
        """Workers lost, and the last change before; None: nothing to report."""

    def arrived(self, change_id: int, old_ended: float | None) -> None:
        """Record that the next step is this worker's first step in a generation.

        Args:
            change_id: id of the change that asked for the generation.
            old_ended: end of the worker's last step before; None for a joiner.
        """
        self._arrival = change_id, old_ended

    def recovered(self, lost: Sequence[str], change_id: int | None) -> None:
        """Record that the next step is the first step without these workers.

        Args:
            lost: the workers.
            change_id: last change that this worker went through; None if there was none.
        """
        self._lost = tuple(lost), change_id

    def over(self, generation: int, membership: Membership) -> None:
        """Report the job's last state in place of the first worker, which has died."""
        self._client.send(
            Recovered(
                progress=self._bench.report.progress(),
                generation=generation,
                members=membership.members,
                lost=(),
                change_id=None,
                phases_s={},
            )
        )

    def step(self, started: float, ended: float, generation: int, membership: Membership) -> None:
        """Report the switch or recovery after which this committed step is the first, if any."""
        bench = self._bench
        arrival, self._arrival = self._arrival, None
        lost, self._lost = self._lost, None
        if lost is not None and membership.members[0] == self._worker:
            bench.phases_s["first_step"] = ended - started
            self._client.send(
                Recovered(
                    progress=bench.report.progress(),
                    generation=generation,
                    members=membership.members,
                    lost=lost[0],
                    change_id=lost[1],
                    phases_s=bench.report.take_phases(),
                )
            )
        if arrival is None:
            return
        change_id, old_ended = arrival
        bench.phases_s["first_step"] = ended - started
        self._client.send(
            Switched(
                progress=bench.report.progress(),
                generation=generation,
                members=membership.members,
                change_id=change_id,
                started=on_driver_clock(started),
                stopping_time_s=None if old_ended is None else started - old_ended,
                phases_s=bench.report.take_phases(),
            )
        )

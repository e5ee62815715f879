"""Members of an elastic job, and queries about them: who joins, is wanted, or survives."""

from __future__ import annotations

from collections.abc import Iterable

from systems.elastic.driver.job_status import JobStatus
from systems.elastic.driver.pending_change import PendingChange, Verdict
from systems.elastic.driver.processes import Process, ProcessTable
from systems.elastic.driver.recovery_deadline import RecoveryDeadline
from systems.elastic.wire.options import ElasticOptions
from systems.runtime.driver.ending import Phase

LEAVING = (Phase.STOPPING, Phase.FINISHING)
"""Phases in which a worker that has left waits, with the last step's state, for the job's end."""


class Roll:
    """Members and their present change in one life of a job. It decides nothing (``workforce``)."""

    def __init__(
        self,
        process_table: ProcessTable,
        job_status: JobStatus,
        options: ElasticOptions,
        members: tuple[str, ...],
    ) -> None:
        """Begin with the founders.

        Args:
            crew: processes of the job.
            account: what the job knows of itself.
            options: options of the job.
            members: the founders, by rank.
        """
        self.process_table = process_table
        self.members = members
        """Members by rank, as far as the driver knows."""
        self.adjusting: PendingChange | None = None
        self.recovery = RecoveryDeadline(options.recovery_timeout_s)
        self._job_status = job_status
        self._options = options

    @property
    def recover_by(self) -> float | None:
        """Time by which the workers must train again after losing their group; None: no loss."""
        return self.recovery.at

    def is_joining(self, process: Process) -> bool:
        """Return whether the worker is a joiner whose change is still open."""
        adjusting = self.adjusting
        return (
            adjusting is not None
            and process.name in adjusting.joiners
            and not adjusting.switched
            and adjusting.verdict is Verdict.OPEN
        )

    def is_wanted(self, process: Process) -> bool:
        """Return whether the job needs this worker now."""
        adjusting = self.adjusting
        if self._job_status.phase in LEAVING:
            trains = adjusting is not None and process.name in adjusting.switched
            return process.name in self.members or trains
        if process.left is not None and process.failure == "":
            if adjusting is not None and process.name in adjusting.leavers:
                return False
            return process.name in self.members and self.recover_by is None
        if adjusting is not None and adjusting.switched:
            return process.name in adjusting.new
        return process.name in self.members

    @property
    def has_state(self) -> bool:
        """Whether the members have the job's state: it has begun, and has not ended."""
        return self._job_status.phase in (Phase.RUNNING, *LEAVING)

    @property
    def can_recover(self) -> bool:
        """Whether the job may survive a death now: it recovers, and the members have the state."""
        return self._options.recovery != "none" and self.has_state

    @property
    def is_over(self) -> bool:
        """Whether the first worker has made its last step, and lives to report how the job ended.

        What happens to the other workers then has no effect.
        """
        if self._job_status.phase not in LEAVING:
            return False
        adjusting = self.adjusting
        members = adjusting.new if adjusting is not None and adjusting.switched else self.members
        first = self.process_table.workers[members[0]]
        return first.left is not None and not first.is_dead and first.end is None

    def survivors(self) -> list[str]:
        """Return the living workers that have the state."""
        trained = set(self.members)
        if self.adjusting is not None and self.adjusting.switched:
            trained |= set(self.adjusting.new)
        # A worker that has left waits, with the state, until no other worker can need it.
        return [worker for worker in self.process_table.living(or_left=True) if worker in trained]

    @property
    def firsts(self) -> tuple[str, ...]:
        """Workers that may be the first worker now, as far as the driver knows."""
        if self.adjusting is not None:
            return (self.members[0], self.adjusting.new[0])
        living = [w for w in self.members if not self.process_table.workers[w].is_dead]
        return (self.members[0], *living[:1])

    def open_change(self, change_id: int, attempt: int) -> PendingChange | None:
        """Return the change under way if this answer of a leader is about it, else None.

        The change must be undecided, and the attempt the last request that the driver made for it.
        So answers to earlier requests are ignored.
        """
        adjusting = self.adjusting
        if adjusting is None or adjusting.change.change_id != change_id:
            return None
        if adjusting.num_attempts != attempt:
            return None
        return adjusting if adjusting.verdict is Verdict.OPEN else None

    def not_dead(self, workers: Iterable[str]) -> set[str]:
        """Return the given workers that are not known to be dead."""
        return {worker for worker in workers if not self.process_table.workers[worker].is_dead}

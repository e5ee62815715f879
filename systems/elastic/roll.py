"""A job's workers, and what can be asked about them: who joins, who is wanted, who survives."""

from __future__ import annotations

from collections.abc import Iterable

from systems.elastic.account import Account
from systems.elastic.adjusting import Adjusting, Verdict
from systems.elastic.crew import Crew, Process
from systems.elastic.options import ElasticOptions
from systems.elastic.recovery_deadline import RecoveryDeadline
from systems.runtime.job_life import Phase

LEAVING = (Phase.STOPPING, Phase.FINISHING)
"""A worker that has left then waits, with the last step's state, until the job has ended."""


class Roll:
    """Of one life of a job. It decides nothing (``workforce``)."""

    def __init__(
        self, crew: Crew, account: Account, options: ElasticOptions, members: tuple[str, ...]
    ) -> None:
        """Args: the job's processes, what it knows of itself, its options and its founders."""
        self.crew = crew
        self.members = members
        """By rank, as far as is known."""
        self.adjusting: Adjusting | None = None
        self.recovery = RecoveryDeadline(options.recovery_timeout_s)
        self._account = account
        self._options = options

    @property
    def recover_by(self) -> float | None:
        """When the workers have to go on at the latest after a death, or another loss of their
        group; None: there was none."""
        return self.recovery.at

    def is_joining(self, process: Process) -> bool:
        """Whether it was to join and nobody knows yet that it has."""
        adjusting = self.adjusting
        return (
            adjusting is not None
            and process.name in adjusting.joiners
            and not adjusting.switched
            and adjusting.verdict is Verdict.OPEN
        )

    def is_wanted(self, process: Process) -> bool:
        """Whether the job needs this worker now."""
        adjusting = self.adjusting
        if self._account.phase in LEAVING:
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
        """Whether the job has begun and not ended: its members have the state."""
        return self._account.phase in (Phase.RUNNING, *LEAVING)

    @property
    def can_recover(self) -> bool:
        """Whether a death now may be survived: while the others have the state."""
        return self._options.recovery != "none" and self.has_state

    @property
    def is_over(self) -> bool:
        """Whether the first worker has made its last step, and lives to say how the job ended;
        whatever happens to the others then is all the same."""
        if self._account.phase not in LEAVING:
            return False
        adjusting = self.adjusting
        members = adjusting.new if adjusting is not None and adjusting.switched else self.members
        first = self.crew.workers[members[0]]
        return first.left is not None and not first.is_dead and first.end is None

    def survivors(self) -> list[str]:
        """Workers that have the state and live."""
        trained = set(self.members)
        if self.adjusting is not None and self.adjusting.switched:
            trained |= set(self.adjusting.new)
        # Who has left stands by, with the state, until nobody needs it.
        return [worker for worker in self.crew.living(or_left=True) if worker in trained]

    @property
    def firsts(self) -> tuple[str, ...]:
        """Who may be the first worker, as far as is known."""
        if self.adjusting is not None:
            return (self.members[0], self.adjusting.new[0])
        living = [w for w in self.members if not self.crew.workers[w].is_dead]
        return (self.members[0], *living[:1])

    def open_change(self, change_id: int, attempt: int) -> Adjusting | None:
        """The change of this number, if it is under way, nobody knows what becomes of it, and this
        was the last attempt to say what is wanted."""
        adjusting = self.adjusting
        if adjusting is None or adjusting.change.change_id != change_id:
            return None
        if adjusting.num_attempts != attempt:
            return None
        return adjusting if adjusting.verdict is Verdict.OPEN else None

    def not_dead(self, workers: Iterable[str]) -> set[str]:
        """Those of these that have not died, as far as is known."""
        return {worker for worker in workers if not self.crew.workers[worker].is_dead}

"""Driver's record of one change of an elastic job's workers, from its request to its answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.contracts.change import Change
from systems.elastic.driver.processes import Process
from systems.elastic.wire.messages import Adjust, Switched, Withdraw
from systems.elastic.wire.recovery_plan import Membership
from systems.runtime.wire.messages import Left
from systems.runtime.wire.step_log import LineWriter


class Verdict(StrEnum):
    """Outcome of a change of workers."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Removal:
    """Removal of stragglers, for which the driver itself changes the workers (``removing``)."""

    workers: tuple[str, ...]
    """Workers that are to leave, the slowest first."""
    slots: tuple[int, ...]
    """Slots of those workers."""
    reason: str
    """Explanation for the user."""
    detected_at: float
    """Time at which the driver heard of the stragglers, on ``time.monotonic``."""


@dataclass(slots=True)
class PendingChange:
    """Change of the workers under way: a scale-out, a scale-in or a migration."""

    change: Change
    old: tuple[str, ...]
    new: tuple[str, ...]
    joiners: tuple[str, ...]
    deadline: float
    """Time at which the change is given up, on ``time.monotonic``.

    After the verdict: the time at which the ``awaited`` workers are killed.
    """
    _: KW_ONLY
    blamed: str = ""
    """Worker whose death made the change fail; empty if there is none."""
    reason: str = ""
    """Reason for which the change failed or is about to fail."""
    num_attempts: int = 0
    """Number of requests to leaders so far; an answer to an earlier request is ignored."""
    is_withdrawn: bool = False
    """True once the driver has asked the leader to give the change up.

    The reason is a change that took too long, a joiner that ended, or a recovery of the workers.
    """
    verdict: Verdict = Verdict.OPEN
    switched: dict[str, Switched] = field(default_factory=dict)
    """Message of each new worker after its first step, by worker."""
    removal: Removal | None = None
    """Removal of stragglers that this change is for; None if the change was requested."""
    spawn_s: dict[str, float] = field(default_factory=dict)
    """Seconds from the start of each joiner's process until it had its order."""

    @property
    def leavers(self) -> tuple[str, ...]:
        """Workers that are not among the new ones."""
        return tuple(worker for worker in self.old if worker not in self.new)

    @property
    def awaited(self) -> tuple[str, ...]:
        """Workers whose processes have to be gone before the change is answered."""
        return self.joiners if self.verdict is Verdict.FAILED else self.leavers

    @property
    def request(self) -> Adjust:
        """Message that asks the leader for this change."""
        change = self.change
        return Adjust(
            change_id=change.change_id,
            attempt=self.num_attempts,
            membership=Membership(
                self.new, change.global_batch, tuple(change.virtual_workers or ())
            ),
            joiners=self.joiners,
        )

    @property
    def withdrawal(self) -> Withdraw:
        """Message that asks the leader to give this change up."""
        return Withdraw(
            change_id=self.change.change_id, attempt=self.num_attempts, reason=self.reason
        )

    @property
    def first(self) -> Switched | None:
        """First-step message of the new first worker, or of another; None before all of them."""
        return self.switched.get(self.new[0]) or next(iter(self.switched.values()), None)

    def phases_s(self) -> dict[str, float]:
        """Return the longest time that any worker took for each phase."""
        phases_s: dict[str, float] = {}
        for worker, message in self.switched.items():
            for name, seconds in self.phases_of(worker, message).items():
                phases_s[name] = max(seconds, phases_s.get(name, 0.0))
        return phases_s

    def removed(self, removal: Removal, name_of: Callable[[str], str]) -> dict[str, Any]:
        """Return the details of the report that stragglers are gone.

        Args:
            removal: the removal that this change is for.
            name_of: returns a worker's name in the launcher.
        """
        now = time.monotonic()
        started = [message.started for message in self.switched.values()]
        switched_s = min(started, default=now) - removal.detected_at
        own = {"remove_switch": max(0.0, switched_s), "remove": now - removal.detected_at}
        return {
            "slots": self.change.slots,
            "lost_slots": removal.slots,
            "stragglers": tuple(map(name_of, removal.workers)),
            "phases_s": {**self.phases_s(), **own},
            "reason": removal.reason,
        }

    def stopping_time_s(self, left: Mapping[str, Left]) -> float | None:
        """Return the longest time for which a worker that trains before and after was stopped.

        If no worker does both, the time is from the end of the leavers' last step to the first
        start of a new worker's step. None if the messages do not tell these times.

        Args:
            left: message of each worker that has left, by worker.
        """
        stopped_s = [
            message.stopping_time_s
            for message in self.switched.values()
            if message.stopping_time_s is not None
        ]
        if stopped_s:
            return max(stopped_s)
        ends = [left[worker].progress.ended for worker in self.leavers if worker in left]
        starts = [message.started for message in self.switched.values()]
        return min(starts) - max(ends) if ends and starts else None

    def phases_of(self, worker: str, message: Switched) -> dict[str, float]:
        """Return one worker's phases, for a joiner with ``spawn``, the start of its process."""
        spawn = {"spawn": self.spawn_s[worker]} if worker in self.spawn_s else {}
        return {**spawn, **message.phases_s}

    def write_phases(self, job_dir: Path, worker: str, message: Switched) -> None:
        """Add one worker's phases of this change as a line to the job's ``phases.jsonl``."""
        role = "joiner" if worker in self.joiners else "survivor"
        self._write(
            job_dir,
            worker,
            role,
            generation=message.generation,
            stopping_time_s=message.stopping_time_s,
            phases_s=self.phases_of(worker, message),
        )

    def write_leaving(self, job_dir: Path, processes: Mapping[str, Process]) -> None:
        """Add a line for each leaver: the time from the end of its last step to its process's end.

        Args:
            job_dir: the job's folder.
            processes: the job's worker processes; a leaver without a last message gets no line.
        """
        for worker in self.leavers:
            process = processes[worker]
            if process.left is not None:
                leave_s = {"leave": process.ended_at - process.left.progress.ended}
                self._write(job_dir, worker, "leaver", phases_s=leave_s)

    def _write(self, job_dir: Path, worker: str, role: str, **measured: Any) -> None:
        change = self.change
        entry = {"change_id": change.change_id, "kind": change.kind.value, "worker": worker}
        log = LineWriter(job_dir / "phases.jsonl")
        log.add({**entry, "role": role, **measured})
        log.try_flush()  # a lost measurement must not fail the job

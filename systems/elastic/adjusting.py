"""One change of an elastic job's workers, from its request until it can be answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.contracts.engine import Change
from systems.elastic.crew import Process
from systems.runtime.step_log import LineWriter


class Verdict(StrEnum):
    """What became of a change of workers."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Removal:
    """Why the driver itself changes the workers: some are stragglers (``removing``)."""

    workers: tuple[str, ...]
    """That are to leave, the slowest first."""
    slots: tuple[int, ...]
    """Theirs."""
    reason: str
    """For a person."""
    detected_at: float
    """When the driver heard of them, on ``time.monotonic``."""


@dataclass(slots=True)
class Adjusting:
    """From the present workers to others: scale-out, scale-in and migration alike."""

    change: Change
    old: tuple[str, ...]
    new: tuple[str, ...]
    joiners: tuple[str, ...]
    deadline: float
    """When it is given up, on ``time.monotonic``; after the verdict: when those whose end is
    awaited are killed."""
    _: KW_ONLY
    blamed: str = ""
    """The worker whose death made it fail, if one did."""
    reason: str = ""
    """Why it failed, or is about to."""
    num_attempts: int = 0
    """How often a leader was told what is wanted; an answer to an earlier attempt means nothing."""
    is_withdrawn: bool = False
    """Whether the leader was asked to give it up: it took too long, a newcomer has gone, or the
    workers had to recover."""
    verdict: Verdict = Verdict.OPEN
    switched: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each new worker said after its first step."""
    removal: Removal | None = None
    """Of stragglers, where the driver itself wants this change."""
    spawn_s: dict[str, float] = field(default_factory=dict)
    """From the start of a joiner's process until it had its order."""

    @property
    def leavers(self) -> tuple[str, ...]:
        """Workers that are not among the new ones."""
        return tuple(worker for worker in self.old if worker not in self.new)

    @property
    def awaited(self) -> tuple[str, ...]:
        """Workers whose processes have to be gone before the change is answered."""
        return self.joiners if self.verdict is Verdict.FAILED else self.leavers

    @property
    def request(self) -> dict[str, Any]:
        """What the leader is asked for."""
        return {
            "kind": "adjust",
            "change_id": self.change.change_id,
            "attempt": self.num_attempts,
            "members": list(self.new),
            "joiners": list(self.joiners),
            "global_batch": self.change.global_batch,
            "virtual_workers": list(self.change.virtual_workers or ()),
        }

    @property
    def withdrawal(self) -> dict[str, Any]:
        """What the leader is asked for when it is not wanted any more."""
        of_change = {"change_id": self.change.change_id, "attempt": self.num_attempts}
        return {"kind": "withdraw", **of_change, "reason": self.reason}

    @property
    def first(self) -> Mapping[str, Any] | None:
        """What the new first worker said, or else any that said something."""
        return self.switched.get(self.new[0]) or next(iter(self.switched.values()), None)

    def phases_s(self) -> dict[str, float]:
        """Every phase, as long as it took the slowest of those who went through it."""
        phases_s: dict[str, float] = {}
        for worker, message in self.switched.items():
            for name, seconds in self.phases_of(worker, message).items():
                phases_s[name] = max(seconds, phases_s.get(name, 0.0))
        return phases_s

    def removed(self, removal: Removal, name_of: Callable[[str], str]) -> dict[str, Any]:
        """What is reported when stragglers are gone.

        Args:
            removal: of these.
            name_of: a worker's name in the launcher.
        """
        now = time.monotonic()
        started = [float(message["started"]) for message in self.switched.values()]
        switched_s = min(started, default=now) - removal.detected_at
        own = {"remove_switch": max(0.0, switched_s), "remove": now - removal.detected_at}
        return {
            "slots": self.change.slots,
            "lost_slots": removal.slots,
            "stragglers": tuple(map(name_of, removal.workers)),
            "phases_s": {**self.phases_s(), **own},
            "reason": removal.reason,
        }

    def stopping_time_s(self, left: Mapping[str, Mapping[str, Any]]) -> float | None:
        """The longest that a worker was stopped which trains before and after.

        Where none does, from the end of the leavers' last step (``left``: what they said when
        they left) to the start of the first at the new place. None if nobody said anything.
        """
        stopped_s = [
            float(message["stopping_time_s"])
            for message in self.switched.values()
            if message["stopping_time_s"] is not None
        ]
        if stopped_s:
            return max(stopped_s)
        ends = [left[worker]["ended"] for worker in self.leavers if worker in left]
        starts = [message["started"] for message in self.switched.values()]
        return float(min(starts) - max(ends)) if ends and starts else None

    def phases_of(self, worker: str, message: Mapping[str, Any]) -> dict[str, float]:
        """The phases of one worker; a joiner's begin with the start of its process."""
        spawn = {"spawn": self.spawn_s[worker]} if worker in self.spawn_s else {}
        return {**spawn, **message["phases_s"]}

    def write_phases(self, job_dir: Path, worker: str, message: Mapping[str, Any]) -> None:
        """Add a line to the job's ``phases.jsonl``: one worker's phases of this change."""
        role = "joiner" if worker in self.joiners else "survivor"
        self._write(
            job_dir,
            worker,
            role,
            generation=message["generation"],
            stopping_time_s=message["stopping_time_s"],
            phases_s=self.phases_of(worker, message),
        )

    def write_leaving(self, job_dir: Path, processes: Mapping[str, Process]) -> None:
        """A line as well for each that has left: from the end of its last step to the process's.

        Args:
            job_dir: the job's folder.
            processes: of the job's workers; who said nothing when it left has no line.
        """
        for worker in self.leavers:
            process = processes[worker]
            if process.left is not None:
                leave_s = {"leave": process.ended_at - float(process.left["ended"])}
                self._write(job_dir, worker, "leaver", phases_s=leave_s)

    def _write(self, job_dir: Path, worker: str, role: str, **measured: Any) -> None:
        change = self.change
        entry = {"change_id": change.change_id, "kind": change.kind.value, "worker": worker}
        log = LineWriter(job_dir / "phases.jsonl")
        log.add({**entry, "role": role, **measured})
        log.try_flush()  # one line of what was measured is not worth a job

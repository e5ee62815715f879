"""Driver of a job on this machine whose program is a user's script, with the requests to it.

Source: EDL, section 3 (papers/systems.md, 1.1 and 1.9): scale_out, scale_in and migrate are
acknowledged after the switch; one at a time, RETRY otherwise; profile scales in step by step.
Differs: a job that was running goes back to its size when it has been profiled. Torch-free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from harness.cluster import Cluster
from harness.contracts.backend import Backend
from harness.contracts.backend_reports import Report, ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.job import JobSpec
from harness.contracts.training_order import TrainingOrder
from harness.contracts.workload import WorkloadSpec
from harness.errors import RunError
from systems.elastic.wire.order import SCRIPT
from systems.runtime.wire.protocol import Message, kind_of
from systems.script import messages
from systems.script.messages import (
    Finish,
    Migrate,
    Profile,
    RequestAnswer,
    ScaleIn,
    ScaleOut,
    Status,
)
from systems.script.profiling import Profiling

ENDLESS = 2**50
JOB_ID = "job"
GiveAnswer: TypeAlias = Callable[[RequestAnswer], None]
"""Callback for the one answer to a request."""


class RequestError(RunError):
    """A request that makes no sense; the text says why."""


class UserJob:
    """One job on an open backend."""

    def __init__(self, backend: Backend, cluster: Cluster, job_dir: Path) -> None:
        """Prepare the job.

        Args:
            backend: an open backend.
            cluster: cluster of the backend.
            job_dir: folder for the job's logs.
        """
        self._backend = backend
        self._cluster = cluster
        self._job_dir = job_dir
        self._spec = JobSpec(JOB_ID, 0.0, SCRIPT, 1, 1.0, 1)
        self._ids = count(1)
        self._asked: tuple[Change, GiveAnswer] | None = None
        """Request in flight; None: there is none."""
        self._profiling: Profiling | None = None
        self.slots: tuple[int, ...] = ()
        self.step = 0
        self.end: Report | None = None
        """Report of the job's end; None before it."""

    def start(self, script: Path, arguments: Sequence[str], workers: int, seed: int) -> None:
        """Start the job with this number of workers."""
        options = {"path": str(script.absolute()), "arguments": list(arguments)}
        order = TrainingOrder(
            job_id=JOB_ID,
            workload=WorkloadSpec(SCRIPT, SCRIPT, options),
            seed=seed,
            target_step=ENDLESS,
            job_dir=self._job_dir,
        )
        self.slots = tuple(range(workers))
        change = self._change(ChangeKind.START, self.slots)
        self._asked = (change, lambda answer: None)
        self._backend.start(change, order)

    def request(self, message: Message, answer: GiveAnswer) -> None:
        """Carry out a request, and answer it once."""
        if isinstance(message, Finish):
            self._backend.set_target_step(JOB_ID, 0)
        if isinstance(message, Status | Finish):
            answer(self._done())
            return
        if self.end is not None:
            answer(_failed("the job has ended"))
            return
        if self._asked is not None or self._profiling is not None:
            why = "another change of the job is under way"
            answer(RequestAnswer(status="retry", reason=why))
            return
        try:
            match message:
                case Profile():
                    self._profiling = self._profile(message, answer)
                    self._profile_on()
                case ScaleOut() | ScaleIn() | Migrate():
                    self._rescale(self._slots_for(message), answer)
                case _:
                    raise RequestError(f"unknown request {kind_of(message)!r}")
        except (RequestError, ValueError) as error:
            answer(_failed(str(error)))

    def poll(self, timeout_s: float) -> None:
        """Handle what the backend reports; answers are given from here."""
        for report in self._backend.poll(timeout_s):
            self._on_report(report)
        if self._profiling is not None and self._asked is None:
            self._profile_on()

    def _on_report(self, report: Report) -> None:
        self.step = max(self.step, report.step)
        asked = self._asked
        if report.kind is ReportKind.SHRUNK:
            self.slots = report.slots
            print(f"step {report.step}: {report.reason}; {len(self.slots)} go on", flush=True)
        elif report.kind in (ReportKind.FINISHED, ReportKind.LOST):
            self._ended(report)
        elif asked is not None and report.change_id == asked[0].change_id:
            self._on_answer(report, *asked)
        elif report.kind is ReportKind.FAILED:
            self._ended(report)

    def _on_answer(self, report: Report, change: Change, answer: GiveAnswer) -> None:
        if report.kind is ReportKind.ACCEPTED:
            return
        self._asked = None
        if report.kind is ReportKind.DONE:
            self.slots = change.slots
            print(f"step {report.step}: {len(self.slots)} workers", flush=True)
            phases_s = dict(report.phases_s)
            answer(self._done(stopping_time_s=report.stopping_time_s, phases_s=phases_s))
            return
        is_retry = report.kind is ReportKind.RETRY
        answer(RequestAnswer(status="retry" if is_retry else "failed", reason=report.reason))
        if change.kind is ChangeKind.START:
            self._ended(report)

    def _ended(self, report: Report) -> None:
        self.end = report
        asked, self._asked = self._asked, None
        profiling, self._profiling = self._profiling, None
        for answer in (asked and asked[1], profiling and profiling.answer):
            if answer:
                answer(_failed("the job has ended"))

    def _done(self, **details: Any) -> RequestAnswer:
        """Return the answer that a request is done, with where the job is now."""
        at, slots = self.step, self.slots
        return RequestAnswer(status="done", step=at, workers=len(slots), slots=slots, **details)

    # Changes.

    def _rescale(self, slots: tuple[int, ...], answer: GiveAnswer) -> None:
        if slots == self.slots:
            answer(self._done(stopping_time_s=0.0))
            return
        moves = len(slots) == len(self.slots)
        change = self._change(ChangeKind.MIGRATE if moves else ChangeKind.RESCALE, slots)
        self._asked = (change, answer)
        self._backend.rescale(change)

    def _change(self, kind: ChangeKind, slots: tuple[int, ...]) -> Change:
        # The script's batch is not known here; this one is large enough for any number of slots.
        batch = self._cluster.num_slots
        before = () if kind is ChangeKind.START else self.slots
        return Change(next(self._ids), kind, self._spec, before, slots, batch)

    def _slots_for(self, request: messages.Change) -> tuple[int, ...]:
        """Return the job's slots after a request.

        Raises:
            RequestError: there are no such slots.
        """
        now = len(self.slots)
        match request:
            case ScaleOut() if request.join:
                if missing := set(request.join) - set(self._free()):
                    raise RequestError(f"slots {sorted(missing)} are not free")
                return self.slots + tuple(dict.fromkeys(request.join))
            case ScaleIn() if request.leave:
                leave = self._occupied(request.leave)
                if len(leave) == now:
                    raise RequestError(f"there are {now} workers; a scale-in is to 1 or more")
                return tuple(slot for slot in self.slots if slot not in leave)
            case ScaleOut():
                to = _number(request)
                if to <= now:
                    raise RequestError(f"there are {now} workers; a scale-out is to more")
                return self._slots_of(to)
            case ScaleIn():
                to = _number(request)
                if not 1 <= to < now:
                    raise RequestError(f"there are {now} workers; a scale-in is to 1 or more")
                return self._slots_of(to)
            case Migrate():
                leave, free = self._occupied(request.leave), self._free()
                if len(leave) > len(free):
                    raise RequestError(f"{len(leave)} slots to leave, but {len(free)} are free")
                places = dict(zip(leave, free, strict=False))
                return tuple(places.get(slot, slot) for slot in self.slots)

    def _slots_of(self, workers: int) -> tuple[int, ...]:
        """Return this number of slots: the present ones, cut or with free ones added.

        Raises:
            RequestError: too few slots are free.
        """
        slots = self.slots[:workers] + tuple(self._free()[: max(0, workers - len(self.slots))])
        if len(slots) < workers:
            raise RequestError(f"{workers} workers need as many slots; {len(slots)} can be had")
        return slots

    def _occupied(self, slots: Sequence[int]) -> list[int]:
        """Return these slots, each once.

        Raises:
            RequestError: a slot has no worker.
        """
        wanted = list(dict.fromkeys(slots))
        if unknown := set(wanted) - set(self.slots):
            raise RequestError(f"no worker is on slots {sorted(unknown)}")
        return wanted

    def _free(self) -> list[int]:
        return [slot for slot in range(self._cluster.num_slots) if slot not in self.slots]

    # Profiling.

    def _profile(self, request: Profile, answer: GiveAnswer) -> Profiling:
        smallest = largest = len(self.slots)
        if request.max is not None:
            smallest, largest = request.min, request.max
        self._slots_of(largest)  # raises where there are too few
        sizes = [*range(largest, smallest - 1, -1)]
        steps_log = self._job_dir / "steps.jsonl"
        return Profiling(sizes, request.steps, len(self.slots), steps_log, answer)

    def _profile_on(self) -> None:
        """Continue a profile as far as it can go now."""
        profiling = self._profiling
        assert profiling is not None
        wanted = profiling.wanted(len(self.slots))
        if wanted is None:
            self._profiling = None
            profiling.answer(profiling.result())
        elif wanted != len(self.slots):
            self._rescale(self._slots_of(wanted), profiling.on_rescaled)


def _failed(reason: str) -> RequestAnswer:
    return RequestAnswer(status="failed", reason=reason)


def _number(request: ScaleOut | ScaleIn) -> int:
    """Return the number of workers that a request names.

    Raises:
        RequestError: it names none.
    """
    if request.to is None:
        raise RequestError(f"a request {kind_of(request)!r} needs 'to'")
    return request.to

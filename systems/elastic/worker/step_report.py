"""Logs of a worker's steps, and the worker's messages to the driver about them.

The first worker of a generation writes the job's log, each line at once. The next first worker,
which may be another process, continues the same file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from systems.elastic.wire.order import ElasticOrder
from systems.elastic.wire.recovery_plan import Membership
from systems.runtime.wire.clock import on_driver_clock
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.messages import (
    FirstStep,
    Progress,
    StepsDone,
)
from systems.runtime.wire.step_log import (
    LineWriter,
    generation_entry,
    last_logged,
    step_entry,
)
from systems.runtime.worker.due_records import DueRecords
from systems.runtime.worker.mark import PhaseMark
from systems.runtime.worker.session import Session

PROGRESS_EVERY_S = 0.2
RECENT_STEPS = 10
"""Number of steps over which the time of a step is averaged (EDL, section 4.2, as T_b)."""


class StepReport:
    """Logs and reports of one worker's steps.

    Only the first worker's ``begin_generation`` is called, and only its steps are written to the
    job's log.
    """

    def __init__(
        self,
        order: ElasticOrder,
        client: ControlClient,
        session: Session,
        phases_s: dict[str, float],
        mark: PhaseMark,
    ) -> None:
        """Prepare to report.

        Args:
            order: order of the worker.
            client: connection to the driver.
            session: what the worker trains.
            phases_s: how long each phase of a change took; other objects add to it.
            mark: mark of the worker.
        """
        self._order = order
        self._client = client
        self._session = session
        self._folder = Path(order.job_dir)
        self._steps: LineWriter | None = None
        self.records = DueRecords(order, client, session, mark, self.progress, self._flush_steps)
        self._recent: deque[float] = deque(maxlen=RECENT_STEPS)
        self._reported_at = 0.0
        self._ended_at = 0.0
        self._phases_s = phases_s
        self._has_begun = False
        self._last: dict[str, Any] | None = None

    @property
    def step_s(self) -> float:
        """Mean duration of the recent steps; 0 before the first."""
        return sum(self._recent) / len(self._recent) if self._recent else 0.0

    def take_phases(self) -> dict[str, float]:
        """Return the phases noted since the last call."""
        taken = dict(self._phases_s)
        self._phases_s.clear()
        return taken

    def complete(self) -> None:
        """Log the last step if the job's log lacks it: the first worker may have died before.

        The worker that has the last step's state calls this when all others have halted or died.
        The log may have more steps of an earlier generation, which were lost with the workers that
        made them.
        """
        last, path = self._last, self._folder / "steps.jsonl"
        if last is None:
            return
        step, generation = last_logged(path)
        if step == last["step"] - 1 or (step >= last["step"] and generation < last["generation"]):
            lines = LineWriter(path)
            lines.add(last)
            lines.flush()

    def begin_generation(self, generation: int, membership: Membership) -> None:
        """Begin the log of a generation whose first worker is this one."""
        self._recent.clear()
        if self._steps is None:
            self._steps = LineWriter(self._folder / "steps.jsonl", at_once=True)
            self._generations = LineWriter(self._folder / "generations.jsonl", at_once=True)
        self._generations.add(
            generation_entry(
                generation,
                resumed_at=self._session.step,
                num_slots=len(membership.members),
                global_batch=membership.global_batch,
                device=self._session.device.type,
                num_threads=self._order.num_threads,
            )
        )

    def step(
        self,
        started: float,
        ended: float,
        generation: int,
        membership: Membership,
        global_batch: int,
        loss: float,
        late: bool | None,
        losses: Sequence[float] = (),
    ) -> None:
        """Note a committed step; the first worker logs it and reports its progress.

        The first worker also saves if a checkpoint is due.

        Args:
            started: start of the step, on ``time.monotonic``.
            ended: time at which the state was the new one, on the same clock.
            generation: generation that made the step.
            membership: membership of that generation.
            global_batch: samples of the step.
            loss: mean over the global batch.
            late: whether the step missed its pace; None: no pace.
            losses: losses that the workers gave; logged if there are several.
        """
        order = self._order
        self._ended_at = ended
        entry = step_entry(
            self._session.step,
            generation,
            len(membership.members),
            global_batch,
            started,
            ended,
            loss,
            losses=losses,
            late=late,
        )
        self._last = entry
        is_first_step, self._has_begun = not self._has_begun, True
        self._recent.append(ended - started)
        if membership.members[0] != order.worker:
            return
        assert self._steps is not None
        self._steps.add(entry)
        if is_first_step and not order.joining:
            phases_s = {**self.take_phases(), "first_step": ended - started}
            self._client.send(
                FirstStep(
                    progress=self.progress(), started=on_driver_clock(started), phases_s=phases_s
                )
            )
            self._reported_at = ended
            self._recent.clear()  # the first step warms up and says nothing about the others
        elif ended - self._reported_at >= PROGRESS_EVERY_S:
            self._reported_at = ended
            self._client.offer(StepsDone(progress=self.progress()))
        self.records.after_step(global_batch)

    def progress(self) -> Progress:
        """Return the job's progress as this worker knows it."""
        session = self._session
        ended = on_driver_clock(self._ended_at)
        return Progress(session.step, session.data_state.consumed, self.step_s, ended)

    def _flush_steps(self) -> None:
        if self._steps is not None:
            self._generations.flush()
            self._steps.flush()

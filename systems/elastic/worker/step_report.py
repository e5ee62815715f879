"""Logs of a worker's steps, and the worker's messages to the driver about them.

The first worker of a generation writes the job's log, each line at once. The next first worker,
which may be another process, continues the same file.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.contracts.marks import WorkerPhase
from systems.elastic.wire.order import ElasticOrder
from systems.elastic.wire.recovery_plan import Membership
from systems.runtime.tensors.state import digests
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.messages import (
    Checkpoint,
    CheckpointWritten,
    FirstStep,
    Progress,
    StepsDone,
)
from systems.runtime.wire.step_log import LineWriter
from systems.runtime.worker.checkpoint import keep_only
from systems.runtime.worker.evaluations import Evaluations
from systems.runtime.worker.mark import PhaseMark
from systems.runtime.worker.periodic_checkpoint import PeriodicCheckpoint
from systems.runtime.worker.session import Session, save

PROGRESS_EVERY_S = 0.2
RECENT_STEPS = 10
"""Number of steps over which the time of a step is averaged (EDL, section 4.2, as T_b)."""
_BLOCK_BYTES = 4096


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
        self._mark = mark
        self._folder = Path(order.job_dir)
        self._steps: LineWriter | None = None
        self._digests = LineWriter(self._folder / "digests.jsonl")
        self._periodic = PeriodicCheckpoint(client, lambda: self.save(CheckpointWritten))
        self.evaluations = Evaluations(session, order.evaluate_epochs)
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
        step, generation = _last_logged(path)
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
            {
                "generation": generation,
                "resumed_at": self._session.step,
                "world": len(membership.members),
                "global_batch": membership.global_batch,
                "device": self._session.device.type,
                "threads": self._order.num_threads,
            }
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
        session, order = self._session, self._order
        self._ended_at = ended
        entry: dict[str, Any] = {
            "step": session.step,
            "generation": generation,
            "world": len(membership.members),
            "global_batch": global_batch,
            "started": started,
            "duration_s": ended - started,
            "loss": loss.hex(),
        }
        if len(losses) > 1:
            entry["losses"] = [each.hex() for each in losses]
        if late is not None:
            entry["late"] = late
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
                FirstStep(progress=self.progress(), started=started, phases_s=phases_s)
            )
            self._reported_at = ended
            self._recent.clear()  # the first step warms up and says nothing about the others
        elif ended - self._reported_at >= PROGRESS_EVERY_S:
            self._reported_at = ended
            self._client.offer(StepsDone(progress=self.progress()))
        if order.digest_every and session.step % order.digest_every == 0:
            self._digests.add({"step": session.step, **digests(session.model, session.optimizer)})
        self.evaluations.after_step(global_batch)
        if order.checkpoint_every and session.step % order.checkpoint_every == 0:
            self._periodic.write(session.step)

    def progress(self) -> Progress:
        """Return the job's progress as this worker knows it."""
        session = self._session
        return Progress(session.step, session.data_state.consumed, self.step_s, self._ended_at)

    def save(self, message: type[Checkpoint]) -> None:
        """Write a checkpoint and report it.

        The logs are written first, so that no saved step lacks its line.

        Args:
            message: class of the message that tells the driver.

        Raises:
            OSError: the disk has no room; the checkpoint before is kept.
        """
        session = self._session
        started = time.monotonic()
        self.flush()
        with self._mark.during(WorkerPhase.SAVE):
            manifest = save(session, self._folder / "checkpoints")
        now = time.monotonic()
        self._client.send(
            message(progress=self.progress(), path=str(manifest), saved=now, save_s=now - started)
        )
        keep_only(manifest.parent, manifest)  # after the report: else the driver needs the older

    def flush(self) -> None:
        """Write out what is still in memory.

        Raises:
            OSError: the disk has no room.
        """
        if self._steps is not None:
            self._generations.flush()
            self._steps.flush()
        self._digests.flush()
        self.evaluations.flush()
        self._session.recorder.flush()


def _last_logged(path: Path) -> tuple[int, int]:
    """Return step and generation of the last whole line of a step log; zeros if there is none."""
    if not path.exists():
        return 0, 0
    with path.open("rb") as file:
        start, tail = file.seek(0, os.SEEK_END), b""
        while start > 0 and tail.count(b"\n") < 2:  # until the last line's start and end are read
            block = min(_BLOCK_BYTES, start)
            start = file.seek(start - block)
            tail = file.read(block) + tail
    lines = tail.split(b"\n")[:-1]
    last = json.loads(lines[-1]) if lines else {"step": 0, "generation": 0}
    return int(last["step"]), int(last["generation"])

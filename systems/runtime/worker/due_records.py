"""Records of a job that fall due after some of its steps: digests, evaluations and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from harness.contracts.marks import WorkerPhase
from harness.machine.failures import is_of_machine
from systems.runtime.tensors.state import digests
from systems.runtime.wire.clock import on_driver_clock
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.messages import Checkpoint, CheckpointWritten, Progress, Warned
from systems.runtime.wire.protocol import sendable
from systems.runtime.wire.step_log import LineWriter
from systems.runtime.wire.work_order import WorkOrder
from systems.runtime.worker.checkpoint import keep_only
from systems.runtime.worker.evaluations import Evaluations
from systems.runtime.worker.mark import PhaseMark
from systems.runtime.worker.session import Session, save


class DueRecords:
    """Writer of the records that fall due, which only the job's first worker uses.

    A full or broken disk does not stop training: the previous checkpoint stays, and the next one is
    tried as usual. The driver is told of the first that is left out, but not of those right after
    it.
    """

    def __init__(
        self,
        order: WorkOrder,
        client: ControlClient,
        session: Session,
        mark: PhaseMark,
        progress: Callable[[], Progress],
        flush_steps: Callable[[], None],
    ) -> None:
        """Prepare to write.

        Args:
            order: order of the worker.
            client: connection to the driver.
            session: session that trains.
            mark: mark of the worker.
            progress: returns the job's progress.
            flush_steps: writes out the log of the steps; raises OSError if the disk refuses.
        """
        self._order = order
        self._client = client
        self._session = session
        self._mark = mark
        self._progress = progress
        self._flush_steps = flush_steps
        self._digests = LineWriter(session.job_dir / "digests.jsonl")
        self._evaluations = Evaluations(session, order.evaluate_epochs)
        self._is_told = False
        self._newest: Path | None = None
        """Manifest of the last checkpoint that this worker has written."""
        self._kept: str | None = None
        """Manifest that the driver knew when others were last removed."""

    def after_step(self, global_batch: int) -> None:
        """Write what is due after the last step, which had this batch.

        Raises:
            OSError: a checkpoint failed for another reason than a full or broken disk.
        """
        order, step = self._order, self._session.step
        if order.digest_every and step % order.digest_every == 0:
            found = digests(self._session.model, self._session.optimizer)
            self._digests.add({"step": step, **found})
        self._evaluations.after_step(global_batch)
        self._remove_old()
        if order.checkpoint_every and step % order.checkpoint_every == 0:
            self._try_to_save(step)

    def save(self, message: type[Checkpoint]) -> None:
        """Write a checkpoint and report it.

        The logs are written first, so that no saved step lacks its line.

        Args:
            message: class of the message that tells the driver.

        Raises:
            OSError: the disk has no room; the previous checkpoint is unchanged.
        """
        started = time.monotonic()
        self.flush()
        with self._mark.during(WorkerPhase.SAVE):
            manifest = save(self._session, self._session.job_dir / "checkpoints")
        now = time.monotonic()
        self._client.send(
            message(
                progress=self._progress(),
                path=str(manifest),
                saved=on_driver_clock(now),
                save_s=now - started,
            )
        )
        self._newest = manifest

    def _remove_old(self) -> None:
        """Remove the checkpoints before the one that the driver knows.

        The driver's answer is needed: what was sent may never arrive if this host is cut off, and
        the job then resumes elsewhere from the last checkpoint that the driver knows.
        """
        known, newest = self._client.known_checkpoint, self._newest
        if known is not None and known != self._kept and newest is not None:
            keep_only(newest.parent, Path(known), newest)
            self._kept = known

    def results(self) -> tuple[dict[str, str], dict[str, float]]:
        """Return digests of the state, and the workload's evaluation."""
        return digests(self._session.model, self._session.optimizer), self._evaluations.now()

    def flush(self) -> None:
        """Write out what is still in memory, also of the log of the steps.

        Raises:
            OSError: the disk has no room.
        """
        self._flush_steps()
        for log in (self._digests, self._evaluations, self._session.recorder):
            log.flush()

    def _try_to_save(self, step: int) -> None:
        try:
            self.save(CheckpointWritten)
        except OSError as error:
            if not is_of_machine(error):
                raise
            if not self._is_told:
                text = (
                    f"the checkpoint of step {step} cannot be written ({error}); training goes on,"
                    " and each checkpoint that falls due is tried again"
                )
                self._client.send(Warned(text=sendable(text)))
            self._is_told = True
        else:
            self._is_told = False

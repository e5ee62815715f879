"""A replica's part in the logs of its job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from systems.runtime.wire.step_log import (
    LineWriter,
    generation_entry,
    last_logged,
    step_entry,
)
from systems.runtime.worker.session import Session
from systems.torchft.membership import Quorum
from systems.torchft.order import ReplicaOrder
from systems.torchft.step_words import Words


class ReplicaLog:
    """Writer of the job's logs, of which only the first replica's lines are written.

    Lines of steps are written at once. So if the first replica dies, at most the line of its last
    step is missing, which its successor adds.
    """

    def __init__(self, order: ReplicaOrder, session: Session) -> None:
        job_dir = Path(order.job_dir)
        self.last: dict[str, Any] | None = None
        """Line of the last step that this replica has trained."""
        self._order = order
        self._session = session
        self._path = job_dir / "steps.jsonl"
        self._steps = LineWriter(self._path, at_once=True)
        self._generations = LineWriter(job_dir / "generations.jsonl", at_once=True)

    def begin_generation(self, quorum: Quorum, global_batch: int) -> None:
        """Record that a generation goes on from this step, before it computes any."""
        last = self.last
        if last is not None and last["generation"] != quorum.generation:
            logged, _ = last_logged(self._path)
            if logged < last["step"]:  # the first replica of that step died before it wrote it
                self._steps.add(last)
        self._generations.add(
            generation_entry(
                quorum.generation,
                resumed_at=self._session.step,
                num_slots=quorum.num_workers,
                global_batch=global_batch,
                device=self._session.device.type,
                num_threads=self._order.num_threads,
            )
        )

    def entry(
        self,
        quorum: Quorum,
        started: float,
        ended: float,
        global_batch: int,
        words: Words,
        is_paced: bool,
    ) -> dict[str, Any]:
        """Return the line of a step."""
        return step_entry(
            self._session.step,
            quorum.generation,
            quorum.num_workers,
            global_batch,
            started,
            ended,
            words.loss,
            late=words.late if is_paced else None,
        )

    def add(self, entry: dict[str, Any]) -> None:
        """Write the line of a step."""
        self._steps.add(entry)

    def flush(self) -> None:
        """Write out what is still in memory.

        Raises:
            OSError: a log cannot be written.
        """
        self._generations.flush()
        self._steps.flush()

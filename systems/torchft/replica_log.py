"""A replica's part in the logs of its job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from systems.runtime.wire.step_log import LineWriter
from systems.runtime.worker.session import Session
from systems.torchft.membership import Quorum
from systems.torchft.order import ReplicaOrder
from systems.torchft.step_words import Words

_TAIL_BYTES = 4096
"""More bytes than a line has."""


class ReplicaLog:
    """Writer of the job's logs, of which only the first replica's lines are written.

    Lines of steps are written at once. So if the first replica dies, at most the line of its last
    step is missing, which its successor adds.
    """

    def __init__(self, order: ReplicaOrder, session: Session) -> None:
        job_dir = Path(order.job_dir)
        self.digests = LineWriter(job_dir / "digests.jsonl")
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
        if last is not None and last["generation"] != quorum.generation and self._misses(last):
            self._steps.add(last)
        self._generations.add(
            {
                "generation": quorum.generation,
                "resumed_at": self._session.step,
                "world": quorum.num_workers,
                "global_batch": global_batch,
                "device": self._session.device.type,
                "threads": self._order.num_threads,
            }
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
        late = {"late": words.late} if is_paced else {}
        return {
            "step": self._session.step,
            "generation": quorum.generation,
            "world": quorum.num_workers,
            "global_batch": global_batch,
            "started": started,
            "duration_s": ended - started,
            "loss": words.loss.hex(),
            **late,
        }

    def add(self, entry: dict[str, Any]) -> None:
        """Write the line of a step."""
        self._steps.add(entry)

    def flush(self) -> None:
        """Write out what is still in memory.

        Raises:
            OSError: a log cannot be written.
        """
        for log in (self._generations, self._steps, self.digests):
            log.flush()

    def _misses(self, entry: dict[str, Any]) -> bool:
        """Return whether the first replica of a step died before it had written its line."""
        if not self._path.exists():
            return True
        with self._path.open("rb") as file:
            file.seek(max(0, self._path.stat().st_size - _TAIL_BYTES))
            *_, last = file.read().rstrip(b"\n").split(b"\n")
        return not last or json.loads(last)["step"] < entry["step"]

"""Evaluations of a job on held-out samples, during training and at its end."""

from __future__ import annotations

from systems.runtime.wire.step_log import LineWriter
from systems.runtime.worker.session import Session


class Evaluations:
    """Evaluations by the first worker; the others wait for it in the next step's all-reduce."""

    def __init__(self, session: Session, every_epochs: float) -> None:
        """Evaluate a session regularly.

        Args:
            session: session that trains.
            every_epochs: epochs between two evaluations; 0: only ``now`` evaluates.
        """
        self._session = session
        self._every = every_epochs * session.workload.num_samples
        self._log = LineWriter(session.job_dir / "evaluations.jsonl")

    def now(self) -> dict[str, float]:
        """Return the workload's metrics of the model and the number of epochs so far (``epochs``).

        Random states and the model are unchanged.
        """
        session = self._session
        metrics = session.workload.evaluate(session.model)
        found = {name: float(value) for name, value in metrics.items()}
        if session.workload.num_samples:
            found["epochs"] = session.data_state.consumed / session.workload.num_samples
        return found

    def after_step(self, global_batch: int) -> None:
        """Evaluate if an evaluation fell due in the last step, which had this batch."""
        consumed = self._session.data_state.consumed
        if not self._every or consumed // self._every == (consumed - global_batch) // self._every:
            return
        self._log.add({"step": self._session.step, **self.now()})

    def flush(self) -> None:
        """Write out what is still in memory.

        Raises:
            OSError: the log cannot be written.
        """
        self._log.flush()

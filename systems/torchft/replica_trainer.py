"""Trainer of a replica, which can also follow a step without computing it."""

from __future__ import annotations

from systems.runtime.worker.trainer import Trainer


class ReplicaTrainer(Trainer):
    """Executor of a replica's steps."""

    def follow(self, num_workers: int, global_batch: int) -> None:
        """Take no samples from now on; the others' step has this batch."""
        self.close()
        self.rank, self.num_workers, self.global_batch = -1, num_workers, global_batch

    def adopt_plan(self) -> None:
        """Take part in the update of a step that only the others computed.

        Call it once the state before that step has been adopted and the gradients are their mean.
        """
        self._plan = self.session.data.plan(
            self.session.data_state, self.num_workers, self.global_batch
        )

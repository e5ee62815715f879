"""Random states of the loader processes that every virtual worker would have on its own.

They are EasyScale's R[v][w] (section 3.2 of the paper). A DataLoader with W processes fetches batch
i in process i mod W, and each process continues its own random states. So each virtual worker has W
more states next to its own. They are those at the last step boundary, whatever was fetched in
advance: a batch's new state counts once a step that consumed it counts. All slots know all of them,
as they know all contexts.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from systems.runtime.data.drawing import first_states
from systems.runtime.data.random_states import ProcessRandom
from systems.runtime.data.step_seed import step_seed
from systems.runtime.wire.groups import Group, Pending


class LoaderStates:
    """States of all virtual workers of a job, as one slot has them."""

    def __init__(self, seed: int, num_workers: int, num_loaders: int) -> None:
        """Make the first states of ``num_loaders`` loader processes for each virtual worker."""
        process = ProcessRandom(torch.device("cpu"))
        rows = [
            torch.frombuffer(bytearray(b"".join(states)), dtype=torch.uint8)
            for states in (
                first_states(process, step_seed(seed, 0, worker), num_loaders)
                for worker in range(num_workers)
            )
        ]
        self.num_loaders = num_loaders
        self._rows = torch.stack(rows).view(num_workers, num_loaders, -1)
        self._next: dict[int, bytes] = {}
        """States of local workers, after their batches of the present step."""
        self._step = 0
        """Step of those batches."""
        self._gathered: torch.Tensor | None = None
        self._pending: Pending | None = None

    @property
    def num_bytes(self) -> int:
        """Number of bytes of one virtual worker's states."""
        return self._rows[0].numel()

    def before(self, step: int, workers: Sequence[int]) -> list[bytes]:
        """Return the states from which these workers' batches of a step are drawn.

        They hold only if the same process fetches no batch between the last boundary and that step.
        ``step`` is the number of steps executed before it.
        """
        loader = step % self.num_loaders
        return [self._rows[worker, loader].numpy().tobytes() for worker in workers]

    def drew(self, step: int, after: dict[int, bytes]) -> None:
        """Record the states, by local worker, after the present step's batches were drawn."""
        self._step, self._next = step, after

    def begin_gather(self, group: Group | None) -> None:
        """Begin the exchange of states between slots. Raises GroupLost."""
        if group is None or group.size == 1:
            return
        rows = torch.zeros_like(self._rows[:, 0])
        self._write(rows)
        # Rows of other slots' workers are zero, so the sum gathers.
        self._pending = group.all_reduce(rows)
        self._gathered = rows

    def end_gather(self) -> None:
        """Wait for the exchange. Raises GroupLost: the states are those before the step."""
        if self._pending is not None:
            self._pending.wait()

    def undo(self) -> None:
        """Discard the step's states."""
        self._next = {}
        self._gathered = self._pending = None

    def commit(self) -> None:
        """Keep the step's states: it counts from now on."""
        rows = self._rows[:, self._step % self.num_loaders]
        if self._gathered is not None:
            rows.copy_(self._gathered)
        else:
            self._write(rows)
        self.undo()

    def _write(self, rows: torch.Tensor) -> None:
        for worker, state in self._next.items():
            rows[worker] = torch.frombuffer(bytearray(state), dtype=torch.uint8)

    def values(self) -> torch.Tensor:
        """Return all states, one row for each worker."""
        return self._rows.view(len(self._rows), -1)

    def adopt(self, values: torch.Tensor) -> None:
        """Take what ``values`` returned on another slot, or earlier."""
        self.undo()
        # A copy, since ``commit`` writes in place.
        self._rows = values.reshape(self._rows.shape).clone()

"""The random states that the loader processes of every virtual worker would have if it had some of
its own: EasyScale's R[v][w] (section 3.2 of the paper).

A DataLoader with W processes fetches batch i in process i mod W, and each of its processes draws on
from where it was. So beside each virtual worker's own states there are W more. They are those at
the last step boundary, whatever was fetched in advance: a batch's new state counts once a step
that consumed it does. All slots know all of them, as they know all contexts.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from systems.elastic.groups import Group, Pending
from systems.runtime.data_order import step_seed
from systems.virtual.drawing import first_states
from systems.virtual.random_states import ProcessRandom


class LoaderStates:
    """Of all virtual workers of a job, as one slot has them."""

    def __init__(self, seed: int, num_workers: int, num_loaders: int) -> None:
        """Args: the job's seed, its virtual workers, and the loader processes of each."""
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
        """Of local workers, after their batches of the present step."""
        self._step = 0
        """Whose batches those are."""
        self._gathered: torch.Tensor | None = None
        self._pending: Pending | None = None

    @property
    def num_bytes(self) -> int:
        """Of one virtual worker's."""
        return self._rows[0].numel()

    def before(self, step: int, workers: Sequence[int]) -> list[bytes]:
        """What these workers' batches of a step are drawn from, if no batch between the last
        boundary and that step is fetched by the same process; ``step``: executed before it."""
        loader = step % self.num_loaders
        return [self._rows[worker, loader].numpy().tobytes() for worker in workers]

    def drew(self, step: int, after: dict[int, bytes]) -> None:
        """The present step's batches were drawn, and left these states, by local worker."""
        self._step, self._next = step, after

    def begin_gather(self, group: Group | None) -> None:
        """All slots tell each other. Raises GroupLost."""
        if group is None or group.size == 1:
            return
        rows = torch.zeros_like(self._rows[:, 0])
        self._write(rows)
        self._pending = group.all_reduce(rows)  # zeros everywhere else
        self._gathered = rows

    def end_gather(self) -> None:
        """Wait for the others. Raises GroupLost: the states are those before the step."""
        if self._pending is not None:
            self._pending.wait()

    def undo(self) -> None:
        """The step does not count."""
        self._next = {}
        self._gathered = self._pending = None

    def commit(self) -> None:
        """It does."""
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
        """All of them, a row for each worker."""
        return self._rows.view(len(self._rows), -1)

    def adopt(self, values: torch.Tensor) -> None:
        """Take what ``values`` gave on another slot, or earlier."""
        self.undo()
        self._rows = values.reshape(self._rows.shape).clone()

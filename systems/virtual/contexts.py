"""What a virtual worker takes along when its turn is over: its random states.

Parameters and optimizer state are the same for all workers of a step; buffers belong to the
reduction, and what was consumed to the data's state. So random states are all that is left of
the context of EasyScale's section 3.1.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Protocol

import torch

from systems.elastic.groups import Group, Pending
from systems.runtime.data_order import step_seed
from systems.runtime.trainer import seed_all
from systems.virtual.loader_states import LoaderStates
from systems.virtual.random_states import ProcessRandom, RandomStates


class Contexts(Protocol):
    """The contexts of a job's virtual workers, as one slot has them."""

    def assign(self, local: range) -> None:
        """Between steps: which workers are this slot's."""
        ...

    def enter(self, worker: int, step: int) -> None:
        """A worker's turn begins; ``step``: executed so far."""
        ...

    def leave(self, worker: int) -> None:
        """Its turn is over, and the next one's begins before anything else draws."""
        ...

    def begin_gather(self, group: Group | None) -> None:
        """All turns of a step are over: all slots tell each other. Raises GroupLost."""
        ...

    def end_gather(self) -> None:
        """Wait for the others. Raises GroupLost: the contexts are those before the step."""
        ...

    def undo(self) -> None:
        """The step does not count."""
        ...

    def commit(self) -> None:
        """It does."""
        ...

    def values(self) -> list[str]:
        """All workers' contexts at this step boundary, as JSON can hold them."""
        ...

    def adopt(self, values: Sequence[str]) -> None:
        """Take what ``values`` gave on another slot, or earlier; ``assign`` comes next.

        Raises:
            ValueError: they are other workers'.
        """
        ...


class SeededContexts:
    """Random states are drawn anew from seed, step and worker before every step, as all other
    backends do it: nothing is taken along."""

    def __init__(self, seed: int, device: torch.device) -> None:
        """Args: the job's seed and device."""
        self._seed = seed
        self._device = device

    def enter(self, worker: int, step: int) -> None:
        """Seed."""
        seed_all(step_seed(self._seed, step, worker), self._device)

    def adopt(self, values: Sequence[str]) -> None:
        """See ``Contexts``."""
        if values:
            raise ValueError(
                "the job's random states are streams that go on; set random_states=streams"
            )

    def values(self) -> list[str]:
        """Nothing."""
        return []

    def assign(self, local: range) -> None:
        """Nothing to do, like everything below."""

    def leave(self, worker: int) -> None:
        """Nothing."""

    def begin_gather(self, group: Group | None) -> None:
        """Nothing."""

    def end_gather(self) -> None:
        """Nothing."""

    def undo(self) -> None:
        """Nothing."""

    def commit(self) -> None:
        """Nothing."""


class StreamContexts:
    """Every worker has random states of its own that go on from step to step, as those of a
    process do. Slots tell each other in every step, so that all know all contexts at every
    boundary: a worker can move at once, and outlives its slot."""

    def __init__(
        self,
        seed: int,
        num_workers: int,
        device: torch.device,
        loaders: LoaderStates | None = None,
    ) -> None:
        """Args: the job's seed, its virtual workers and its device; ``loaders``: what their loader
        processes have, where samples are drawn in such."""
        self._loaders = loaders
        self._process = ProcessRandom(device)
        first = []
        for worker in range(num_workers):
            seed_all(step_seed(seed, 0, worker), device)
            first.append(self._process.read())
        self._held: dict[int, RandomStates] = {}
        """Of local workers, at the last boundary."""
        self._next: dict[int, RandomStates] = {}
        """Of those whose turn in the present step is over."""
        self._spare: dict[int, torch.Tensor] = {}
        """Memory for torch's state in the next of each. New memory in every turn would cut up what
        the turn's activations have just left, so that those of the next no longer fit there."""
        self._hold(dict(enumerate(first)))
        rows = [_tensor(states.to_bytes()) for states in first]
        self._rows = torch.stack(rows)
        """Of all workers, at the last boundary; of local ones perhaps older."""
        self._gathered: torch.Tensor | None = None
        self._pending: Pending | None = None

    def assign(self, local: range) -> None:
        """See ``Contexts``."""
        self._settle()
        size = self._process.num_device_bytes
        self._hold(
            {
                worker: RandomStates.from_bytes(self._rows[worker].numpy().tobytes(), size)
                for worker in local
            }
        )

    def _hold(self, states: dict[int, RandomStates]) -> None:
        self._held = states
        self._spare = {worker: torch.empty_like(own.torch_cpu) for worker, own in states.items()}

    def enter(self, worker: int, step: int) -> None:
        """See ``Contexts``."""
        self._process.write(self._held[worker])

    def leave(self, worker: int) -> None:
        """See ``Contexts``."""
        self._next[worker] = self._process.read(self._held[worker], self._spare[worker])

    def begin_gather(self, group: Group | None) -> None:
        """See ``Contexts``."""
        if group is None or group.size == 1:
            return
        rows = torch.zeros_like(self._rows)
        for worker, states in self._next.items():
            rows[worker] = _tensor(states.to_bytes())
        self._pending = group.all_reduce(rows)  # zeros everywhere else
        self._gathered = rows
        if self._loaders is not None:
            self._loaders.begin_gather(group)

    def end_gather(self) -> None:
        """See ``Contexts``."""
        if self._pending is not None:
            self._pending.wait()
        if self._loaders is not None:
            self._loaders.end_gather()

    def undo(self) -> None:
        """See ``Contexts``."""
        self._next.clear()
        self._gathered = self._pending = None
        if self._loaders is not None:
            self._loaders.undo()

    def commit(self) -> None:
        """See ``Contexts``."""
        for worker, states in self._next.items():
            self._spare[worker] = self._held[worker].torch_cpu
            self._held[worker] = states
        if self._gathered is not None:
            self._rows = self._gathered
        if self._loaders is not None:
            self._loaders.commit()
        self.undo()

    def values(self) -> list[str]:
        """See ``Contexts``."""
        self._settle()
        rows = self._rows
        if self._loaders is not None:
            rows = torch.cat([rows, self._loaders.values()], dim=1)
        return [b64encode(row.numpy().tobytes()).decode() for row in rows]

    def adopt(self, values: Sequence[str]) -> None:
        """See ``Contexts``."""
        rows = [_tensor(b64decode(value)) for value in values]
        own = self._rows[0].numel()
        size = own + (0 if self._loaders is None else self._loaders.num_bytes)
        if [row.numel() for row in rows] != [size] * len(self._rows):
            raise ValueError(
                f"random states of {len(values)} logical workers, of which this job has"
                f" {len(self._rows)}, of another kind of device, or of samples that are fetched"
                " otherwise; go on with what the job was started with (logical_workers,"
                " random_states, device, drawn_samples, loader_processes)"
            )
        stacked = torch.stack(rows)
        self._rows = stacked[:, :own].contiguous()
        if self._loaders is not None:
            self._loaders.adopt(stacked[:, own:])
        self._held.clear()

    def _settle(self) -> None:
        """Have all contexts in ``_rows``."""
        for worker, states in self._held.items():
            self._rows[worker] = _tensor(states.to_bytes())


def _tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)

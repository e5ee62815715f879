"""Context of a virtual worker between its turns: its random states.

Parameters and optimizer state are the same for all workers of a step. Buffers belong to the
reduction, and consumed samples to the data's state. So only random states are left of the context
of EasyScale's section 3.1.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Protocol

import torch

from systems.runtime.data.random_states import ProcessRandom, RandomStates
from systems.runtime.data.step_seed import step_seed
from systems.runtime.wire.groups import Group, Pending
from systems.runtime.worker.trainer import seed_all
from systems.virtual.loader_states import LoaderStates


class Contexts(Protocol):
    """Contexts of a job's virtual workers on one slot."""

    def assign(self, local: range) -> None:
        """Set this slot's workers; call it between steps."""
        ...

    def enter(self, worker: int, step: int) -> None:
        """Begin a worker's turn; ``step`` is the number of steps executed so far."""
        ...

    def leave(self, worker: int) -> None:
        """End a worker's turn. The next turn must begin before anything else draws random
        numbers."""
        ...

    def begin_gather(self, group: Group | None) -> None:
        """Begin the exchange of contexts between slots, after all turns of a step. Raises
        GroupLost."""
        ...

    def end_gather(self) -> None:
        """Wait for the exchange. Raises GroupLost: the contexts are those before the step."""
        ...

    def undo(self) -> None:
        """Discard the step's contexts."""
        ...

    def commit(self) -> None:
        """Keep the step's contexts: it counts from now on."""
        ...

    def values(self) -> list[str]:
        """Return all workers' contexts at this step boundary in a form that JSON can hold."""
        ...

    def adopt(self, values: Sequence[str]) -> None:
        """Take what ``values`` returned on another slot, or earlier; ``assign`` must follow.

        Raises:
            ValueError: the contexts are of other workers.
        """
        ...


class SeededContexts:
    """Contexts whose random states are seeded from seed, step and worker before every step.

    All other backends do the same, so no state is carried between turns.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        """Store the job's seed and device."""
        self._seed = seed
        self._device = device

    def enter(self, worker: int, step: int) -> None:
        """Seed the random states."""
        seed_all(step_seed(self._seed, step, worker), self._device)

    def adopt(self, values: Sequence[str]) -> None:
        """Refuse states of another kind; see ``Contexts``."""
        if values:
            raise ValueError(
                "the job's random states go on from step to step; set random_states=streams"
            )

    def values(self) -> list[str]:
        """Return nothing."""
        return []

    def assign(self, local: range) -> None:
        """Do nothing, like all methods below."""

    def leave(self, worker: int) -> None:
        """Do nothing."""

    def begin_gather(self, group: Group | None) -> None:
        """Do nothing."""

    def end_gather(self) -> None:
        """Do nothing."""

    def undo(self) -> None:
        """Do nothing."""

    def commit(self) -> None:
        """Do nothing."""


class StreamContexts:
    """Contexts whose random states continue from step to step, like those of a process.

    Slots exchange them in every step, so that each knows all contexts at every boundary. So a
    worker can move at once, and survives its slot.
    """

    def __init__(
        self,
        seed: int,
        num_workers: int,
        device: torch.device,
        loaders: LoaderStates | None = None,
    ) -> None:
        """Make the first states.

        Args:
            seed: seed of the job.
            num_workers: number of virtual workers of the job.
            device: device of the job.
            loaders: states of the workers' loader processes, if these draw samples.
        """
        self._loaders = loaders
        self._process = ProcessRandom(device)
        first = []
        for worker in range(num_workers):
            # Once, from the step seed of step 0: docs/reference/bits.md specifies it (``streams``).
            seed_all(step_seed(seed, 0, worker), device)
            first.append(self._process.read())
        self._held: dict[int, RandomStates] = {}
        """States of local workers at the last boundary."""
        self._next: dict[int, RandomStates] = {}
        """States of workers whose turn in the present step is over."""
        self._spare: dict[int, torch.Tensor] = {}
        """Memory for each worker's next torch state. New memory in every turn would fragment the
        space that the turn's activations have just left. Those of the next turn would then not
        fit."""
        self._hold(dict(enumerate(first)))
        rows = [_tensor(states.to_bytes()) for states in first]
        self._rows = torch.stack(rows)
        """States of all workers at the last boundary; those of local workers may be older."""
        self._gathered: torch.Tensor | None = None
        self._pending: Pending | None = None

    def assign(self, local: range) -> None:
        """See ``Contexts``."""
        # First: rows of local workers may be older than the states that are replaced here.
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
        # The states of the boundary stay as they are until ``commit``: the group may be lost.
        rows = torch.zeros_like(self._rows)
        for worker, states in self._next.items():
            rows[worker] = _tensor(states.to_bytes())
        # Rows of other slots' workers are zero, so the sum gathers.
        self._pending = group.all_reduce(rows)
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
            # Two pieces of memory take turns, so that no turn allocates any.
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
        # Otherwise ``assign`` would write the old states over the adopted ones.
        self._held.clear()

    def _settle(self) -> None:
        """Bring ``_rows`` up to date for local workers."""
        for worker, states in self._held.items():
            self._rows[worker] = _tensor(states.to_bytes())


def _tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)

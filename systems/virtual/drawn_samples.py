"""Batches drawn from random states by loader processes, fetched in advance for virtual workers.

A slot's virtual workers share the processes. Each worker gets the bits that it would have from its
own DataLoader.

Source: EasyScale (Li et al., SC '23), section 3.2. Its queuing buffer keeps the states of batches
that were fetched and not consumed. So a checkpoint has the states that belong to the training's
progress. Here the states come with the batches: ``LoaderStates`` has those of the last step
boundary. A batch that was fetched and dropped, since its step is made again or elsewhere, is drawn
again from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import torch

from harness.contracts.workload import Batch, Workload
from systems.runtime.data.drawing import draw
from systems.runtime.data.fetching import Ahead, Fetchers, Pieces, Request, Source
from systems.runtime.data.random_states import ProcessRandom
from systems.runtime.wire.data_order import DataOrder, Plan, epochs_of
from systems.virtual.loader_states import LoaderStates

States: TypeAlias = "list[bytes]"
"""Random states of the local workers."""


class Drawn(NamedTuple):
    """Local workers' batches of a step."""

    batches: list[Batch]
    after: States
    """States after these batches were drawn."""


class DrawnSamples:
    """Source of the samples of one slot's virtual workers, step by step. Only one thread may use
    it."""

    def __init__(
        self, workload: Workload, order: DataOrder, fetchers: Fetchers, states: LoaderStates
    ) -> None:
        """Begin without requests. Args: source, order and fetchers of the samples; ``states``:
        those at the last boundary."""
        self._workload = workload
        self._order = order
        self._states = states
        self._process = ProcessRandom(torch.device("cpu"))
        self._ahead = Ahead(order, fetchers, self._request)
        self._workers: tuple[int, ...] = ()
        self._step = 0
        """Number of steps executed before the step that is requested now."""
        self._first = 0
        """Number of steps executed before the first of the present series of requests."""
        self._latest: dict[int, tuple[int, Callable[[], States]]] = {}
        """Last step requested of each loader process in this series, and the states after it."""

    def batches(
        self, plan: Plan, workers: Sequence[int], global_batch: int, step: int
    ) -> dict[int, Batch]:
        """Return the batches of some virtual workers in a ``plan``, and request the next steps.

        Args:
            plan: plan of the step.
            workers: virtual workers of this slot.
            global_batch: batch of all workers.
            step: number of steps executed before it.

        Raises:
            LoaderError: a loader process failed.
        """
        self._workers, self._step = tuple(workers), step
        batches, after = self._ahead.take(plan, workers, global_batch)
        loader = step % self._states.num_loaders
        if self._latest[loader][0] == step:
            self._latest[loader] = (step, lambda: after)  # keep the states only, not the batches
        self._states.drew(step, dict(zip(workers, after, strict=True)))
        return dict(zip(workers, batches, strict=True))

    def _request(self, pieces: Pieces, number: int) -> Request[Drawn]:
        if number == 0:
            # A new series: requests of the one before were dropped, and with them the states after
            # them.
            self._first = self._step
            self._latest.clear()
        step = self._first + number
        loader = step % self._states.num_loaders
        known = self._latest.get(loader)
        before = known[1] if known is not None else self._at_boundary(step)
        request = Request(partial(self._fetch, pieces, before))
        self._latest[loader] = (step, lambda: request.result().after)
        return request

    def _at_boundary(self, step: int) -> Callable[[], States]:
        states = self._states.before(step, self._workers)
        return lambda: states

    def _fetch(self, pieces: Pieces, before: Callable[[], States], source: Source) -> Drawn:
        """Draw the batches of a step in the order of workers.

        The call first waits for the previous batch of the same loader process. A thread has already
        begun that one, since requests are served in order.
        """
        drawn = []
        for ranges, state in zip(pieces, before(), strict=True):
            ids, epochs = self._order.ids(ranges), epochs_of(ranges)
            if source is None:
                drawn.append(self._draw_here(ids, epochs, state))
            else:
                drawn.append(source.drawn(ids, epochs, state))
        return Drawn([batch for batch, _ in drawn], [after for _, after in drawn])

    def _draw_here(self, ids: list[int], epochs: list[int], state: bytes) -> tuple[Batch, bytes]:
        """Draw in the process that trains, and restore its random states."""
        outer = self._process.read()
        try:
            return draw(self._workload, self._process, ids, epochs, state)
        finally:
            self._process.write(outer)

"""Batches of the coming steps, fetched while the present one is computed.

The order of samples is a pure function, so what the next steps consume is known in advance as
long as the membership and the batch stay what they are. When they change, what was fetched
for the old ones is dropped and nobody waits for it. A batch is a pure function of its ids and
their epochs, so fetching it earlier, elsewhere, or twice gives the same bits; that asks two
things of ``Workload.samples``: that it touches no random state, and that two threads may call it.

Source: EDL (Wu et al., TPDS '22), section 4.4 reads ahead in a background thread too.
Differs: offsets need no report, since only what a step consumes is counted.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeAlias

from harness.contracts.training import Batch, Workload
from systems.runtime.data_order import DataOrder, DataState, Plan, Range, epochs_of
from systems.runtime.loader import LoaderProcess

CLOSE_TIMEOUT_S = 5.0

Samples: TypeAlias = "Callable[[Sequence[int], Sequence[int]], Batch]"
Request: TypeAlias = "tuple[tuple[Range, ...], Future[Batch]]"


class Prefetcher:
    """The samples of one worker, step by step; used by one thread."""

    def __init__(
        self,
        workload: Workload,
        order: DataOrder,
        depth: int,
        loaders: Sequence[LoaderProcess] = (),
    ) -> None:
        """Args: what the samples are of, in which order, and how they are fetched.

        Args:
            workload: whose samples are fetched.
            order: says what the coming steps consume.
            depth: steps to fetch in advance; 0: none, and no thread is started.
            loaders: processes that fetch, of the same workload, owned from now on; none: a
                thread of this process does. Until they are ready the caller fetches itself.
        """
        self._workload = workload
        self._order = order
        self._depth = depth
        self._loaders = tuple(loaders)
        self._wanted: SimpleQueue[Request | None] = SimpleQueue()
        self._coming: deque[Request] = deque()
        """Requests for the steps after the present one, in their order."""
        self._shape: tuple[tuple[int, ...], int, int] = ((), 0, 0)
        """Parts, workers and global batch that the coming steps were planned for."""
        self._planned: DataState = order.initial()
        """The state after the last of them."""
        self._failure: Exception | None = None
        self._threads: list[threading.Thread] = []
        if depth:
            sources: list[LoaderProcess | None] = [*self._loaders] or [None]
            self._threads = [
                threading.Thread(target=self._fetch, args=(source,), name="prefetch", daemon=True)
                for source in sources
            ]
        for thread in self._threads:
            thread.start()

    def batch(self, plan: Plan, parts: Sequence[int], global_batch: int) -> Batch:
        """The samples of some parts of a ``plan``, in their order, on the CPU; fetches on from
        there.

        Waits only if they are being fetched right now; where nobody has begun, the calling
        thread fetches them itself.

        Raises:
            LoaderError: a loader process failed.
        """
        ranges = _of(plan, parts)
        if not self._depth:
            return self._fetched(ranges)
        if self._failure is not None:
            raise self._failure
        shape = (tuple(parts), len(plan.parts), global_batch)
        if shape != self._shape or not self._coming or self._coming[0][0] != ranges:
            self._drop()
            self._shape, self._planned = shape, plan.after
            found = None
        else:
            found = self._coming.popleft()[1]
        batch = self._fetched(ranges) if found is None or found.cancel() else found.result()
        self._plan_ahead()  # last, since whoever is woken by it competes for the interpreter
        return batch

    def _fetched(self, ranges: tuple[Range, ...]) -> Batch:
        return self._workload.samples(self._order.ids(ranges), epochs_of(ranges))

    def _plan_ahead(self) -> None:
        parts, num_workers, global_batch = self._shape
        while len(self._coming) < self._depth:
            plan = self._order.plan(self._planned, num_workers, global_batch)
            request: Request = (_of(plan, parts), Future())
            self._coming.append(request)
            self._wanted.put(request)
            self._planned = plan.after

    def _drop(self) -> None:
        for _, future in self._coming:
            future.cancel()  # one that is being fetched ends unheard
        self._coming.clear()

    def _fetch(self, loader: LoaderProcess | None) -> None:
        """A fetching thread: what is asked for and not cancelled, until there is no more."""
        samples: Samples = self._workload.samples
        if loader is not None:
            try:
                loader.wait_ready()
            except Exception as error:
                self._failure = error
                return
            samples = loader.samples
        while (request := self._wanted.get()) is not None:
            ranges, future = request
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(samples(self._order.ids(ranges), epochs_of(ranges)))
            except Exception as error:
                future.set_exception(error)

    def close(self) -> None:
        """End the threads and processes; what they were fetching is lost. Safe to call twice."""
        self._drop()
        for _ in self._threads:
            self._wanted.put(None)
        for loader in self._loaders:
            loader.close()
        for thread in self._threads:
            thread.join(CLOSE_TIMEOUT_S)


def _of(plan: Plan, parts: Sequence[int]) -> tuple[Range, ...]:
    return tuple(piece for part in parts for piece in plan.parts[part])

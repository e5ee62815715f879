"""Prefetching: each request is answered once, by a thread or by the thread that needs it first.

Threads serve requests in order of arrival, each from its own loader process if there are any. If no
thread has begun a request when its result is needed, the thread that needs it fetches.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

from systems.runtime.data.loader import LoaderProcess
from systems.runtime.wire.data_order import DataOrder, DataState, Plan, Range

# A thread may be in the workload's own code, which need not return.
CLOSE_TIMEOUT_S = 5.0

T = TypeVar("T")
Source: TypeAlias = "LoaderProcess | None"
"""Loader process to fetch from; None: this process."""
Pieces: TypeAlias = "tuple[tuple[Range, ...], ...]"
"""Ranges that some parts of a plan consume, part by part."""


class Request(Generic[T]):
    """Something that is fetched at most once."""

    def __init__(self, fetch: Callable[[Source], T]) -> None:
        """Make a request. Args: ``fetch``: does the work, given the source of the thread that runs
        it."""
        self._fetch: Callable[[Source], T] | None = fetch
        self._claim = threading.Lock()
        """Taken by the thread that answers, and never released, so that only one thread fetches."""
        self._answer: Future[T] = Future()

    def fulfil(self, source: Source) -> None:
        """Fetch the result, unless another thread has begun to."""
        if not self._claim.acquire(blocking=False):
            return
        # Dropped, since it may hold the previous request, which may hold the one before it.
        fetch, self._fetch = self._fetch, None
        assert fetch is not None
        try:
            self._answer.set_result(fetch(source))
        except Exception as error:
            self._answer.set_exception(error)

    def drop(self) -> None:
        """Cancel the request if it has not begun; the result of one that has is ignored."""
        if self._claim.acquire(blocking=False):
            self._answer.cancel()

    def result(self) -> T:
        """Wait for the answer and return it. A thread must have begun to fetch it.

        Raises:
            Exception: whatever fetching raised; ``CancelledError`` if the request was dropped.
        """
        return self._answer.result()


class Fetchers:
    """Threads of one worker that prefetch, and its loader processes."""

    def __init__(self, depth: int, loaders: Sequence[LoaderProcess] = ()) -> None:
        """Start the threads.

        Args:
            depth: number of steps to prefetch; 0: none, and no thread is started.
            loaders: processes that fetch, owned from now on; none: a thread of this process
                fetches.
        """
        self.depth = depth
        self.num_loaders = len(loaders)
        self._loaders = tuple(loaders)
        self._wanted: SimpleQueue[Request[Any] | None] = SimpleQueue()
        self._failure: Exception | None = None
        self._threads: list[threading.Thread] = []
        if depth:
            sources: list[Source] = [*self._loaders] or [None]
            self._threads = [
                threading.Thread(target=self._serve, args=(source,), name="prefetch", daemon=True)
                for source in sources
            ]
        for thread in self._threads:
            thread.start()

    def submit(self, request: Request[Any]) -> None:
        """Queue a request; it is fetched after those submitted before."""
        self._wanted.put(request)

    def check(self) -> None:
        """Raise the error of a loader process that could not start. Raises LoaderError."""
        if self._failure is not None:
            raise self._failure

    def _serve(self, source: Source) -> None:
        if source is not None:
            try:
                source.wait_ready()
            except Exception as error:
                # The training thread raises it, in ``check``.
                self._failure = error
                return
        while (request := self._wanted.get()) is not None:
            request.fulfil(source)

    def close(self) -> None:
        """End the threads and processes; what they were fetching is lost. Safe to call twice."""
        for _ in self._threads:
            self._wanted.put(None)
        # Before the threads are joined: a thread may wait for the answer of its process.
        for loader in self._loaders:
            loader.close()
        for thread in self._threads:
            thread.join(CLOSE_TIMEOUT_S)


class Ahead(Generic[T]):
    """Requests for the next steps, made in advance while membership and batch do not change. Only
    one thread may use it."""

    def __init__(
        self, order: DataOrder, fetchers: Fetchers, ask: Callable[[Pieces, int], Request[T]]
    ) -> None:
        """Begin without requests.

        Args:
            order: determines what the next steps consume.
            fetchers: threads that fetch.
            ask: makes a request, given what one step consumes and how many requests came before it
                since the last change of shape.
        """
        self._order = order
        self._fetchers = fetchers
        self._ask = ask
        self._coming: deque[tuple[Pieces, Request[T]]] = deque()
        """Requests for the steps after the present one, in order."""
        self._shape: tuple[tuple[int, ...], int, int] = ((), 0, 0)
        """Parts, number of workers and global batch that the next steps were planned for."""
        self._planned: DataState = order.initial()
        """State of the data after the last planned step."""
        self._number = 0
        """Number of steps requested since the first one of this shape."""

    def take(self, plan: Plan, parts: Sequence[int], global_batch: int) -> T:
        """Return what some parts of a ``plan`` consume, and request the next steps in advance.

        The call waits only if a thread is fetching the result right now; otherwise the calling
        thread fetches it.

        Raises:
            LoaderError: a loader process failed.
        """
        self._fetchers.check()
        pieces = tuple(plan.parts[part] for part in parts)
        shape = (tuple(parts), len(plan.parts), global_batch)
        # What was fetched for other members, another batch or another place in the data is dropped.
        if self._coming and shape == self._shape and self._coming[0][0] == pieces:
            request = self._coming.popleft()[1]
        else:
            self.drop()
            self._shape, self._planned, self._number = shape, plan.after, 1
            request = self._ask(pieces, 0)
        # Fetched here unless a thread has begun: it would wait behind others in the queue.
        request.fulfil(None)
        found = request.result()
        # Last, since the thread that it wakes competes for the interpreter's lock.
        self._ask_ahead()
        return found

    def _ask_ahead(self) -> None:
        parts, num_workers, global_batch = self._shape
        while len(self._coming) < self._fetchers.depth:
            plan = self._order.plan(self._planned, num_workers, global_batch)
            pieces = tuple(plan.parts[part] for part in parts)
            request = self._ask(pieces, self._number)
            self._coming.append((pieces, request))
            self._fetchers.submit(request)
            self._planned = plan.after
            self._number += 1

    def drop(self) -> None:
        """Drop all requests made in advance."""
        for _, request in self._coming:
            request.drop()
        self._coming.clear()

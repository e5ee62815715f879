"""What is fetched in advance: asked for once, answered once, by a thread or by who needs it first.

Threads serve requests in the order in which they came, each from a loader process of its own if
there are some. What nobody has begun to fetch when it is needed, the one who needs it fetches.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

from systems.runtime.data_order import DataOrder, DataState, Plan, Range
from systems.runtime.loader import LoaderProcess

CLOSE_TIMEOUT_S = 5.0

T = TypeVar("T")
Source: TypeAlias = "LoaderProcess | None"
"""None: this process."""
Pieces: TypeAlias = "tuple[tuple[Range, ...], ...]"
"""What some parts of a plan consume, part by part."""


class Request(Generic[T]):
    """Something that is fetched at most once."""

    def __init__(self, fetch: Callable[[Source], T]) -> None:
        """Args: ``fetch``: what to do, with the source of whoever does it."""
        self._fetch: Callable[[Source], T] | None = fetch
        self._claim = threading.Lock()
        """Taken by who answers, and never given back."""
        self._answer: Future[T] = Future()

    def fulfil(self, source: Source) -> None:
        """Fetch it, unless somebody has begun to."""
        if not self._claim.acquire(blocking=False):
            return
        fetch, self._fetch = self._fetch, None  # it may hold the request before it, and so on
        assert fetch is not None
        try:
            self._answer.set_result(fetch(source))
        except Exception as error:
            self._answer.set_exception(error)

    def drop(self) -> None:
        """Nobody wants it any more: it is not begun; one that has been ends unheard."""
        if self._claim.acquire(blocking=False):
            self._answer.cancel()

    def result(self) -> T:
        """The answer, which somebody has begun to fetch.

        Raises:
            Exception: what fetching raised; ``CancelledError`` where it was dropped.
        """
        return self._answer.result()


class Fetchers:
    """The threads of one worker that fetch in advance, and its loader processes."""

    def __init__(self, depth: int, loaders: Sequence[LoaderProcess] = ()) -> None:
        """Args: how far to fetch in advance, and with what.

        Args:
            depth: steps; 0: none, and no thread is started.
            loaders: processes that fetch, owned from now on; none: a thread of this process does.
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
        """To be fetched after what was submitted before."""
        self._wanted.put(request)

    def check(self) -> None:
        """Raises LoaderError: a loader process could not begin."""
        if self._failure is not None:
            raise self._failure

    def _serve(self, source: Source) -> None:
        if source is not None:
            try:
                source.wait_ready()
            except Exception as error:
                self._failure = error
                return
        while (request := self._wanted.get()) is not None:
            request.fulfil(source)

    def close(self) -> None:
        """End the threads and processes; what they were fetching is lost. Safe to call twice."""
        for _ in self._threads:
            self._wanted.put(None)
        for loader in self._loaders:
            loader.close()
        for thread in self._threads:
            thread.join(CLOSE_TIMEOUT_S)


class Ahead(Generic[T]):
    """What the coming steps consume, asked for in advance while membership and batch stay what they
    are; used by one thread."""

    def __init__(
        self, order: DataOrder, fetchers: Fetchers, ask: Callable[[Pieces, int], Request[T]]
    ) -> None:
        """Args: the order of samples, who fetches them, and what is asked for.

        Args:
            order: says what the coming steps consume.
            fetchers: see there.
            ask: given what one step consumes, and how many were asked for since the first of
                those that follow each other.
        """
        self._order = order
        self._fetchers = fetchers
        self._ask = ask
        self._coming: deque[tuple[Pieces, Request[T]]] = deque()
        """For the steps after the present one, in their order."""
        self._shape: tuple[tuple[int, ...], int, int] = ((), 0, 0)
        """Parts, workers and global batch that the coming steps were planned for."""
        self._planned: DataState = order.initial()
        """The state after the last of them."""
        self._number = 0
        """Steps asked for since the first of them."""

    def take(self, plan: Plan, parts: Sequence[int], global_batch: int) -> T:
        """What was asked for some parts of a ``plan``; asks on from there.

        Waits only if it is being fetched right now.

        Raises:
            LoaderError: a loader process failed.
        """
        self._fetchers.check()
        pieces = tuple(plan.parts[part] for part in parts)
        shape = (tuple(parts), len(plan.parts), global_batch)
        if self._coming and shape == self._shape and self._coming[0][0] == pieces:
            request = self._coming.popleft()[1]
        else:
            self.drop()
            self._shape, self._planned, self._number = shape, plan.after, 1
            request = self._ask(pieces, 0)
        request.fulfil(None)
        found = request.result()
        self._ask_ahead()  # last, since whoever is woken by it competes for the interpreter
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
        """Nobody wants what was asked for in advance."""
        for _, request in self._coming:
            request.drop()
        self._coming.clear()

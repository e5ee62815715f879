"""Batches of the next steps, fetched while the present one is computed.

The order of samples is a pure function. So the samples of the next steps are known in advance until
the membership or the batch changes. After a change, batches fetched for the old order are dropped
without a wait.

A batch is a pure function of its ids and their epochs, so fetching it earlier, elsewhere, or twice
gives the same bits. This requires two things of ``Workload.samples``: it uses no random state, and
two threads may call it. ``systems.virtual.drawn_samples`` handles samples that are drawn at random.

Source: EDL (Wu et al., TPDS '22), section 4.4 reads ahead in a background thread too. Differs:
offsets need no report, since only what a step consumes is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.contracts.workload import Batch, Workload
from systems.runtime.data.fetching import Ahead, Fetchers, Pieces, Request, Source
from systems.runtime.data.loader import LoaderProcess
from systems.runtime.wire.data_order import DataOrder, Plan, epochs_of


class Prefetcher:
    """Source of one worker's samples, step by step. Only one thread may use it."""

    def __init__(
        self,
        workload: Workload,
        order: DataOrder,
        depth: int,
        loaders: Sequence[LoaderProcess] = (),
    ) -> None:
        """Start the fetching threads.

        Args:
            workload: source of the samples.
            order: determines what the next steps consume.
            depth: number of steps to fetch in advance; 0: none, and no thread is started.
            loaders: processes of the same workload that fetch, owned from now on; none: a thread of
                this process fetches. Until they are ready the caller fetches itself.
        """
        self._workload = workload
        self._order = order
        self.fetchers = Fetchers(depth, loaders)
        """Its threads and processes, which others may use too."""
        self._ahead = Ahead(order, self.fetchers, self._request)

    def batch(self, plan: Plan, parts: Sequence[int], global_batch: int) -> Batch:
        """Return the samples of some parts of a ``plan`` on the CPU, and request the next steps.

        Samples come in the order of ``parts``. The call waits only if a thread is fetching them
        right now. If none has begun, the calling thread fetches them itself.

        Raises:
            LoaderError: a loader process failed.
        """
        return self._ahead.take(plan, parts, global_batch)

    def _request(self, pieces: Pieces, number: int) -> Request[Batch]:
        ranges = tuple(piece for part in pieces for piece in part)

        def fetch(source: Source) -> Batch:
            samples = self._workload.samples if source is None else source.samples
            return samples(self._order.ids(ranges), epochs_of(ranges))

        return Request(fetch)

    def close(self) -> None:
        """End the threads and processes; what they were fetching is lost. Safe to call twice."""
        self._ahead.drop()
        self.fetchers.close()

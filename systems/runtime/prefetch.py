"""Batches of the coming steps, fetched while the present one is computed.

The order of samples is a pure function, so what the next steps consume is known in advance as
long as the membership and the batch stay what they are. When they change, what was fetched
for the old ones is dropped and nobody waits for it. A batch is a pure function of its ids and
their epochs, so fetching it earlier, elsewhere, or twice gives the same bits; that asks two
things of ``Workload.samples``: that it touches no random state, and that two threads may call it.
Samples that are drawn are another matter (``systems.virtual.drawn_samples``).

Source: EDL (Wu et al., TPDS '22), section 4.4 reads ahead in a background thread too.
Differs: offsets need no report, since only what a step consumes is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.contracts.training import Batch, Workload
from systems.runtime.data_order import DataOrder, Plan, epochs_of
from systems.runtime.fetching import Ahead, Fetchers, Pieces, Request, Source
from systems.runtime.loader import LoaderProcess


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
        self.fetchers = Fetchers(depth, loaders)
        """Its threads and processes, which others may ask too."""
        self._ahead = Ahead(order, self.fetchers, self._request)

    def batch(self, plan: Plan, parts: Sequence[int], global_batch: int) -> Batch:
        """The samples of some parts of a ``plan``, in their order, on the CPU; fetches on from
        there.

        Waits only if they are being fetched right now; where nobody has begun, the calling
        thread fetches them itself.

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

"""Gittins index of a job's service, learned from the total services of earlier jobs."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate


class ServiceHistory:
    """Total services of ended jobs, in slot-seconds, and the Gittins index computed from them.

    The index of a job with attained service ``a`` considers the next ``d`` slot-seconds. It is the
    probability that the job ends within them, divided by the part of them that the job is expected
    to use: ``P(S - a <= d | S > a) / E[min(S - a, d) | S > a]``, with S drawn from the ended jobs.

    All indices must be comparable, so they use one snapshot of the history. The snapshot is taken
    again each time the number of ended jobs has doubled.

    Source: Gu et al., NSDI '19, the two-dimensional Gittins index. Chosen here: the distribution is
    learned during the run; the times of the snapshots.
    """

    def __init__(self) -> None:
        self._ended: list[float] = []
        self._snapshot: list[float] = []
        self._sums: list[float] = [0.0]

    def add(self, service_slot_s: float) -> bool:
        """Record that a job ended with this service; return whether this changed all indices."""
        self._ended.append(service_slot_s)
        if len(self._ended) < 2 * len(self._snapshot):
            return False
        self._snapshot = sorted(self._ended)
        self._sums = list(accumulate(self._snapshot, initial=0.0))
        return True

    def index(self, attained_slot_s: float, ahead_slot_s: float) -> float:
        """Return the Gittins index, per slot-second.

        It is 0 if no ended job needed more than ``attained_slot_s``. It is 0 as well if
        ``ahead_slot_s`` is 0, since the job is then about to join the next group.
        """
        services, sums = self._snapshot, self._sums
        first = bisect_right(services, attained_slot_s)
        num_longer = len(services) - first
        if num_longer == 0 or ahead_slot_s <= 0.0:
            return 0.0
        until = bisect_right(services, attained_slot_s + ahead_slot_s)
        num_ending = until - first
        expected = sums[until] - sums[first] - num_ending * attained_slot_s
        # Rounding may make the difference of large sums 0 or negative; this is its lower bound.
        expected = max(expected, num_ending * (services[first] - attained_slot_s))
        if not math.isinf(ahead_slot_s):
            expected += (num_longer - num_ending) * ahead_slot_s
        return num_ending / expected

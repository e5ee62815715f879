"""Estimate of remaining time from the pace so far."""

from __future__ import annotations

from bisect import bisect_right

_MOST_POINTS = 512


class Pace:
    """Estimator of the seconds left, from the pace in the later half of the time so far.

    A replay's pace changes with the length of the queue, so only the later half counts. A fixed
    time would judge an hour by its last seconds. Work done before the first call is left out.
    """

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._shares: list[float] = []

    def left_s(self, share: float, now_s: float) -> float | None:
        """Return the seconds left when ``share`` of the whole (0 to 1) is done at ``now_s``.

        None until some work was done after the first call.
        """
        times_s, shares = self._times_s, self._shares
        times_s.append(now_s)
        shares.append(share)
        if len(times_s) > _MOST_POINTS:
            del times_s[1:-1:2], shares[1:-1:2]
        first = bisect_right(times_s, (times_s[0] + now_s) / 2) - 1
        if shares[first] == share:
            first = 0
        if shares[first] == share:
            return None
        return (1.0 - share) * (now_s - times_s[first]) / (share - shares[first])

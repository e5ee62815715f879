"""How long something will still take, by how fast it went."""

from __future__ import annotations

from bisect import bisect_right

_MOST_POINTS = 512


class Pace:
    """Seconds that are left of something, by the pace of the later half of the time so far.

    The later half, since a replay's pace changes with the length of the queue; half and no fixed
    time, so that the pace of an hour is not judged by its last seconds. What had been done before
    the first look is in no pace.
    """

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._shares: list[float] = []

    def left_s(self, share: float, now_s: float) -> float | None:
        """What is left when ``share`` of the whole (0 to 1) is done at ``now_s``, seconds.

        None as long as nothing more is done than when it was first looked at.
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

"""Straggler rule for the workers of a job: a pure state machine, fed with every step's times.

Source: EDL, section 5.2: a worker is a straggler if its time per mini-batch is longer than 1.2
times the median of all workers in 10 consecutive mini-batches; several can be at once. Differs:

- Where workers' shares of the batch differ in size, a straggler must be slow by its time and by its
  time per sample. Five workers that share 12 samples have 3 or 2 each. Those with 3 take 1.5 times
  the median, and are not slow. With equal shares this is the paper's rule.
- Fewer than 3 workers have no stragglers: of two, the slower one's own time makes up half of the
  median.
- Half of the workers or more are never stragglers. The median would be theirs, and what makes half
  of a job slow is not a worker.
- A time that is not known ends a worker's run of slow steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

LEAST_WORKERS = 3


@dataclass(frozen=True, slots=True)
class StragglerRule:
    """Rule by which a worker counts as a straggler.

    Raises:
        ValueError: options out of range, all at once, one a line.
    """

    ratio: float = 1.2
    """Ratio to the median of all workers, above which a time is slow."""
    window: int = 10
    """Number of consecutive steps in which the worker must be slow."""

    def __post_init__(self) -> None:
        problems = []
        if not 1 < self.ratio < float("inf"):
            problems.append(
                f"straggler_ratio is {self.ratio}; it must be finite and above 1, or half of"
                " the workers would always be slow"
            )
        if self.window < 1:
            problems.append(f"straggler_window is {self.window}; it must be at least 1 step")
        if problems:
            raise ValueError("\n".join(problems))


class StragglerWatch:
    """Search for stragglers by the first worker; each membership begins with empty counts."""

    def __init__(self, rule: StragglerRule) -> None:
        """Begin without workers.

        Args:
            rule: when a worker is a straggler.
        """
        self._rule = rule
        self._workers: tuple[str, ...] = ()
        self._shares: tuple[int, ...] = ()
        self._slow: dict[str, list[float]] = {}
        """Each worker's times over the median, in its present run of slow steps."""

    def begin(self, workers: Sequence[str], shares: Sequence[int]) -> None:
        """Begin all counts again, with other members or other shares.

        Args:
            workers: workers by rank.
            shares: samples of a step that each of them computes.

        Raises:
            ValueError: there are not as many shares as workers, or a share is below 1.
        """
        if len(workers) != len(shares) or min(shares, default=1) < 1:
            raise ValueError(f"shares {list(shares)} do not fit workers {list(workers)}")
        self._workers, self._shares = tuple(workers), tuple(shares)
        self._slow = {worker: [] for worker in workers}

    def observe(self, times_s: Sequence[float]) -> Mapping[str, float]:
        """Take the times of one step, and return each straggler with its slowness.

        Slowness is the mean, over the window, of the worker's time over the median. The count of a
        returned worker begins again, so it is returned again if it stays slow for another window.

        Args:
            times_s: time of each worker, by rank; 0: not known.

        Raises:
            ValueError: there are not as many times as workers.
        """
        if len(times_s) != len(self._workers):
            raise ValueError(f"{len(times_s)} times of {len(self._workers)} workers")
        ratios = self._ratios(times_s)
        for worker in self._workers:
            if ratios.get(worker, 0.0) > self._rule.ratio:
                self._slow[worker].append(ratios[worker])
            else:
                self._slow[worker].clear()
        window = self._rule.window
        found = {
            worker: fmean(slow[-window:])
            for worker, slow in self._slow.items()
            if len(slow) >= window
        }
        if 2 * len(found) >= len(self._workers):
            return {}
        for worker in found:
            self._slow[worker].clear()
        return found

    def _ratios(self, times_s: Sequence[float]) -> dict[str, float]:
        """Return the ratio of each worker's time to the median of all, whole or per sample.

        The smaller ratio counts. Workers without a known time are left out, and the result is empty
        if too few times are known.
        """
        known = [index for index, time_s in enumerate(times_s) if time_s > 0]
        if len(known) < LEAST_WORKERS:
            return {}
        middle = median(times_s[index] for index in known)
        each = {index: times_s[index] / self._shares[index] for index in known}
        middle_each = median(each.values())
        return {
            self._workers[index]: min(times_s[index] / middle, each[index] / middle_each)
            for index in known
        }

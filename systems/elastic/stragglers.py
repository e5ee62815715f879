"""Which workers of a job are stragglers: a pure state machine, fed with the times of every step.

Source: EDL, section 5.2: a worker whose time per mini-batch is longer than 1.2 times the median
of all workers in 10 consecutive mini-batches is one; several can be at once. Differs:

- Where workers' shares of the batch differ in size, a worker has to be slow by its time and by
  its time per sample. Five workers that share 12 samples have 3 or 2 each; those with 3 take
  1.5 times the median and are not slow. With equal shares this is the paper's rule.
- Fewer than 3 workers have no stragglers: of two, the slower one's time is half of the median.
- Half of the workers or more are never stragglers. The median would be theirs, and what makes
  half of a job slow is not a worker.
- A time that is not known ends a worker's run of slow steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

LEAST_WORKERS = 3


@dataclass(frozen=True, slots=True)
class StragglerRule:
    """When a worker counts as a straggler.

    Raises:
        ValueError: options out of range, all at once, one a line.
    """

    ratio: float = 1.2
    """To the median of all workers; a time above it is slow."""
    window: int = 10
    """Steps in succession in which the worker has to be slow."""

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
    """Kept by the first worker; a new membership begins with no memory of the one before."""

    def __init__(self, rule: StragglerRule) -> None:
        """Args: when a worker is a straggler."""
        self._rule = rule
        self._workers: tuple[str, ...] = ()
        self._shares: tuple[int, ...] = ()
        self._slow: dict[str, list[float]] = {}
        """Of every worker, its times over the median in the slow steps up to the last one."""

    def begin(self, workers: Sequence[str], shares: Sequence[int]) -> None:
        """Other members, or other shares: every count starts anew.

        Args:
            workers: by rank.
            shares: samples of a step that each of them computes.

        Raises:
            ValueError: there are not as many shares as workers, or a share is below 1.
        """
        if len(workers) != len(shares) or min(shares, default=1) < 1:
            raise ValueError(f"shares {list(shares)} do not fit workers {list(workers)}")
        self._workers, self._shares = tuple(workers), tuple(shares)
        self._slow = {worker: [] for worker in workers}

    def observe(self, times_s: Sequence[float]) -> Mapping[str, float]:
        """The times of one step; the stragglers, with how slow each is.

        That is the mean, over the window, of its time over the median. Whoever is returned
        is counted anew, so that it is named again if it stays slow for another window.

        Args:
            times_s: of each worker, by rank; 0: not known.

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
        """Each worker's time over the median, whole or per sample, whichever is less; of those
        whose time is known. Nobody's, if too few are."""
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

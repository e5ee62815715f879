"""Profile of a job's throughput at several sizes, measured by successive scale-in.

Source: EDL (papers/systems.md, 1.9): from the largest size down, some mini-batches at each; ``t(p)
= S(p)/p``, and the efficiency of p is ``t(p)`` over the largest ``t``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from systems.runtime.wire.step_log import LineReader
from systems.script.messages import Rate, RequestAnswer


class Profiling:
    """One profile under way."""

    def __init__(
        self,
        sizes: Sequence[int],
        steps: int,
        size_after: int,
        steps_log: Path,
        answer: Callable[[RequestAnswer], None],
    ) -> None:
        """Begin a profile.

        Args:
            sizes: numbers of workers, in the order in which they are measured.
            steps: number of steps to measure at each size.
            size_after: size that the job goes back to.
            steps_log: the job's ``steps.jsonl``.
            answer: called with the result, or with what prevented it.

        Raises:
            ValueError: no sizes, or no steps.
        """
        if not sizes or min(sizes) < 1 or steps < 1:
            raise ValueError("a profile needs sizes from 1 on, the largest last, and some steps")
        self.answer = answer
        self._sizes = list(sizes)
        self._steps = steps
        self._size_after = size_after
        self._log = LineReader(steps_log)
        self._last: deque[Mapping[str, Any]] = deque(maxlen=steps)
        """Last steps of the present generation."""
        self._num_steps = 0
        """Number of steps in the present generation, with those no longer kept."""
        self._samples_per_s: dict[int, float] = {}
        self._failure = ""
        self._is_stuck = False
        """Whether the job could not go back to its size."""

    def wanted(self, size: int) -> int | None:
        """Return the number of workers that the profile needs now; None: the profile is over.

        Args:
            size: present number of workers.
        """
        if self._sizes and size == self._sizes[0]:
            rate = self._measure(size)
            if rate is not None:
                self._samples_per_s[self._sizes.pop(0)] = rate
        if self._sizes:
            return self._sizes[0]
        return None if size == self._size_after or self._is_stuck else self._size_after

    def on_rescaled(self, answer: RequestAnswer) -> None:
        """Note the answer to a change of the size.

        A failed change ends the profile, after the way back. A change that has to wait for another
        is requested again.
        """
        if answer.status != "failed":
            return
        self._is_stuck = bool(self._failure)  # the way back has failed, too
        self._failure = self._failure or answer.reason or ""
        self._sizes.clear()

    def result(self) -> RequestAnswer:
        """Return the final answer; after a failure, with the sizes measured before it."""
        if self._failure:
            return RequestAnswer(status="failed", reason=self._failure, profile=self.rows())
        return RequestAnswer(status="done", profile=self.rows())

    def rows(self) -> tuple[Rate, ...]:
        """Return the measurements, by size."""
        rates = dict(sorted(self._samples_per_s.items()))
        best = max((rate / size for size, rate in rates.items()), default=1.0)
        return tuple(
            Rate(workers=size, samples_per_s=rate, efficiency=rate / size / best)
            for size, rate in rates.items()
        )

    def _measure(self, size: int) -> float | None:
        """Return samples per second over the last steps of the present generation; None: too few.

        The first step of a generation does not count.
        """
        for line in self._log.new():
            if not self._last or line["generation"] != self._last[-1]["generation"]:
                self._last.clear()
                self._num_steps = 0
            self._last.append(line)
            self._num_steps += 1
        if self._num_steps <= self._steps or self._last[-1]["world"] != size:
            return None
        first, last = self._last[0], self._last[-1]
        samples = sum(line["global_batch"] for line in self._last)
        return float(samples / (last["started"] + last["duration_s"] - first["started"]))

"""A job's throughput at one size after the other, by successive scale-in.

Source: EDL (papers/systems.md, 1.9): from the largest size down, some mini-batches at each;
``t(p) = S(p)/p``, and the efficiency of p is ``t(p)`` over the largest ``t``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from systems.runtime.step_log import read_lines


class Profiling:
    """One profile that is being made."""

    def __init__(
        self,
        sizes: Sequence[int],
        steps: int,
        size_after: int,
        steps_log: Path,
        answer: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """Begin.

        Args:
            sizes: numbers of workers, in the order in which they are measured.
            steps: to measure at each.
            size_after: what the job goes back to.
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
        self._log = steps_log
        self._samples_per_s: dict[int, float] = {}
        self._failure = ""

    def wanted(self, size: int) -> int | None:
        """How many workers there have to be now; None: it is over.

        Args:
            size: how many there are.
        """
        if self._failure:
            self._sizes = []
        if self._sizes and size == self._sizes[0]:
            rate = self._measure(size)
            if rate is not None:
                self._samples_per_s[self._sizes.pop(0)] = rate
        if self._sizes:
            return self._sizes[0]
        return None if size == self._size_after or self._failure else self._size_after

    def on_rescaled(self, answer: Mapping[str, Any]) -> None:
        """What became of a change of the size; one that failed ends the profile."""
        if answer["status"] != "done":
            self._failure = str(answer.get("reason", ""))

    def rows(self) -> list[dict[str, float]]:
        """The result, by size."""
        rates = dict(sorted(self._samples_per_s.items()))
        best = max((rate / size for size, rate in rates.items()), default=1.0)
        return [
            {"workers": size, "samples_per_s": rate, "efficiency": rate / size / best}
            for size, rate in rates.items()
        ]

    def _measure(self, size: int) -> float | None:
        """Samples per second over the last steps of the present generation; None: not yet.

        The first step of a generation does not count.
        """
        lines = list(read_lines(self._log))
        if not lines or lines[-1]["world"] != size:
            return None
        generation = lines[-1]["generation"]
        steps = [line for line in lines if line["generation"] == generation][1:]
        if len(steps) < self._steps:
            return None
        measured = steps[-self._steps :]
        end = measured[-1]["started"] + measured[-1]["duration_s"]
        samples = sum(line["global_batch"] for line in measured)
        return float(samples / (end - measured[0]["started"]))

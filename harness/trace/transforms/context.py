"""What transforms may use beside the trace, and what they share."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harness.cluster import Cluster
from harness.trace.trace import Trace

if TYPE_CHECKING:
    from harness.profiles import Profile


@dataclass(frozen=True)
class TransformContext:
    """The run that a trace is loaded for."""

    seed: int = 0
    """Names every random stream, together with the stream's own name."""
    profile: Profile | None = None
    """Throughput curves, for transforms that turn durations into work."""
    cluster: Cluster | None = None
    workloads: Sequence[str] = ()
    """Names of the run's workload pool, in its order."""

    def rng(self, stream: str) -> np.random.Generator:
        """The random stream with this name; the same draws for the same seed."""
        return np.random.default_rng([self.seed, zlib.crc32(stream.encode())])


class Transform(Protocol):
    """Makes one trace of another: a frozen dataclass of its options.

    Equal traces, options and contexts give equal traces. Every step leaves one readable
    line in the trace's history, which the run's manifest repeats.
    """

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """The changed trace; the given one stays as it is.

        Raises:
            TraceError: the transform does not fit the trace or lacks something in the
                context; with the way out.
        """
        ...


def check(*problems: str | bool) -> None:
    """Raise one ``ValueError`` with every text; ``False`` stands for no problem.

    Raises:
        ValueError: there is at least one text.
    """
    texts = [problem for problem in problems if isinstance(problem, str)]
    if texts:
        raise ValueError("\n".join(texts))


def positive(name: str, value: float) -> str | bool:
    """A problem unless ``value`` is finite and above 0."""
    return not (0 < value < float("inf")) and f"{name} is {value}; it must be finite and > 0"

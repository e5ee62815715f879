"""Context of a run that transforms may use in addition to the trace, and their shared helpers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harness.cluster import Cluster
from harness.trace.model.trace import Trace

if TYPE_CHECKING:
    from harness.profiles import Profile


@dataclass(frozen=True)
class TransformContext:
    """Context of the run that loads a trace: seed, profile, cluster and workloads."""

    seed: int = 0
    """Seed that, with a stream's own name, determines that random stream."""
    profile: Profile | None = None
    """Throughput curves, for transforms that turn durations into work."""
    cluster: Cluster | None = None
    workloads: Sequence[str] = ()
    """Names of the run's workload pool, in its order."""

    def rng(self, stream: str) -> np.random.Generator:
        """Return the random stream with this name; equal seeds give equal draws."""
        return np.random.default_rng([self.seed, zlib.crc32(stream.encode())])


class Transform(Protocol):
    """Function from trace to trace, as a frozen dataclass of its options.

    Equal traces, options and contexts give equal traces. Every step leaves one readable line in the
    trace's history, which the run's manifest repeats.
    """

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the changed trace; the given trace does not change.

        Raises:
            TraceError: the transform does not fit the trace or lacks something in the context. The
                text says what to do.
        """
        ...


def check(*problems: str | bool) -> None:
    """Raise one ``ValueError`` with all texts; ``False`` means no problem.

    Raises:
        ValueError: there is at least one text.
    """
    texts = [problem for problem in problems if isinstance(problem, str)]
    if texts:
        raise ValueError("\n".join(texts))


def positive(name: str, value: float) -> str | bool:
    """Return a problem unless ``value`` is finite and above 0."""
    return not (0 < value < float("inf")) and f"{name} is {value}; it must be finite and > 0"

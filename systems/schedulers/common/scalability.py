"""Scalability of a job: its best batch and its throughput scaling factor on 1, 2, ... slots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.contracts.job import JobSpec
from harness.contracts.view import Throughput
from systems.schedulers.common.gang import gang_slots
from systems.schedulers.common.slot_split import Floats, Worth


@dataclass(frozen=True)
class Scalability:
    """A job's throughput scaling factors, and the global batches that reach them."""

    worth: Worth
    batches: tuple[int, ...]
    """Best global batch on ``worth.fewest`` slots, on one more, and so on."""

    def batch(self, num_slots: int) -> int:
        """Return the best global batch on ``num_slots`` slots."""
        return self.batches[num_slots - self.worth.fewest]


class AllReduce:
    """Time to sum gradients, by weights and slots: measured once for a cluster.

    Source: Saxena et al., section III-B2: a table over 10M, 20M, ..., 100M weights and 1 to
    ``k_max`` slots, with interpolation between. The paper leaves these open; chosen here: straight
    lines, and outside the table its nearest value.

    ``table_s``: seconds on 1, 2, ... slots, by number of weights.
    ``weights``: number of weights of each workload.

    Raises:
        ValueError: rows of different lengths, or impossible numbers; one line for each problem.
    """

    def __init__(self, table_s: Mapping[int, Sequence[float]], weights: Mapping[str, int]) -> None:
        lengths = {len(row) for row in table_s.values()}
        bad = [row for row in table_s.values() if not all(0 <= s < math.inf for s in row)]
        problems = []
        if len(lengths) > 1 or 0 in lengths:
            problems.append(
                f"allreduce_s has rows of {', '.join(map(str, sorted(lengths)))} times; give every"
                " row the times on 1, 2, ... slots, as many as the others"
            )
        if bad:
            problems.append(f"allreduce_s has {list(bad[0])}; give seconds, 0 or more")
        if bool(table_s) != bool(weights):
            problems.append(
                "one of allreduce_s and weights is empty; give both, or neither to take the time"
                " from each job's own curve"
            )
        if problems:
            raise ValueError("\n".join(problems))
        self._weights = dict(weights)
        self._sizes = sorted(table_s)
        self._columns = [list(times) for times in zip(*map(table_s.get, self._sizes), strict=True)]

    def knows(self, workload: str) -> bool:
        """Return whether the weights of a workload were given."""
        return workload in self._weights

    def time_s(self, workload: str, num_slots: int) -> float:
        """Return the seconds of one sum over ``num_slots`` slots."""
        column = self._columns[min(num_slots, len(self._columns)) - 1]
        return float(np.interp(self._weights[workload], self._sizes, column))


class ScalabilityAnalyser:
    """Job scalability analyser: times measured at a few points, and a model between them.

    An iteration of batch b on k slots takes ``t_proc(ceil(b / k)) + t_comm(k)``. t_proc comes from
    the job's curve on one slot, at ``num_probes`` batches spread evenly up to the largest that fits
    a slot. Between them it is interpolated on straight lines. t_comm is looked up in ``allreduce``
    by the workload's weights. For a workload without weights, t_comm is the extra time on k slots
    of an iteration with the largest batch that fits, by the curve, and at least 0. The throughput
    is ``b / t_iter`` (samples per second). The scaling factor is this throughput over that of the
    largest batch that fits, on one slot.

    Source: Saxena et al., MASCOTS 2020, section III-B and equations (1) and (2); a job runs on up
    to ``k_max`` GPUs (section III-E). The best batch is a global batch in the job's range (the
    paper calls it per GPU by mistake). Of equal batches the smallest is taken.

    ``k_max``: most slots of a job (paper: 10), but never fewer than it requests.
    ``num_probes``: batches measured on one slot (not stated).
    ``slot_batch``: largest batch that fits a slot, for all or by workload (paper: 32 for its first
    category). If it is not given, the job's own request implies it: its global batch over its
    requested slots.
    """

    def __init__(
        self,
        k_max: int,
        num_probes: int,
        slot_batch: int | Mapping[str, int] | None,
        allreduce: AllReduce,
    ) -> None:
        self._k_max = k_max
        self._num_probes = num_probes
        self._slot_batch = slot_batch
        self._allreduce = allreduce
        self._known: dict[tuple[object, ...], Scalability | None] = {}

    def analyse(
        self, spec: JobSpec, curve: Throughput, batches: tuple[int, int]
    ) -> Scalability | None:
        """Analyse how the job scales with a global batch in the given range, both ends included.

        Returns:
            The scalability, or None if no such batch fits any number of slots that the job may
            have.
        """
        low, high = self._slot_range(spec)
        key = (curve, spec.workload, self.largest_slot_batch(spec), low, high, batches)
        if key not in self._known:
            self._known[key] = self._analyse(spec, curve, batches, range(low, high + 1))
        return self._known[key]

    def largest_slot_batch(self, spec: JobSpec) -> int:
        """Return the largest batch of the job that fits a slot, samples."""
        given = self._slot_batch
        if isinstance(given, Mapping):
            given = given.get(spec.workload)
        return given or -(-spec.global_batch // gang_slots(spec))

    def _slot_range(self, spec: JobSpec) -> tuple[int, int]:
        if not spec.elastic:
            return spec.requested_slots, spec.requested_slots
        most = self._k_max if spec.max_slots is None else min(self._k_max, spec.max_slots)
        return spec.min_slots, max(most, gang_slots(spec))

    def _analyse(
        self, spec: JobSpec, curve: Throughput, batches: tuple[int, int], slots: range
    ) -> Scalability | None:
        fits = self.largest_slot_batch(spec)
        process_s = self._process_times(curve, fits)
        alone = fits / float(process_s[fits])
        factors: list[float] = []
        best: list[int] = []
        for count in slots:
            # Among batches with the same load on the fullest slot, the largest is the fastest.
            parts = np.arange(-(-batches[0] // count), min(fits, -(-batches[1] // count)) + 1)
            if not parts.size:
                continue  # a batch that does not fit this many slots does not fit fewer either
            totals = np.minimum(parts * count, batches[1])
            summing_s = self._summing_s(spec, curve, count, int(totals[-1]), process_s)
            speeds = totals / (process_s[parts] + summing_s)
            index = int(speeds.argmax())
            factors.append(float(speeds[index]) / alone)
            best.append(int(totals[index]))
        if not best:
            return None
        fewest = slots[-1] + 1 - len(best)
        return Scalability(Worth(fewest, np.array(factors)), tuple(best))

    def _process_times(self, curve: Throughput, fits: int) -> Floats:
        """Return seconds of an iteration on one slot, by its batch (0 to the largest that fits)."""
        probes = np.unique(np.linspace(1, fits, self._num_probes).round()).astype(int)
        measured = [batch / curve.samples_per_s(1, batch) for batch in probes.tolist()]
        times_s: Floats = np.interp(np.arange(fits + 1), probes, measured)
        return times_s

    def _summing_s(
        self, spec: JobSpec, curve: Throughput, count: int, batch: int, process_s: Floats
    ) -> float:
        """Return the seconds to sum gradients on ``count`` slots.

        ``batch`` is the largest that fits these slots.
        """
        if self._allreduce.knows(spec.workload):
            return self._allreduce.time_s(spec.workload, count)
        whole_s = batch / curve.samples_per_s(count, batch)
        return max(0.0, whole_s - float(process_s[-(-batch // count)]))

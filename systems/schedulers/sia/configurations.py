"""Sia's configurations: slots of one device type, and the value of each to a job."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.cluster import Cluster
from harness.contracts.job import JobSpec
from harness.contracts.view import Throughput


class Configuration(NamedTuple):
    """Slots of one device type."""

    device_type: str
    num_slots: int


def cluster_counts(cluster: Cluster) -> dict[str, tuple[int, ...]]:
    """Return the slot counts of each device type: powers of two within a host, then whole hosts.

    Source: Sia, section 3.3. The size of a host is the size of the type's largest host.
    """
    counts = {}
    for device_type in cluster.device_types:
        per_host = Counter(slot.host for slot in cluster.slots if slot.device_type == device_type)
        total, host = sum(per_host.values()), max(per_host.values())
        powers = [1 << power for power in range(host.bit_length()) if 1 << power < host]
        counts[device_type] = (*powers, *range(host, total + 1, host))
    return counts


def job_configurations(
    spec: JobSpec, counts: Mapping[str, Sequence[int]], totals: Mapping[str, int]
) -> tuple[Configuration, ...]:
    """Return the configurations that a job may have, ascending.

    If the job's range has none of these counts, its least count is used.
    """
    found = []
    for device_type, sizes in counts.items():
        total = totals[device_type]
        most = min(total, spec.max_slots or total)
        legal = [size for size in sizes if spec.min_slots <= size <= most] or [spec.min_slots]
        if not spec.elastic:
            legal = [spec.requested_slots]
        found += [Configuration(device_type, size) for size in legal if size <= total]
    return tuple(found)


def goodputs(
    curve: Throughput, configurations: Sequence[Configuration]
) -> dict[Configuration, float]:
    """Return the job's row of the goodput matrix, normalised: its smallest entry is the job's least
    size.

    Source: Sia, section 3.4. At a fixed global batch goodput is throughput times a constant, which
    the normalisation removes. Configurations on which the job does not run are left out.
    """
    rates = {
        one: curve.samples_per_s(one.num_slots, None, one.device_type) for one in configurations
    }
    rates = {one: rate for one, rate in rates.items() if rate > 0.0}
    if not rates:
        return {}
    least, fewest = min(rates.values()), min(one.num_slots for one in rates)
    return {one: fewest * rate / least for one, rate in rates.items()}


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule by which goodputs become values; see ``Sia`` for the parameters."""

    fairness_power: float
    queue_penalty: float
    restart_s: float

    def restart_factor(self, age_s: float, num_restarts: int) -> float:
        """Return r_i, the share of its goodput that a job keeps if restarted now (section 3.4).

        It is ``(T - N S) / (T + S)``, with T the age of the job, N its restarts so far and S the
        cost of a restart; at least 0. It is 1 for a job younger than S (the authors' code).
        """
        if age_s < self.restart_s:
            return 1.0
        return max(0.0, age_s - num_restarts * self.restart_s) / (age_s + self.restart_s)

    def value(self, goodput: float) -> float:
        """Return the amount that a job with this goodput adds to the objective, compared with no
        slots."""
        powered = math.pow(max(goodput, _LEAST_GOODPUT), self.fairness_power)
        return self.queue_penalty + (powered if self.fairness_power > 0 else -powered)


_LEAST_GOODPUT = 1e-4
"""Lower bound of goodputs, so that no power of them is too large (authors' code)."""

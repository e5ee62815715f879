"""Transform for inference serving that shares the cluster and takes slots periodically."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from harness.cluster import Cluster
from harness.trace.model.context import TransformContext, check, positive
from harness.trace.model.events import TraceEvent, TraceEventKind
from harness.trace.model.trace import Trace, TraceError


@dataclass(frozen=True)
class ServingDemand:
    """Slots taken by serving: from ``least`` to ``most`` and back along a cosine.

    Serving holds ``least`` slots at first and ``most`` half a period later. Jobs have the rest:
    total minus demand (EasyScale, sections 5.2 and 5.3). The demand is evaluated every ``every_s``
    seconds from 0 to ``until_s`` (by default the end of the last job, if every job started on
    arrival). After that serving holds no slot. It takes slots of all device types in proportion,
    always in the same order, without notice.
    """

    least: int
    most: int
    period_s: float = 86400.0
    every_s: float = 900.0
    until_s: float | None = None

    def __post_init__(self) -> None:
        check(
            self.least < 0 and f"least is {self.least}; it must be at least 0",
            self.most < self.least and f"most {self.most} is below least {self.least}; swap them",
            positive("period_s", self.period_s),
            positive("every_s", self.every_s),
            self.until_s is not None and positive("until_s", self.until_s),
        )

    def demand(self, time_s: float) -> int:
        """Return the number of slots that serving wants at a time."""
        share = (1 - math.cos(2 * math.pi * time_s / self.period_s)) / 2
        return round(self.least + (self.most - self.least) * share)

    def apply(self, trace: Trace, context: TransformContext) -> Trace:
        """Return the trace with the slots that serving takes and leaves.

        Raises:
            TraceError: the run has no cluster, or serving would take all of its slots.
        """
        cluster = context.cluster
        if cluster is None:
            raise TraceError(["ServingDemand needs a cluster; name one with --cluster"])
        if self.most >= cluster.num_slots:
            raise TraceError(
                [
                    f"ServingDemand: most is {self.most}, but cluster {cluster.name} has"
                    f" {cluster.num_slots} slots, and jobs need one; lower it"
                ]
            )
        end_s = self.until_s
        if end_s is None:
            end_s = trace.end_s
        order = _in_proportion(cluster)
        events, held = [], 0
        for step in range(math.ceil(end_s / self.every_s) + 1):
            at_s = step * self.every_s
            wanted = self.demand(at_s) if at_s < end_s else 0
            kind = TraceEventKind.SLOTS_DOWN if wanted > held else TraceEventKind.SLOTS_UP
            if wanted != held:
                moved = order[min(held, wanted) : max(held, wanted)]
                events.append(TraceEvent(at_s, kind, tuple(sorted(moved))))
            held = wanted
        note = (
            f"ServingDemand: {self.least} to {self.most} of {cluster.num_slots} slots, a period of"
            f" {self.period_s:.10g} s, until {end_s:.10g} s"
        )
        return trace.with_events(note, events)


def _in_proportion(cluster: Cluster) -> list[int]:
    """Return all slots in an order whose every prefix has the device types in proportion."""
    total = Counter(slot.device_type for slot in cluster.slots)
    seen: Counter[str] = Counter()
    keys = []
    for slot in cluster.slots:
        seen[slot.device_type] += 1
        keys.append((seen[slot.device_type] / total[slot.device_type], slot.slot_id))
    return [slot for _, slot in sorted(keys)]

"""Deterministic transforms of traces; each adds a line to the trace's history."""

from harness.trace.model.context import Transform, TransformContext
from harness.trace.transforms.anew import DrawAnew
from harness.trace.transforms.arrivals import (
    CompressArrivals,
    FirstJobs,
    KeepDurations,
    ScaleLoad,
    TimeWindow,
)
from harness.trace.transforms.crashes import CrashJobs
from harness.trace.transforms.deadlines import AssignDeadlines
from harness.trace.transforms.demand import CapDemand, LogicalWorkers, SetElastic, SlotRange
from harness.trace.transforms.estimates import UncertainWork
from harness.trace.transforms.events import (
    CancelJobs,
    HostFailures,
    ReadEvents,
    TransientSlots,
)
from harness.trace.transforms.names import NameJobs
from harness.trace.transforms.recompute import RecomputeDurations, RecomputeWork
from harness.trace.transforms.resample import ResampleOwners, ShakeArrivals, ShuffleArrivals
from harness.trace.transforms.serving import ServingDemand
from harness.trace.transforms.work import (
    AssignBatch,
    AssignWorkloads,
    BatchPerSlot,
    ScaleDurations,
)

__all__ = [
    "AssignBatch",
    "AssignDeadlines",
    "AssignWorkloads",
    "BatchPerSlot",
    "CancelJobs",
    "CapDemand",
    "CompressArrivals",
    "CrashJobs",
    "DrawAnew",
    "FirstJobs",
    "HostFailures",
    "KeepDurations",
    "LogicalWorkers",
    "NameJobs",
    "ReadEvents",
    "RecomputeDurations",
    "RecomputeWork",
    "ResampleOwners",
    "ScaleDurations",
    "ScaleLoad",
    "ServingDemand",
    "SetElastic",
    "ShakeArrivals",
    "ShuffleArrivals",
    "SlotRange",
    "TimeWindow",
    "Transform",
    "TransformContext",
    "TransientSlots",
    "UncertainWork",
]

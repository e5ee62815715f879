"""The driver's own changes: workers that are too slow are asked to leave (EDL, section 5.2).

A removal is a scale-in like any other, but nobody has requested it, so it is reported as a grant
that has shrunk. A request of the scheduler's that comes meanwhile is answered with RETRY when
the removal is over, since one adjustment goes on at a time; not at once, or it would be
repeated in vain until then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from harness.contracts.engine import Change, ChangeKind
from harness.trace.job import JobSpec
from systems.elastic.adjusting import Adjusting, Removal
from systems.elastic.options import ElasticOptions


def removal_of(
    slowness: Mapping[str, float],
    slots: Mapping[str, int],
    job: JobSpec,
    global_batch: int,
    number: int,
    options: ElasticOptions,
) -> Adjusting | None:
    """The change that takes stragglers out, the slowest first; None: none can be spared.

    Args:
        slowness: each straggler's time over the median.
        slots: of the workers that train now, by rank.
        job: whose workers they are; it keeps its least number of slots.
        global_batch: stays as it is.
        number: above 0, and given once in the job's life: the change's id is no request's.
        options: ratio and window, for the reason, and the longest time it may take.
    """
    members = list(slots)
    known = [worker for worker in members if worker in slowness]
    slowest = sorted(known, key=lambda worker: -slowness[worker])
    chosen = slowest[: max(0, len(members) - max(1, job.min_slots))]
    if not chosen:
        return None
    new = tuple(worker for worker in members if worker not in chosen)
    named = ", ".join(f"{worker} ({slowness[worker]:.2f} times the median)" for worker in chosen)
    now = time.monotonic()
    removal = Removal(
        workers=tuple(chosen),
        slots=tuple(slots[worker] for worker in chosen),
        reason=f"straggler: {named} of {len(members)} workers, above straggler_ratio"
        f" {options.straggler_ratio:g} in straggler_window {options.straggler_window} steps"
        " running",
        detected_at=now,
    )
    after = tuple(slots[worker] for worker in new)
    change = Change(-number, ChangeKind.RESCALE, job, tuple(slots.values()), after, global_batch)
    deadline = now + options.adjust_timeout_s
    return Adjusting(change, tuple(members), new, (), deadline, removal=removal)

"""The simulated engine: a virtual clock, throughput curves and rescale costs.

A running job makes T(w) samples per second by its profile. A change takes the profile's
cost for (backend, workload, kind, sizes): during preparation the job goes on at its old
size, during the pause it does not train, and all slots involved are held to the end.
Preparation and pause of zero make the change free: it is done at once. Where a profile was
measured with the cost of a STOP (last evaluation, end of the processes), a job ends that much
after its last sample. A change that comes at the instant of a job's end comes too late: the
job is finished, whether or not the sums of its samples and times have been rounded up.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.contracts.engine import Abilities, Change, ChangeKind, Event, EventKind
from harness.engines.setup import EngineSetup
from harness.profiles import ProfileError, RescaleCost
from harness.records import RunRecords

FREE = RescaleCost(0.0, 0.0, {})

_SAME_INSTANT = 1e-12
"""Times that differ by less, relative to the clock, are one: thousands of roundings add up to
less, and at the end of a run of a year it is 30 microseconds."""


@dataclass(frozen=True)
class Simulated:
    """Options of the simulated engine.

    ``rescale_cost``: ``profile`` charges what the profile says, ``zero`` nothing.

    Raises:
        ValueError: an option has no such value.
    """

    rescale_cost: str = "profile"
    rescale_cost_factor: float = 1.0
    name: str = "simulated"
    exclusive: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.rescale_cost not in ("profile", "zero"):
            raise ValueError(f"rescale_cost is {self.rescale_cost!r}; known: profile, zero")
        if not (math.isfinite(self.rescale_cost_factor) and self.rescale_cost_factor >= 0):
            raise ValueError(
                f"rescale_cost_factor is {self.rescale_cost_factor}; it must be finite and >= 0"
            )

    def estimated_wall_s(self, setup: EngineSetup) -> float:
        """Start-up, and a fifth of a millisecond a job (what the 82,247 of philly take)."""
        return 2.0 + 2e-4 * len(setup.jobs)

    def problems(self, setup: EngineSetup) -> list[str]:
        """Curves or costs that the profile lacks."""
        problems = []
        for workload, batch in sorted({(job.workload, job.global_batch) for job in setup.jobs}):
            try:
                setup.profile.throughput(workload, batch)
            except ProfileError as error:
                problems += error.problems
                continue
            if self.rescale_cost == "zero" or self.rescale_cost_factor == 0.0:
                continue
            try:
                setup.profile.rescale_cost(setup.backend.name, workload, ChangeKind.START, 0, 1)
            except ProfileError as error:
                problems += error.problems
        return list(dict.fromkeys(map(str, problems)))

    def open(self, setup: EngineSetup) -> SimulatedEngine:
        """An engine at time 0."""
        factor = 0.0 if self.rescale_cost == "zero" else self.rescale_cost_factor
        return SimulatedEngine(setup, factor)


class _Progress:
    """Progress of one job: ``done`` samples at ``since_s``, then ``rate`` a second."""

    __slots__ = ("done", "end_s", "paused_rate", "rate", "since_s", "version", "work")

    def __init__(self, work: float) -> None:
        self.work = work
        self.done = 0.0
        self.rate = 0.0
        self.paused_rate = 0.0
        """Rate before the pause that is under way."""
        self.since_s = 0.0
        self.end_s = math.inf
        """Planned end of the job; infinite while it does not train."""
        self.version = 0
        """Counts up whenever planned events of the job become void."""

    def settle(self, now_s: float) -> None:
        self.done = min(self.work, self.done + self.rate * (now_s - self.since_s))
        self.since_s = now_s

    def is_over(self, now_s: float) -> bool:
        """Whether the job's planned end is this very instant."""
        return self.end_s - now_s <= _SAME_INSTANT * now_s


class SimulatedEngine:
    """See the module's text. One object serves one run."""

    def __init__(self, setup: EngineSetup, cost_factor: float) -> None:
        self._profile = setup.profile
        self._backend = setup.backend.name
        self._abilities = setup.backend.abilities
        self._cost_factor = cost_factor
        self._stops_cost = cost_factor > 0.0 and any(
            cell.kind is ChangeKind.STOP for cell in setup.profile.cost_cells
        )
        self._now_s = 0.0
        self._progress: dict[str, _Progress] = {}
        # (time, kind, arrival, job id, sequence, version, pause begins?, change)
        self._heap: list[tuple[float, int, float, str, int, int, Change | None]] = []
        self._sequence = 0

    @property
    def abilities(self) -> Abilities:
        """Those of the configured backend."""
        return self._abilities

    def now(self) -> float:
        """Virtual seconds since the start of the run."""
        return self._now_s

    def wait(self, until_s: float) -> list[Event]:
        """Jump to the next event or to ``until_s``; see ``Engine.wait``."""
        heap = self._heap
        events: list[Event] = []
        while heap:
            time_s, kind, _, job_id, _, version, change = heap[0]
            progress = self._progress.get(job_id)
            if progress is None or progress.version != version:
                heapq.heappop(heap)
                continue
            if time_s > until_s or (events and time_s > self._now_s):
                break
            heapq.heappop(heap)
            self._now_s = time_s
            if kind == _PAUSE_BEGINS:
                assert change is not None
                events.append(self._begin_pause(change, progress))
            elif change is None:
                events.append(self._finish_job(job_id))
            else:
                events.append(self._finish_change(change, progress, self._cost(change)))
        if not events:
            if math.isinf(until_s):
                raise RuntimeError("nothing is under way and nothing is due")
            self._now_s = max(self._now_s, until_s)
        return events

    def apply(self, changes: Sequence[Change]) -> list[Event]:
        """Begin the changes; those without cost are done at once.

        A job that is over is finished instead: a residue of its work that is smaller than the
        clock can tell would otherwise be suspended, and resumed for no time at all.
        """
        events = []
        for change in changes:
            job_id = change.job.job_id
            if change.kind is ChangeKind.START:
                self._progress[job_id] = _Progress(change.job.work_samples)
            progress = self._progress[job_id]
            cost = self._cost(change)
            if progress.is_over(self._now_s):
                events.append(self._finish_job(job_id))
            elif cost.preparation_s == 0.0 and cost.pause_s == 0.0:
                progress.settle(self._now_s)
                events.append(self._finish_change(change, progress, cost))
            elif cost.preparation_s == 0.0:
                events.append(self._begin_pause(change, progress))
            else:
                self._push(self._now_s + cost.preparation_s, _PAUSE_BEGINS, change, progress)
        return events

    def observe(self, records: RunRecords) -> None:
        """A simulation knows nothing that the replay has not seen."""

    def close(self) -> None:
        """Nothing to release."""

    def _cost(self, change: Change) -> RescaleCost:
        if self._cost_factor == 0.0 or change.kind is ChangeKind.STOP:
            return FREE
        cost = self._profile.rescale_cost(
            self._backend,
            change.job.workload,
            change.kind,
            len(change.previous_slots),
            len(change.slots),
        )
        factor = self._cost_factor
        if factor == 1.0:
            return cost
        return RescaleCost(
            cost.preparation_s * factor,
            cost.pause_s * factor,
            {phase: seconds * factor for phase, seconds in cost.phases_s.items()},
        )

    def _stop_s(self, change: Change) -> float:
        """Time between the last sample of a job and its end, seconds."""
        if not self._stops_cost:
            return 0.0
        workload, num_slots = change.job.workload, len(change.slots)
        cost = self._profile.rescale_cost(self._backend, workload, ChangeKind.STOP, num_slots, 0)
        return (cost.preparation_s + cost.pause_s) * self._cost_factor

    def _begin_pause(self, change: Change, progress: _Progress) -> Event:
        """Training stops; what was planned for the job is void, its change ends later."""
        if progress.is_over(self._now_s):
            return self._finish_job(change.job.job_id)
        progress.settle(self._now_s)
        progress.paused_rate = progress.rate
        progress.rate = 0.0
        progress.end_s = math.inf
        progress.version += 1
        cost = self._cost(change)
        self._push(self._now_s + cost.pause_s, EventKind.CHANGE_DONE, change, progress)
        return Event(self._now_s, EventKind.PROGRESS, change.job.job_id, samples_done=progress.done)

    def _finish_change(self, change: Change, progress: _Progress, cost: RescaleCost) -> Event:
        """The change holds: the job trains at its new size, or not at all."""
        now_s = self._now_s
        progress.since_s = now_s
        progress.version += 1
        progress.rate = self._rate(change, len(change.slots))
        progress.end_s = math.inf
        if change.kind is ChangeKind.STOP:
            del self._progress[change.job.job_id]
        elif progress.rate > 0.0:
            left = max(0.0, progress.work - progress.done)
            progress.end_s = now_s + left / progress.rate + self._stop_s(change)
            self._push(progress.end_s, EventKind.JOB_FINISHED, change, progress)
        is_rescale = change.kind in (ChangeKind.RESCALE, ChangeKind.MIGRATE)
        return Event(
            now_s,
            EventKind.CHANGE_DONE,
            change.job.job_id,
            change_id=change.change_id,
            samples_done=progress.done,
            samples_per_s=progress.rate,
            stopping_time_s=cost.pause_s if is_rescale else None,
            samples_lost=cost.pause_s * progress.paused_rate if is_rescale else None,
            phases_s=cost.phases_s,
        )

    def _finish_job(self, job_id: str) -> Event:
        """All its work is done; what is still planned for the job is void."""
        work = self._progress.pop(job_id).work
        return Event(self._now_s, EventKind.JOB_FINISHED, job_id, samples_done=work)

    def _rate(self, change: Change, num_slots: int) -> float:
        if num_slots == 0:
            return 0.0
        curve = self._profile.throughput(change.job.workload, change.job.global_batch)
        return curve.samples_per_s(num_slots, change.global_batch)

    def _push(self, time_s: float, kind: int, change: Change, progress: _Progress) -> None:
        self._sequence += 1
        job = change.job
        payload = None if kind == EventKind.JOB_FINISHED else change
        heapq.heappush(
            self._heap,
            (
                time_s,
                kind,
                job.arrival_s,
                job.job_id,
                self._sequence,
                progress.version,
                payload,
            ),
        )


_PAUSE_BEGINS = -1
"""Internal: the end of a preparation, before all events of its instant."""

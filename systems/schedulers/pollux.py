"""Pollux: slots and batches for the greatest goodput of all jobs."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from harness.cluster import Cluster
from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.event import EventKind
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import least_slots, refuse_misfit
from systems.schedulers.common.goodput import GoodputTable, goodput_table, realloc_factor
from systems.schedulers.common.news import refusals
from systems.schedulers.common.rounds import Rounds
from systems.schedulers.common.share_search import Floats, Genetic, Ints, exact_shares, losses


@dataclass(slots=True)
class _Job:
    """One live job."""

    table: GoodputTable
    least: int
    """Fewest slots that the job may have."""
    held: int = 0
    """Slots of its grant."""
    most_held: int = 0
    num_reallocations: int = 0


class Pollux:
    """Pollux: slots are shared so that the power mean of the jobs' speed-ups is greatest.

    Every ``period_s``, while something has changed, a search (``share_search``) looks for the
    numbers of slots, 0 or within each job's range, with the best mean of

    - speed-up of a job: its best goodput on these slots over its goodput on an equal share of the
      cluster (slots / jobs);
    - times (T - R * delta) / (T + delta) if its slots would change while it runs, with T its age, R
      how often they have changed and delta = ``delay_s``;
    - in the power mean with exponent ``power``; a job without slots counts as 0.001.

    Goodput is throughput times (phi + m0) / (phi + m) at batch m, the greatest over m. phi is the
    gradient noise scale, m0 the job's own batch. A job never gets more than ``max_growth`` times
    the most slots it has held (its fewest, before it has held any).

    ``noise_scale``: source of phi. ``profile``: the run's profile, as its needs declare; a mapping:
    assumed values, samples by workload; empty: none. A job whose phi is not known keeps its batch,
    so its goodput is its throughput. Simulated jobs are done after the same samples at every batch,
    so with phi known a simulation shows Pollux as better than it is.
    ``num_batches``: batches of a job's range that are tried next to its own.
    ``search``: ``exact``, dynamic programming, or ``genetic``, with ``population``, ``generations``
    and ``seed``. The authors use a genetic search because theirs must place jobs at the same time.
    The exact shares are those that a perfect genetic search would find, and are found faster.

    Source: Qiao et al., "Pollux", OSDI 2021, as described in one sentence in Gu et al.,
    "ElasticFlow", ASPLOS 2023, section 6.1; formulas and values (60 s, delta 30 s, exponent -1, 100
    by 100, at most twice the slots held) are general knowledge of it, and partly those of its
    authors' code. Differs: shares are numbers of slots, not of slots on hosts, since a throughput
    curve knows no hosts (so no two distributed jobs are kept off one host); curves are known and
    need not be learned; the cluster does not grow or shrink; phi is constant; a job that has no
    slots starts without the factor for changes. The genetic operators are ours.

    Checked: ``described``; the search against the exact optimum, and the optimum against brute
    force.

    Raises:
        ValueError: an option is out of its range.
    """

    checked: ClassVar[str] = "described"
    needs: frozenset[Knowledge] = frozenset({Knowledge.THROUGHPUT})
    wants_progress = False

    def __init__(
        self,
        period_s: float = 60.0,
        power: float = -1.0,
        delay_s: float = 30.0,
        max_growth: float | None = 2.0,
        noise_scale: Mapping[str, float] | Literal["profile"] | None = None,
        num_batches: int = 8,
        search: Literal["exact", "genetic"] = "exact",
        population: int = 100,
        generations: int = 100,
        seed: int = 0,
    ) -> None:
        assumed = noise_scale if isinstance(noise_scale, Mapping) else {}
        problems = [
            text
            for wrong, text in (
                (
                    power == 0.0 or not math.isfinite(power),
                    f"power is {power}; give a number other than 0",
                ),
                (not 0.0 <= delay_s < math.inf, f"delay_s is {delay_s}; give seconds, at least 0"),
                (
                    max_growth is not None and not max_growth > 1.0,
                    f"max_growth is {max_growth}; give more than 1, or null for no limit",
                ),
                (
                    any(not 0.0 <= phi < math.inf for phi in assumed.values()),
                    f"noise_scale is {dict(assumed)}; give samples, at least 0",
                ),
                (
                    isinstance(noise_scale, str) and noise_scale != "profile",
                    f"noise_scale is {noise_scale!r}; give profile, or samples by workload",
                ),
                (num_batches < 1, f"num_batches is {num_batches}; try at least 1"),
                (population < 2, f"population is {population}; give at least 2"),
                (generations < 0, f"generations is {generations}; give at least 0"),
            )
            if wrong
        ]
        if problems:
            raise ValueError("\n".join(problems))
        requires = {Requirement.RESCALE, Requirement.SUSPEND}
        if noise_scale:
            requires.add(Requirement.CHANGE_BATCH)
        self.requires = frozenset(requires)
        if noise_scale == "profile":
            self.needs = self.needs | {Knowledge.GRADIENT_NOISE}
        self._rounds = Rounds(period_s, "period_s")
        self._power = power
        self._delay_s = delay_s
        self._max_growth = max_growth
        self._assumed = assumed
        self._num_batches = num_batches
        self._genetic = Genetic(population, generations) if search == "genetic" else None
        self._rng = np.random.default_rng([seed, zlib.crc32(b"pollux.search")])
        self._jobs: dict[str, _Job] = {}
        """Live jobs, in order of arrival."""
        self._before: tuple[list[str], Ints] | None = None
        """Jobs and population of the previous search."""
        self._is_pending = False

    def decide(self, view: ClusterView) -> Decision:
        """Search in a round, if something has changed."""
        if any(event.kind in (EventKind.SLOT_DOWN, EventKind.SLOT_UP) for event in view.news):
            self._is_pending = True
        changes = refusals(view, self._look_again)
        is_round = self._rounds.begins(view)
        if is_round and self._is_pending:
            shares = self._shares(view) if self._jobs and view.num_usable else {}
            grants = self._apply(shares)
            self._is_pending = bool(grants)
            changes |= grants
        wakes = self._is_pending and self._jobs
        return Decision(changes, self._rounds.wake(view.time_s) if wakes else None)

    def _look_again(self, view: ClusterView, job_id: str) -> Refuse | None:
        """Update one job from the view."""
        self._is_pending = True
        seen = view.jobs.get(job_id)
        if seen is None:
            self._jobs.pop(job_id, None)
            return None
        if job_id not in self._jobs:
            least = least_slots(seen.spec)
            refusal = refuse_misfit(seen.spec, least, view.cluster)
            if refusal is not None:
                return refusal
            self._jobs[job_id] = _Job(self._table(seen, view.cluster), least)
        self._jobs[job_id].held = 0 if seen.grant is None else seen.grant.num_slots
        return None

    def _table(self, job: JobView, cluster: Cluster) -> GoodputTable:
        assert job.throughput is not None, "throughput is declared in ``needs``"
        is_told = Knowledge.GRADIENT_NOISE in self.needs
        phi = job.noise_scale if is_told else self._assumed.get(job.spec.workload)
        return goodput_table(job.spec, job.throughput, cluster.num_slots, phi, self._num_batches)

    def _shares(self, view: ClusterView) -> dict[str, int]:
        """Return the slots of every job."""
        job_ids = list(self._jobs)
        loss = losses(self._speed_ups(view), self._power)
        if self._genetic is None:
            return dict(zip(job_ids, exact_shares(loss, view.num_usable), strict=True))
        held = np.array([[job.held for job in self._jobs.values()]])
        seeds = np.concatenate([held, *self._remembered(job_ids)])
        states = self._genetic.search(loss, view.num_usable, seeds, self._rng)
        self._before = job_ids, states
        return dict(zip(job_ids, states[0].tolist(), strict=True))

    def _remembered(self, job_ids: list[str]) -> list[Ints]:
        """Return the previous population, for the jobs that are live now."""
        if self._before is None:
            return []
        column = {job_id: place for place, job_id in enumerate(self._before[0])}
        states = np.pad(self._before[1], ((0, 0), (0, 1)))  # the additional column is for new jobs
        return [states[:, [column.get(job_id, -1) for job_id in job_ids]]]

    def _speed_ups(self, view: ClusterView) -> Floats:
        """Return speed-ups by job and number of slots; NaN where the job may not have that
        number."""
        fair_slots = view.num_usable / len(self._jobs)
        width = max(job.table.most for job in self._jobs.values()) + 1
        values = np.full((len(self._jobs), width), np.nan)
        for row, (job_id, job) in zip(values, self._jobs.items(), strict=True):
            most = job.table.most
            if self._max_growth is not None:
                most = min(most, int(self._max_growth * job.most_held))
            most = max(most, job.least)
            goodput = np.array(job.table.goodput[: most + 1])
            goodput /= job.table.fair(fair_slots)
            if job.held:
                age_s = view.time_s - view.jobs[job_id].spec.arrival_s
                kept = goodput[job.held] if job.held <= most else 0.0
                goodput *= realloc_factor(age_s, job.num_reallocations, self._delay_s)
                if job.held <= most:
                    goodput[job.held] = kept
            row[0] = 0.0
            row[job.least : most + 1] = goodput[job.least :]
        return values

    def _apply(self, shares: Mapping[str, int]) -> dict[str, Grant | Suspend | Refuse]:
        """Return the grants that change; jobs that give slots up come before jobs that take
        them."""
        gives: dict[str, Grant | Suspend | Refuse] = {}
        takes: dict[str, Grant | Suspend | Refuse] = {}
        for job_id, count in shares.items():
            job = self._jobs[job_id]
            if count == job.held:
                continue
            if job.held:
                job.num_reallocations += 1
            side = gives if count < job.held else takes
            batch = job.table.batches[count] if count else None
            side[job_id] = Grant(count, global_batch=batch) if count else Suspend()
            job.held = count
            job.most_held = max(job.most_held, count)
        return gives | takes

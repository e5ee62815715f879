"""EasyScale: jobs of virtual workers use any free devices, of one type or several."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from sortedcontainers import SortedDict

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.event import EventKind
from harness.contracts.job_state import JobState
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView, JobView
from systems.schedulers.common.gang import refuse_misfit
from systems.schedulers.common.news import touched
from systems.schedulers.easyscale_plans.ai_master import AIMaster, Plan, Rules
from systems.schedulers.easyscale_plans.board import Board, Slots, Types
from systems.schedulers.easyscale_plans.model import Counts
from systems.schedulers.easyscale_plans.proposals import accept, fits

_LOSSES = (EventKind.GRANT_LOST, EventKind.GRANT_SHRUNK)


@dataclass(frozen=True, slots=True)
class _Claim:
    """Slots that a job has lost. Until a given time it has priority for slots of the same types."""

    lost: Counts
    until_s: float


class EasyScale:
    """EasyScale: a job begins on few slots, of any type, and grows by proposals; it can shrink
    again.

    A job has ``num_logical_workers`` virtual workers (maxP), which its slots run in turn, so its
    training does not depend on the slots. In rounds, at least ``round_s`` seconds apart:

    1. Jobs that lost slots get as many of the same types, if they are free, for ``reclaim_s``
       seconds after the loss. After that they continue with the slots they have.
    2. Jobs without slots begin, first in, first out. Each gets its least number of slots, on the
       fastest that are free. No job overtakes another, and no job grows while one waits.
    3. Every other job proposes its ``top_k`` best configurations, of at most ``max_waste_percent``
       waste, with one more slot (or up to ``max_added`` more, if one brings no gain). The cluster
       approves the highest speed-up per slot first, one proposal a job (Algorithm 1).

    Differs: plans are for one executor on each slot, though ``virtual_thread`` can run several
    (``executors``), so that m and its interference I are 1 in MC = m C I. A job that turns out
    slower (by more than the share ``slowdown``) returns to its previous plan and gives the new
    slots back. It never asks for them again. C_i begin with the profile, and follow the measured
    rates if these differ by more than ``learn_above`` (a share).

    ``mix``: a job may hold several device types (EasyScale_heter); otherwise only one
    (EasyScale_homo). The workloads named in ``one_type`` always hold only one, since their kernels
    cannot be the same on all devices (determinism level D2, section 3.3).
    ``min_share``: minP over maxP, the share of its virtual workers for which a job is guaranteed
    slots; 0 in the paper's trace experiment. Above 0 a job begins on that many slots. For it, slots
    that other jobs hold beyond their own minP are taken back, from the latest arrivals first.
    A job that is not elastic has minP = maxP: plain data parallelism, on its requested slots or
    none.
    ``exchange``: a proposal may give slots back as well, so that a job with as many slots as
    virtual workers can move to faster ones. The paper's proposals add one slot and give none back:
    ``max_added=1, exchange=False``; a job on half of maxP equal slots then stays there.
    ``scales``: how configurations are enumerated (``systems/schedulers/easyscale_plans/plans.py``).

    Source: EasyScale (SC '23), sections 3.4, with equations (1a) to (1e), and 5.2. Values of the
    paper: 30% waste, minP = 0; K, the rounds, the time-out and the definition of the speed-up are
    not stated. Differs: free slots bound the proposals, so that none of the K is wasted; slots that
    serving takes back leave without notice (events of the trace), as ``GRANT_SHRUNK`` or
    ``GRANT_LOST``.

    Checked: ``compared``: plans and proposals with all possible ones in small cases, approvals with
    the text of Algorithm 1; replays by hand.
    """

    checked: ClassVar[str] = "compared"
    needs: frozenset[Knowledge] = frozenset({Knowledge.THROUGHPUT})
    wants_progress = False

    def __init__(
        self,
        mix: bool = True,
        round_s: float = 60.0,
        top_k: int = 3,
        max_added: int = 16,
        exchange: bool = True,
        max_waste_percent: float = 30.0,
        min_share: float = 0.0,
        reclaim_s: float = 300.0,
        slowdown: float = 0.0,
        learn_above: float = 0.05,
        one_type: Sequence[str] = (),
        scales: Literal["every", "whole"] = "every",
    ) -> None:
        _check(round_s, top_k, max_added, max_waste_percent, min_share, reclaim_s)
        moves: set[Requirement] = {Requirement.MIGRATE} if exchange else set()
        self.requires = frozenset({Requirement.RESCALE, Requirement.SUSPEND} | moves)
        self._mix = mix
        self._round_s = round_s
        self._min_share = min_share
        self._reclaim_s = reclaim_s
        self._one_type = frozenset(one_type)
        self._rules = Rules(
            max_waste_percent, top_k, max_added, exchange, scales, learn_above, slowdown
        )
        self._masters: dict[str, AIMaster] = {}
        self._waiting: SortedDict[tuple[float, str], AIMaster] = SortedDict()
        self._active: SortedDict[tuple[float, str], AIMaster] = SortedDict()
        """Jobs that have a grant, or slots that they will lose."""
        self._claims: dict[str, _Claim] = {}
        self._types: Types | None = None
        self._next_round_s = 0.0

    def decide(self, view: ClusterView) -> Decision:
        """Repair plans that the news have made impossible; in a round, hand out the free slots."""
        if self._types is None:
            self._types = Types(view.cluster)
        refusals = self._look(view)
        board = Board(view, self._types, [key[-1] for key in self._active])
        for _, job_id in list(self._active):
            self._repair(view.jobs[job_id], board)
        plans: dict[str, Plan] = {}
        again = True
        is_round = view.time_s >= self._next_round_s
        if is_round:
            self._next_round_s = view.time_s + self._round_s
            again = self._round(view, board, plans)
        changes = self._say(view, board, plans)
        # If none of these is true, the next round would decide the same, so it needs no wake-up.
        again = again or bool(changes or view.in_flight or self._claims)
        again = again and bool(self._active or self._waiting)
        return Decision({**refusals, **changes}, self._next_round_s if again else None)

    def _look(self, view: ClusterView) -> dict[str, Refuse]:
        """Update the jobs from the news: each job is active or waiting."""
        refusals: dict[str, Refuse] = {}
        assert self._types is not None
        for event in view.news:
            job = view.jobs.get(event.job_id)
            master = self._masters.get(event.job_id)
            if event.kind in _LOSSES and job is not None and master is not None:
                lost = self._types.count(slot for slot in master.plan if slot not in job.slots)
                self._claims[event.job_id] = _Claim(lost, view.time_s + self._reclaim_s)
        for job_id in touched(view):
            job = view.jobs.get(job_id)
            if job is None:
                self._forget(job_id)
                continue
            order = job.spec.order
            if job_id not in self._masters:
                master, refusal = self._meet(view, job)
                if refusal is not None:
                    refusals[job_id] = refusal
                    continue
                self._masters[job_id] = master
            here, there = self._waiting, self._active
            if job.grant is not None or job.slots:
                here, there = there, here
            else:
                self._masters[job_id].plan, self._masters[job_id].trial = {}, None
            here[order] = self._masters[job_id]
            there.pop(order, None)
        return refusals

    def _meet(self, view: ClusterView, job: JobView) -> tuple[AIMaster, Refuse | None]:
        """Create the AIMaster of a new job; return it, and a refusal if the cluster can never serve
        the job."""
        spec, curve = job.spec, job.throughput
        assert curve is not None, "throughput is declared in ``needs``"
        assert self._types is not None
        max_p = spec.num_logical_workers
        least = most = spec.requested_slots
        if spec.elastic:
            limits = (max_p, view.cluster.num_slots, spec.max_slots or max_p)
            most = max(spec.min_slots, min(limits))
            least = max(spec.min_slots, min(most, math.ceil(self._min_share * max_p)))
        one_type = not self._mix or spec.workload in self._one_type
        master = AIMaster(
            spec,
            curve,
            self._types.names,
            rules=self._rules,
            least=least,
            most=most,
            one_type=one_type,
        )
        refusal = refuse_misfit(spec, least, view.cluster)
        if refusal is None and least > max_p:
            refusal = Refuse(
                f"the job needs {least} slots at once, but has {max_p} logical workers, and"
                " every slot runs one at least; correct the trace"
            )
        everything = self._types.count(range(view.cluster.num_slots))
        if refusal is None and not master.can_run_on(everything):
            refusal = Refuse(
                f"the job needs {least} slots at once{' of one device type' * one_type} with a"
                f" known speed of {spec.workload!r}, which cluster {view.cluster.name!r} has not;"
                " choose another cluster, or a profile that knows more device types"
            )
        return master, refusal

    def _forget(self, job_id: str) -> None:
        master = self._masters.pop(job_id, None)
        if master is not None:
            self._waiting.pop(master.spec.order, None)
            self._active.pop(master.spec.order, None)
            self._claims.pop(job_id, None)

    def _repair(self, job: JobView, board: Board) -> None:
        """Take all slots from a job that cannot continue with its remaining slots."""
        master, left = self._masters[job.job_id], board.slots[job.job_id]
        least = job.spec.min_slots if job.spec.elastic else job.spec.requested_slots
        if job.grant is not None and len(left) < least:
            board.keep(job.job_id, ())
            if not job.slots:
                self._wait(master)
        if set(left) != set(master.plan):
            master.trial = None

    def _wait(self, master: AIMaster) -> None:
        self._active.pop(master.spec.order, None)
        self._waiting[master.spec.order] = master

    def _round(self, view: ClusterView, board: Board, plans: dict[str, Plan]) -> bool:
        """Judge earlier growth, then hand out slots; return whether a job must be judged later."""
        later = self._judge(view, board, plans)
        self._replace(view, board)
        self._start(board, plans)
        if not self._waiting:
            self._grow(view, board, plans)
        return later

    def _judge(self, view: ClusterView, board: Board, plans: dict[str, Plan]) -> bool:
        """Compare rates with expected rates; return whether a job must be judged later."""
        assert self._types is not None
        later = False
        for (_, job_id), master in list(self._active.items()):
            job, slots = view.jobs[job_id], board.slots.get(job_id, ())
            if not self._is_steady(view, job, slots):
                later = later or master.trial is not None
                continue
            if not (plan := master.judge(job.samples_per_s, self._types.of_slot)):
                continue
            if set(plan) <= set(slots):
                plans[job_id] = plan
                board.keep(job_id, tuple(slot for slot in slots if slot in plan))
        return later

    def _is_steady(self, view: ClusterView, job: JobView, slots: Slots) -> bool:
        """Return whether the job trains on exactly the slots it was last given."""
        plan = self._masters[job.job_id].plan
        return (
            job.state is JobState.RUNNING
            and job.samples_per_s > 0.0
            and job.job_id not in view.in_flight
            and bool(slots)
            and set(job.slots) == set(slots) == set(plan)
        )

    def _replace(self, view: ClusterView, board: Board) -> None:
        """Give jobs that lost slots as many of the same types."""
        self._claims = {i: c for i, c in self._claims.items() if view.time_s <= c.until_s}
        for job_id in sorted(self._claims, key=lambda i: self._masters[i].spec.order):
            master, slots = self._masters[job_id], board.slots.get(job_id, ())
            room, added = master.most - len(slots), []
            held = board.count(job_id)
            for index, lost in enumerate(self._claims[job_id].lost):
                fitting = not (master.one_type and slots) or held[index] > 0
                added.append(min(lost, board.free[index], room) if fitting else 0)
                room -= added[-1]
            if len(slots) + sum(added) < master.least or not sum(added):
                continue
            if master.spec.order in self._waiting:
                self._begin(master)
            board.add(job_id, tuple(added))
            del self._claims[job_id]

    def _begin(self, master: AIMaster) -> None:
        del self._waiting[master.spec.order]
        self._active[master.spec.order] = master

    def _start(self, board: Board, fixed: Container[str]) -> None:
        """Begin jobs in order of arrival, until one does not fit."""
        assert self._types is not None
        for master in list(self._waiting.values()):
            lent = self._lent(board, fixed) if self._min_share > 0 else {}
            free = board.free
            spare = self._types.count(lent)
            both = tuple(a + b for a, b in zip(free, spare, strict=True))
            proposals = master.start(both)
            if not proposals:
                return
            chosen = next((one for one in proposals if fits(one.added, free)), proposals[0])
            missing = [max(0, more - have) for more, have in zip(chosen.added, free, strict=True)]
            taken: list[int] = []
            for slot, owner in lent.items():
                if missing[self._types.of_slot[slot]] > 0:
                    missing[self._types.of_slot[slot]] -= 1
                    taken.append(slot)
                    board.keep(owner, tuple(s for s in board.slots[owner] if s != slot))
            self._begin(master)
            board.add(master.spec.job_id, chosen.added, taken)

    def _lent(self, board: Board, fixed: Container[str]) -> dict[int, str]:
        """Return slots above the jobs' guaranteed numbers, with their jobs; latest jobs first."""
        lent: dict[int, str] = {}
        for (_, job_id), master in reversed(self._active.items()):
            if master.spec.elastic and job_id not in fixed:
                lent |= dict.fromkeys(reversed(board.slots.get(job_id, ())[master.least :]), job_id)
        return lent

    def _grow(self, view: ClusterView, board: Board, plans: dict[str, Plan]) -> None:
        """Collect proposals and approve them by Algorithm 1 (step 3 of a round)."""
        if not board.has_free:
            return
        free, proposals = board.free, []
        for (_, job_id), master in self._active.items():
            slots = board.slots.get(job_id, ())
            may = master.spec.elastic and job_id not in plans and job_id not in self._claims
            if may and self._is_steady(view, view.jobs[job_id], slots):
                proposals += master.proposals(board.count(job_id), free)
        for one in accept(proposals, free):
            board.drop(one.job_id, one.configuration.nums)
            board.add(one.job_id, one.added)

    def _say(
        self, view: ClusterView, board: Board, plans: dict[str, Plan]
    ) -> dict[str, Grant | Suspend]:
        """Return the grants of the board that differ from the present grants."""
        assert self._types is not None
        changes: dict[str, Grant | Suspend] = {}
        for job_id, slots in board.slots.items():
            job = view.jobs[job_id]
            master = self._masters[job_id]
            if not slots:
                master.plan = {}
                if job.grant is not None:
                    changes[job_id] = Suspend()
                continue
            plan = plans.get(job_id)
            if plan is None:
                if set(slots) == set(master.plan) and _says(job.grant, job.slots, master.plan):
                    continue
                plan = master.best_plan(slots, self._types.of_slot)
                if plan.keys() > master.plan.keys():
                    master.try_out(plan, job.samples_per_s)
            master.plan = plan
            if not _says(job.grant, job.slots, plan):
                batch = job.spec.global_batch
                changes[job_id] = Grant(
                    len(plan),
                    slots=tuple(plan),
                    global_batch=batch,
                    virtual_workers=tuple(plan.values()),
                )
        return changes


def _says(grant: Grant | None, held: Slots, plan: Plan) -> bool:
    """Return whether a grant already equals this plan."""
    if grant is None or grant.virtual_workers is None:
        return False
    slots = grant.slots if grant.slots is not None else held
    return dict(zip(slots, grant.virtual_workers, strict=False)) == plan


def _check(
    round_s: float,
    top_k: int,
    max_added: int,
    max_waste_percent: float,
    min_share: float,
    reclaim_s: float,
) -> None:
    problems = [
        f"{name} is {value}; it must be {rule}"
        for name, value, rule, good in (
            ("round_s", round_s, "finite and > 0", 0 < round_s < math.inf),
            ("top_k", top_k, "at least 1", top_k >= 1),
            ("max_added", max_added, "at least 1", max_added >= 1),
            ("max_waste_percent", max_waste_percent, ">= 0", max_waste_percent >= 0),
            ("min_share", min_share, "in [0, 1]", 0 <= min_share <= 1),
            ("reclaim_s", reclaim_s, "finite and >= 0", 0 <= reclaim_s < math.inf),
        )
        if not good
    ]
    if problems:
        raise ValueError("\n".join(problems))

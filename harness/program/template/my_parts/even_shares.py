"""Scheduler: all jobs share the slots evenly."""

from __future__ import annotations

from typing import ClassVar

from harness.contracts.decision import Decision, Grant, Refuse, Suspend
from harness.contracts.scheduler import Knowledge, Requirement
from harness.contracts.view import ClusterView
from systems.schedulers.common.gang import least_slots, refuse_misfit


class EvenShares:
    """Slots are dealt out one after another, in order of arrival, until none is left.

    A scheduler performs no input or output, reads no clock and changes nothing that it was given.
    It cannot tell whether a run is simulated or live.
    """

    checked: ClassVar[str] = "described"
    # What it must know of a job: nothing here. Else for example Knowledge.DEADLINE.
    needs: frozenset[Knowledge] = frozenset()
    # What the backend must be able to do.
    requires = frozenset({Requirement.RESCALE, Requirement.SUSPEND})
    # True: it is asked again after every report of progress.
    wants_progress = False

    def __init__(self, most: int | None = None) -> None:
        """Take the options of the YAML file.

        Args:
            most: the most slots that one job may have; None: no bound.
        """
        if most is not None and most < 1:
            raise ValueError(f"most is {most}; it must be at least 1")
        self._most = most

    def decide(self, view: ClusterView) -> Decision:
        """Return the grants that change; every other job keeps what it has."""
        changes: dict[str, Grant | Suspend | Refuse] = {}
        specs = []
        for spec in sorted((job.spec for job in view.jobs.values()), key=lambda spec: spec.order):
            # Without this, a job that is too large for the cluster would wait for ever.
            refusal = refuse_misfit(spec, least_slots(spec), view.cluster)
            if refusal is None:
                specs.append(spec)
            else:
                changes[spec.job_id] = refusal
        free = view.num_usable
        shares = dict.fromkeys((spec.job_id for spec in specs), 0)
        is_dealing = True
        while is_dealing:
            is_dealing = False
            for spec in specs:
                share = shares[spec.job_id]
                more = 1 if share else least_slots(spec)
                bound = self._most if spec.elastic else spec.requested_slots
                limits = [limit for limit in (spec.max_slots, bound) if limit is not None]
                if more <= free and (not share or share < min(limits, default=share + 1)):
                    shares[spec.job_id] += more
                    free -= more
                    is_dealing = True
        for job_id, share in shares.items():
            grant = view.jobs[job_id].grant
            if share and (grant is None or grant.num_slots != share):
                changes[job_id] = Grant(share)
            elif not share and grant is not None:
                changes[job_id] = Suspend()
        return Decision(changes)

"""A worker's part in the straggler rule: its own times for all, and at the first worker all's.

A worker's time of a step is from its begin until its own gradients are ready: drawing the
samples, the forward and the backward pass, and no waiting for others. All learn it in the words
of the next step (``words``).
"""

from __future__ import annotations

from collections.abc import Sequence

from systems.elastic.order import ElasticOrder
from systems.elastic.recovery import Membership
from systems.elastic.stragglers import StragglerRule, StragglerWatch
from systems.runtime.control import ControlClient
from systems.runtime.data_order import share


class Straggling:
    """One worker's; does nothing where the rule is off."""

    def __init__(self, order: ElasticOrder, client: ControlClient) -> None:
        """Args: this worker's order, and the connection to the driver."""
        self.is_on = order.straggler != "off"
        self.last_s = 0.0
        """This worker's time of the step before; 0: not known."""
        self._worker = order.worker
        self._client = client
        self._watch = StragglerWatch(StragglerRule(order.straggler_ratio, order.straggler_window))
        self._membership = Membership((), 0)

    def enter(self, membership: Membership) -> None:
        """Other members from now on: what was measured among those before is forgotten."""
        self._membership = membership
        self.last_s = 0.0
        if self.is_on:
            count, batch = len(membership.members), membership.global_batch
            bounds = [share(batch, count, rank) for rank in range(count)]
            self._watch.begin(membership.members, [stop - start for start, stop in bounds])

    def step(
        self, started: float, computed: float, times_s: Sequence[float], *, is_donor: bool
    ) -> None:
        """A step was committed; the first worker tells the driver of stragglers.

        Args:
            started: when this worker began it, on ``time.monotonic``.
            computed: when its own gradients were ready.
            times_s: of all workers in the step before, by rank; empty where the rule is off.
            is_donor: whether it gave its state to newcomers meanwhile, which takes time and
                says nothing about the worker.
        """
        self.last_s = 0.0 if is_donor else computed - started
        members = self._membership.members
        if not times_s or members[0] != self._worker:
            return
        if found := self._watch.observe(times_s):
            self._client.send(
                {"kind": "straggler", "slowness": dict(found), "members": list(members)}
            )

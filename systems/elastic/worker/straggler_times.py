"""A worker's part in the straggler rule: it tells its times; the first worker applies the rule.

A worker's time of a step is from the step's start until its own gradients are ready: drawing the
samples, the forward and the backward pass, without any wait for others. All workers learn it in the
words of the next step (``step_sync``).
"""

from __future__ import annotations

from collections.abc import Sequence

from systems.elastic.wire.messages import Straggler
from systems.elastic.wire.order import ElasticOrder
from systems.elastic.wire.recovery_plan import Membership
from systems.elastic.wire.stragglers import StragglerRule, StragglerWatch
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.data_order import share


class StragglerTimes:
    """Straggler rule in one worker; it does nothing if the rule is off."""

    def __init__(self, order: ElasticOrder, client: ControlClient) -> None:
        """Prepare the rule.

        Args:
            order: order of this worker.
            client: connection to the driver.
        """
        self.is_on = order.straggler != "off"
        self.last_s = 0.0
        """This worker's time of the last step; 0: not known."""
        self._worker = order.worker
        self._client = client
        self._watch = StragglerWatch(StragglerRule(order.straggler_ratio, order.straggler_window))
        self._membership = Membership((), 0)

    def enter(self, membership: Membership) -> None:
        """Enter another membership, and forget the times of the one before."""
        self._membership = membership
        self.last_s = 0.0
        if self.is_on:
            count, batch = len(membership.members), membership.global_batch
            bounds = [share(batch, count, rank) for rank in range(count)]
            self._watch.begin(membership.members, [stop - start for start, stop in bounds])

    def step(
        self, started: float, computed: float, times_s: Sequence[float], *, is_donor: bool
    ) -> None:
        """Note a committed step; the first worker tells the driver of stragglers.

        Args:
            started: when this worker began it, on ``time.monotonic``.
            computed: when its own gradients were ready.
            times_s: times of all workers in the step before, by rank; empty if the rule is off.
            is_donor: whether the worker gave its state to newcomers meanwhile, which takes time and
                does not make it a straggler.
        """
        self.last_s = 0.0 if is_donor else computed - started
        members = self._membership.members
        if not times_s or members[0] != self._worker:
            return
        if found := self._watch.observe(times_s):
            self._client.send(Straggler(slowness=dict(found), members=members))

"""The side of a worker that takes the state from another: a joiner, or a survivor behind."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence

import torch

from systems.elastic.groups import Group, GroupLost
from systems.elastic.order import ElasticOrder
from systems.elastic.regrouping import Topology
from systems.elastic.transfer.broadcast import broadcast_state
from systems.elastic.transfer.channel import Cancelled, PeerLost, TransferError
from systems.elastic.transfer.receiver import Received, Receiver
from systems.elastic.transfer.training_state import TrainingState
from systems.elastic.workbench import Workbench


class Taking:
    """One worker's. ``expect`` and ``cancel`` come from the membership's thread."""

    def __init__(
        self,
        state: TrainingState,
        bench: Workbench,
        token: str,
        order: ElasticOrder,
        on_failed: Callable[[int, str], None],
    ) -> None:
        """``on_failed``: called with the generation that this worker has not got the state for,
        and the reason, unless that is a ``cancel``; on the training thread."""
        self._state = state
        self._bench = bench
        self._token = token
        self._order = order
        self._on_failed = on_failed
        self._topologies: queue.SimpleQueue[Topology | None] = queue.SimpleQueue()
        self._receiver: Receiver | None = None

    def listen(self) -> tuple[str, int]:
        """Be ready to take a state; the address and port where."""
        if self._receiver is not None:
            self._receiver.close()
        reduction = self._bench.reduction
        self._receiver = Receiver(
            self._token,
            self._state,
            reduction.layout,
            self._apply,
            bind=self._order.address,
            # New memory would have to be touched first, for which the donor's training waits.
            buckets=reduction.backward_memory,
            timeout_s=self._order.recovery_timeout_s,
        )
        return self._order.address, self._receiver.port

    def expect(self, topology: Topology) -> None:
        """A topology in which this worker may be new."""
        if self._order.worker in topology.joiners:
            self._topologies.put(topology)

    def cancel(self) -> None:
        """End whatever is being waited for or taken; the training thread gets GroupLost."""
        self._topologies.put(None)
        receiver = self._receiver
        if receiver is not None:
            receiver.cancel()

    def topology(self) -> Topology:
        """Wait until the leader counts this worker in.

        Raises:
            GroupLost: cancelled.
        """
        topology = self._topologies.get()
        if topology is None:
            raise GroupLost("cancelled before this worker was counted in")
        return topology

    def take(self, generation: int, on_caught_up: Callable[[], None] = lambda: None) -> Received:
        """Take a state from the donor that connects: ``Donor`` or ``send_state``.

        Args:
            generation: that this worker needs it for.
            on_caught_up: called when at most one step is missing.

        Raises:
            GroupLost: cancelled, or the donor has gone: it may be known here first that it has
                died. The state may be of no use now.
            TransferError: what was sent makes no sense.
        """
        assert self._receiver is not None
        try:
            return self._receiver.run(on_caught_up, wait_s=self._order.recovery_timeout_s)
        except Cancelled as error:
            raise GroupLost(str(error)) from None
        except TransferError as error:
            # The donor may be alive and nobody else miss anything, so nobody else would say it.
            self._on_failed(generation, str(error))
            if isinstance(error, PeerLost):
                raise GroupLost(str(error)) from None
            raise
        finally:
            self._receiver = None

    def take_broadcast(self, topology: Topology, group: Group) -> Received:
        """Take part in the broadcast with which a generation begins (``transfer=broadcast``)."""
        root = topology.membership.members.index(topology.survivors[0])
        return broadcast_state(group, self._state, root, 0, {})

    def _apply(
        self, step: int, rate_batch: float, samples: int, buckets: Sequence[torch.Tensor]
    ) -> None:
        session = self._bench.session
        session.workload.update(session.optimizer, rate_batch, step, samples)

"""Reception of the state by a worker: a joiner, or a survivor that is behind."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence

import torch

from systems.elastic.transfer.broadcast import broadcast_state
from systems.elastic.transfer.channel import Cancelled, PeerLost, TransferError
from systems.elastic.transfer.receiver import Received, Receiver
from systems.elastic.transfer.training_state import TrainingState
from systems.elastic.wire.messages import Topology
from systems.elastic.wire.order import ElasticOrder
from systems.elastic.worker.setup import WorkerSetup
from systems.runtime.wire.groups import Group, GroupLost


class StateReceiver:
    """Reception of the state by one worker; the membership's thread may expect and cancel."""

    def __init__(
        self,
        state: TrainingState,
        bench: WorkerSetup,
        token: str,
        order: ElasticOrder,
        on_failed: Callable[[int, str], None],
    ) -> None:
        """Prepare to take a state.

        Args:
            state: this worker's state, which is filled.
            bench: what the worker trains with.
            token: token that a donor must show.
            order: the worker's order.
            on_failed: called on the training thread with the generation whose state did not come,
                and the reason. A ``cancel`` does not call it.
        """
        self._state = state
        self._bench = bench
        self._token = token
        self._order = order
        self._on_failed = on_failed
        self._topologies: queue.SimpleQueue[Topology | None] = queue.SimpleQueue()
        self._receiver: Receiver | None = None

    def listen(self) -> tuple[str, int]:
        """Begin to listen for a donor, and return the address and port."""
        if self._receiver is not None:
            self._receiver.close()
        reduction = self._bench.reduction
        self._receiver = Receiver(
            self._token,
            self._state,
            reduction.layout,
            self._apply,
            bind=self._order.address,
            # Not new memory: its pages would be touched first, while the donor's training waits.
            buckets=reduction.backward_memory,
            timeout_s=self._order.recovery_timeout_s,
        )
        return self._order.address, self._receiver.port

    def expect(self, topology: Topology) -> None:
        """Hand over a topology to ``topology``, if this worker joins in it."""
        if self._order.worker in topology.joiners:
            self._topologies.put(topology)

    def cancel(self) -> None:
        """End every wait and transfer; the training thread gets GroupLost."""
        self._topologies.put(None)
        receiver = self._receiver
        if receiver is not None:
            receiver.cancel()

    def topology(self) -> Topology:
        """Wait until the leader counts this worker in, and return the topology.

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
            generation: generation that this worker needs the state for.
            on_caught_up: called when at most one step is missing.

        Raises:
            GroupLost: cancelled, or the donor has gone. This worker may be the first to notice that
                the donor died, and may not need the state any more.
            TransferError: the donor sent something that makes no sense.
        """
        assert self._receiver is not None
        try:
            return self._receiver.run(on_caught_up, wait_s=self._order.recovery_timeout_s)
        except Cancelled as error:
            raise GroupLost(str(error)) from None
        except TransferError as error:
            # The donor may be alive, and no other worker notices this failure: so report it here.
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

"""A replica's part in torchft's quorums. Imports torch and torchft.

torchft's manager asks the lighthouse for a quorum in every step, while the forward pass runs. The
replicas of a quorum share a process group. Those whose state is the newest train. All others take
the state of one that trains during the step, add nothing to its sums, and make its update.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import torch
from torch.distributed import ReduceOp
from torchft import ProcessGroupGloo

from harness.errors import WorkerError
from systems.runtime.wire.groups import GroupLost
from systems.torchft.order import ReplicaOrder
from systems.torchft.own_address import StateTransport, make_manager, open_store


class GroupLostForGoodError(WorkerError):
    """No quorum could be had, so the replica gives up; the text has torchft's reason."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """Replicas that share a step."""

    generation: int
    """Generation of the logs. Each quorum has two: an even one while some replicas take the state,
    and an odd one in which all train."""
    rank: int | None
    """Rank of this replica among those that train; None: it takes the state."""
    num_workers: int
    """Number of replicas that train."""
    members: tuple[int, ...]
    """Numbers of all replicas of the quorum, in rank order."""

    @property
    def is_whole(self) -> bool:
        """True if all its replicas train."""
        return self.num_workers == len(self.members)

    @property
    def is_first(self) -> bool:
        """True if this replica logs the step and reports it."""
        return self.rank == 0


class Waiting(Protocol):
    """Sum under way."""

    def wait(self) -> object:
        """Wait until the sum is complete or has failed."""
        ...


class _Group(ProcessGroupGloo):  # type: ignore[misc]
    """torchft's process group, which remembers the quorum that it was last formed for."""

    def __init__(self, timeout: timedelta) -> None:
        super().__init__(timeout=timeout)
        self.quorum_number = 0
        self.members: tuple[int, ...] = ()

    def configure(
        self,
        store_addr: str,
        replica_id: str,
        rank: int,
        world_size: int,
        quorum_id: int | None = None,
        group_rank: int | None = None,
        group_world_size: int | None = None,
        global_ranks: Sequence[int] | None = None,
    ) -> None:
        """Connect the replicas of a quorum."""
        rest = (quorum_id, group_rank, group_world_size, global_ranks)
        super().configure(store_addr, replica_id, rank, world_size, *rest)
        # The manager derives these from the digits at the end of each replica's name.
        self.members = tuple(global_ranks or ())
        self.quorum_number = quorum_id or 0


class Membership:
    """A replica's manager, with failures as ``GroupLost``. Only the training thread uses it."""

    def __init__(
        self,
        order: ReplicaOrder,
        lighthouse: str,
        give: Callable[[], dict[str, Any]],
        take: Callable[[dict[str, Any]], None],
    ) -> None:
        """Begin to send heartbeats to a lighthouse.

        Args:
            order: order of the replica.
            lighthouse: address of the lighthouse.
            give: returns the state for another replica; called on another thread.
            take: takes the state of another replica; called within ``commit``.
        """
        # A log's last line explains the end of its process, so warnings must not follow each other.
        logging.getLogger("torchft").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", "The given buffer is not writable")
        timeout = timedelta(seconds=order.collective_timeout_s)
        self._base = order.base_generation
        self._drops = order.drop_failed_group
        self._group = _Group(timeout)
        self._store = open_store(order.address)
        self._manager = make_manager(
            order.address,
            pg=self._group,
            load_state_dict=take,
            state_dict=give,
            min_replica_size=order.min_replicas,
            # The quorum is made while the forward pass runs.
            use_async_quorum=True,
            timeout=timeout,
            quorum_timeout=timedelta(seconds=order.quorum_timeout_s),
            rank=0,
            world_size=1,
            store_port=self._store.port,
            lighthouse_addr=lighthouse,
            # Quorums sort replicas by name, so older replicas come first.
            replica_id=f"replica{order.number:06d}",
            heartbeat_interval=timedelta(seconds=order.heartbeat_interval_s),
            checkpoint_transport=StateTransport(order.address, timeout),
            # All replicas of a new job have the same state, that of the job's seed.
            init_sync=False,
        )

    def resume_at(self, step: int) -> None:
        """Set the number of committed steps, before the first quorum."""
        self._manager.load_state_dict({"step": step, "batches_committed": 0})

    def begin(self) -> None:
        """Ask for the quorum of the next step, without a wait.

        Raises:
            GroupLostForGoodError: the last quorum failed.
        """
        try:
            self._manager.start_quorum()
        except Exception as error:
            raise GroupLostForGoodError(f"no quorum: {error}") from error

    def settled(self) -> Quorum:
        """Wait for the quorum of this step and return it.

        Raises:
            GroupLost: its process group could not be formed, or the state did not arrive.
            GroupLostForGoodError: there was no quorum in time.
        """
        try:
            self._manager.wait_quorum()
        except Exception as error:
            raise GroupLostForGoodError(f"no quorum: {error}") from error
        self._check()
        group, trains = self._group, self._manager.is_participating()
        num_workers = self._manager.num_participants()
        is_whole = num_workers == len(group.members)
        return Quorum(
            generation=self._base + 2 * group.quorum_number + is_whole,
            rank=self._manager.participating_rank() if trains else None,
            num_workers=num_workers,
            members=group.members,
        )

    def sum(self, tensor: torch.Tensor) -> Waiting:
        """Begin to sum a tensor over the replicas that train, in place."""
        work: Waiting = self._manager.allreduce(tensor, reduce_op=ReduceOp.SUM)
        return work

    def mean(self, tensor: torch.Tensor) -> Waiting:
        """Begin to average a tensor over the replicas that train, in place."""
        work: Waiting = self._manager.allreduce(tensor)
        return work

    def wait(self, works: Sequence[Waiting]) -> None:
        """Wait for sums.

        Raises:
            GroupLost: this step has failed, so no result of it may be used.
        """
        for work in works:
            work.wait()
        self._check()

    def commit(self) -> bool:
        """End the step and return whether it counts; a replica without state takes it now.

        Raises:
            GroupLostForGoodError: the manager failed.
        """
        try:
            return bool(self._manager.should_commit())
        except (RuntimeError, TimeoutError) as error:
            raise GroupLostForGoodError(f"no answer to should_commit: {error}") from error

    def drop_failed(self) -> None:
        """Close the connections of a group that has failed, so that all other replicas learn of it.

        Nothing may refer to one of its sums any more: each keeps the connections open.
        """
        failed = self._manager.errored()
        if not self._drops or failed is None:
            return
        failed.original_exception.__traceback__ = None  # its frames refer to the sums
        self._group.abort()

    def leave(self) -> None:
        """Send no more heartbeats. The others' connections to this process stay."""
        self._manager.shutdown(wait=False)

    def _check(self) -> None:
        if (failed := self._manager.errored()) is not None:
            raise GroupLost(str(failed.original_exception))

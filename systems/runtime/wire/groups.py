"""Process groups that can be given up from another thread.

A group belongs to one *generation*: a number that grows whenever a job's members change. Its
operations are gloo's, and gloo cannot cancel an operation. If a peer is killed, some members
notice at once and others only after a time-out; if a peer is stopped, all wait for the time-out.

So no thread waits for gloo itself. Gloo's threads wake the waiting thread when an operation ends,
and ``give_up`` ends all waits at once. Operations that hang are left behind and freed later.

If each member has a CUDA device, its tensors can be summed over NCCL (``device_group``).
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from harness.errors import WorkerError
from systems.runtime.wire.device_group import DeviceGroup, meet_on_devices
from systems.runtime.wire.name_lookups import no_name_lookups

COLLECTIVE_TIMEOUT_S = 1800.0


class GroupLost(WorkerError):  # noqa: N818  the event has this name everywhere
    """Loss of a group: it was given up, or an operation failed. The group is unusable then."""


class Pending:
    """Operation under way. Its tensor must not be used until ``wait`` has returned."""

    __slots__ = ("_group", "_has_ended", "_is_on_device", "_is_over", "_is_watched", "_work")

    def __init__(self, group: Group, tensor: torch.Tensor) -> None:
        self._group = group
        self._is_on_device = tensor.device.type != "cpu"
        self._work: dist.Work | None = None
        """Gloo's operation; None before its begin, after its end, and over NCCL."""
        self._is_over = False
        self._has_ended = False
        """True once the end of the operation was seen, as a success or a failure."""
        self._is_watched = False
        """True if a callback will report the end of the operation."""

    @property
    def is_over(self) -> bool:
        """Return whether the operation has ended well, as far as its end was seen."""
        return self._is_over

    def wait(self) -> None:
        """Wait for the end of the operation.

        Raises:
            GroupLost: the group was given up or lost before that. The tensor's content is
                undefined, and gloo may still write to it (``Group.is_quiet``).
        """
        if not self._is_over:
            self._group._await(self)
        if self._work is not None:
            self._work.wait()  # it is over; this makes the thread's CUDA stream wait
            self._work = None


class Group:
    """One member's view of a generation's process group.

    All members must begin the same operations in the same order. Many can be under way at
    the same time.
    """

    def __init__(
        self,
        generation: int,
        rank: int,
        size: int,
        process_group: dist.ProcessGroup | None,
        collective_timeout_s: float = COLLECTIVE_TIMEOUT_S,
        device_group: DeviceGroup | None = None,
    ) -> None:
        """Make a group; callers use ``build_group`` or ``meet`` instead.

        ``process_group`` is None if ``size`` is 1. Tensors on a device go through
        ``device_group``, if there is one.
        """
        self.generation = generation
        self.rank = rank
        self.size = size
        self._process_group = process_group
        self._device_group = device_group
        self._timeout = timedelta(seconds=collective_timeout_s)
        self._adding = dist.AllreduceOptions()  # its default operation is the sum
        self._adding.timeout = self._timeout
        self._condition = threading.Condition()
        self._running: dict[Pending, None] = {}
        """Operations that were begun and whose end was not seen yet, in that order."""
        self._watches_all = False
        self._lost: str | None = None
        self._is_dropped = False

    @property
    def is_quiet(self) -> bool:
        """Return whether no operation can touch a tensor, until another one is begun."""
        with self._condition:
            return all(map(_can_do_no_more, self._running))

    def wait_until_quiet(self, timeout_s: float) -> bool:
        """Wait until ``is_quiet``, and return whether it is.

        The deaths of all lost peers make a group quiet.
        """
        with self._condition:
            self._watch_all()
            return self._condition.wait_for(lambda: not self._running, timeout_s)

    def check(self) -> None:
        """Raise GroupLost if the group was given up or lost."""
        if self._lost is not None:
            raise GroupLost(f"the group of generation {self.generation} {self._lost}")

    def all_reduce(self, tensor: torch.Tensor) -> Pending:
        """Begin to sum the members' tensors, in place.

        Args:
            tensor: a tensor with the same shape and type on all members.

        Raises:
            GroupLost: the group was given up, lost or dropped.
        """
        options = self._adding
        return self._begin(tensor, lambda group: group.allreduce([tensor], options))

    def broadcast(self, tensor: torch.Tensor, root: int) -> Pending:
        """Begin to copy the tensor of rank ``root`` to all members; see ``all_reduce``."""
        options = dist.BroadcastOptions()
        options.rootRank = root
        options.rootTensor = 0
        options.timeout = self._timeout
        return self._begin(tensor, lambda group: group.broadcast([tensor], options))

    def give_up(self) -> None:
        """End all present and later waits at once with GroupLost, in all threads.

        It may be called from any thread, any number of times. It also frees the group as ``drop``
        does, so that members which still hang in an operation with this one notice it.
        """
        self._lose("was given up")

    def drop(self) -> None:
        """Free the group in the background once its operations under way have ended.

        From now on no operation can be begun. Freeing takes 20 to 50 ms.
        """
        with self._condition:
            self._is_dropped = True
            self._watch_all()
            self._free_if_idle()

    def _begin(self, tensor: torch.Tensor, start: Callable[[Any], dist.Work]) -> Pending:
        pending = Pending(self, tensor)
        with self._condition:
            self.check()
            if self._is_dropped:
                raise GroupLost(f"the group of generation {self.generation} was dropped")
            group = self._process_group
            devices = self._device_group if pending._is_on_device else None
            if group is not None:
                self._running[pending] = None
        if group is None:
            pending._is_over = True
            return pending
        try:
            if devices is not None:
                devices.begin(start, lambda failure: self._over(pending, failure))
                return pending
            pending._work = start(group)
        except BaseException:
            self._ended(pending, well=False)
            raise
        if self._watches_all:
            self._watch(pending)
        return pending

    def _await(self, pending: Pending) -> None:
        """Wait for the end of an operation. Raises GroupLost."""
        work = pending._work
        if work is not None and work.is_completed():
            self._over(pending, _failure_of(work))
        with self._condition:
            if not pending._has_ended:
                # The failure of any operation must wake this thread.
                for running in list(self._running):
                    self._watch(running)
            while not pending._is_over:
                self.check()
                self._condition.wait()

    def _watch_all(self) -> None:
        """Watch the end of every operation, also of later ones. The caller holds the lock."""
        self._watches_all = True
        for running in list(self._running):
            self._watch(running)

    def _watch(self, pending: Pending) -> None:
        """Have gloo's own thread report the end of an operation.

        That takes the interpreter from the training thread for a moment. So an operation that is
        over when it is waited for is not watched.
        """
        work = pending._work
        if work is None:
            return
        with self._condition:
            if pending._is_watched:
                return
            pending._is_watched = True
        work.get_future().add_done_callback(lambda future: self._over(pending, _failure_of(future)))

    def _over(self, pending: Pending, failure: str | None) -> None:
        """Record the end of an operation; two threads may call this for the same one."""
        if self._ended(pending, well=failure is None) and failure is not None:
            self._lose(f"lost an operation: {failure}")

    def _ended(self, pending: Pending, *, well: bool) -> bool:
        """Record the end of an operation. Return False if it was recorded before."""
        with self._condition:
            if pending._has_ended:
                return False
            pending._has_ended = True
            pending._is_over = well
            if not (well and pending._is_on_device):
                pending._work = None  # else its connections would outlive the group
            del self._running[pending]
            self._condition.notify_all()
            self._free_if_idle()
            return True

    def _lose(self, how: str) -> None:
        with self._condition:
            if self._lost is None:
                self._lost = how
                if self._device_group is not None:
                    abort = self._device_group.abort
                    threading.Thread(target=abort, name="abort group", daemon=True).start()
            self._condition.notify_all()
            self._is_dropped = True
            self._watch_all()
            self._free_if_idle()

    def _free_if_idle(self) -> None:
        """Free a dropped group once it has no operation left. The caller holds the lock.

        It is freed on a new thread: on one of gloo's own threads, gloo would wait for itself.
        """
        if self._is_dropped and not self._running and self._process_group is not None:
            held, devices = [self._process_group], self._device_group
            self._process_group = self._device_group = None

            def free() -> None:
                held.clear()
                if devices is not None:
                    devices.free()

            # ``Thread.start`` would wait for the new thread: a tenth of a millisecond a switch.
            _thread.start_new_thread(free, ())


def _failure_of(ended: dist.Work | torch.futures.Future[list[torch.Tensor]]) -> str | None:
    """Return why an operation that has ended failed, or None if it did not."""
    try:
        ended.wait()
    except Exception as error:  # gloo raises no narrower type; no other code would see it
        return str(error)
    return None


def _can_do_no_more(pending: Pending) -> bool:
    return pending._work is not None and pending._work.is_completed()


def build_group(
    address: str,
    port: int,
    generation: int,
    rank: int,
    size: int,
    timeout_s: float,
    collective_timeout_s: float = COLLECTIVE_TIMEOUT_S,
) -> Group:
    """Build a group as ``meet`` does, with a store client of its own.

    Args:
        address: address where the job's store listens.
        port: port where it listens.
        generation: a number that was never used before for these members.
        rank: rank of this process among the members.
        size: number of members; a single member needs no store and no sockets.
        timeout_s: longest time to wait for the other members.
        collective_timeout_s: longest time of an operation, as a safety net only.

    Raises:
        RuntimeError: the store or a member could not be reached in time.
    """
    if size == 1:
        return Group(generation, rank, size, None)
    store = connect(address, port, timeout_s)
    return meet(store, generation, rank, size, timeout_s, collective_timeout_s)


def connect(address: str, port: int, timeout_s: float) -> TCPStore:
    """Return a new client of the store at an address, for one group alone.

    Two threads that use the same client at once can deadlock.

    Raises:
        RuntimeError: it could not be reached in time.
    """
    with no_name_lookups(address):
        return TCPStore(address, port, timeout=timedelta(seconds=timeout_s), wait_for_workers=False)


def meet(
    store: TCPStore,
    generation: int,
    rank: int,
    size: int,
    timeout_s: float,
    collective_timeout_s: float = COLLECTIVE_TIMEOUT_S,
    *,
    on_devices: bool = False,
) -> Group:
    """Connect to all other members and wait for them; another group may work meanwhile.

    The connections use the interface that ``GLOO_SOCKET_IFNAME`` names. Gloo copies
    CUDA tensors through the host's memory, which also works for several members on one device.

    Args:
        store: a client that is used here only.
        generation: as for ``build_group``, like the others.
        on_devices: connect the members' devices as well, over NCCL. It is unverified that NCCL's
            sums depend only on members and sizes; otherwise results would not be the same bits.

    Raises:
        RuntimeError: a member could not be reached in time, or the store has died.
    """
    timeout = timedelta(seconds=timeout_s)
    store.set_timeout(timeout)
    keys = dist.PrefixStore(  # type: ignore[attr-defined]
        f"generation/{generation}", store
    )
    process_group = cast(dist.ProcessGroup, dist.ProcessGroupGloo(keys, rank, size, timeout))
    device_group = None
    if on_devices:
        device_keys = dist.PrefixStore("devices", keys)  # type: ignore[attr-defined]
        device_group = meet_on_devices(device_keys, rank, size, timeout)
    return Group(generation, rank, size, process_group, collective_timeout_s, device_group)

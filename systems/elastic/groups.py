"""Process groups that can be given up from another thread.

A group belongs to one *generation*: a number that grows whenever a job's members change. Its
operations are gloo's. Gloo cannot cancel one: where a peer was killed, some members hear of it
at once and others not before a time-out, and where a peer is stopped nobody does. So nothing
here waits for gloo itself. Gloo's threads tell whoever waits when an operation has ended, and
``give_up`` says the same of all operations at once; whatever hung is left behind and freed later.

Members that have a CUDA device each can have its tensors added up over NCCL (``device_group``).
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

from systems.elastic.device_group import DeviceGroup, meet_on_devices
from systems.runtime.name_lookups import no_name_lookups

COLLECTIVE_TIMEOUT_S = 1800.0


class GroupLost(Exception):  # noqa: N818  the event has this name everywhere
    """A group was given up, or one of its operations failed; it can do nothing any more."""


class Pending:
    """An operation under way. Its tensor must be left alone until ``wait`` has returned."""

    __slots__ = ("_group", "_has_ended", "_is_on_device", "_is_over", "_is_watched", "_work")

    def __init__(self, group: Group, tensor: torch.Tensor) -> None:
        self._group = group
        self._is_on_device = tensor.device.type != "cpu"
        self._work: dist.Work | None = None
        """None: it is not begun yet, or over, or none of gloo's."""
        self._is_over = False
        self._has_ended = False
        """Well or not, and somebody has seen it."""
        self._is_watched = False
        """Whether it tells by itself when it has ended."""

    @property
    def is_over(self) -> bool:
        """Whether the operation has ended well, once somebody has waited for it."""
        return self._is_over

    def wait(self) -> None:
        """Wait for the end of the operation.

        Raises:
            GroupLost: the group was given up or lost before that. The tensor may hold
                anything, and what was left behind may still write to it (``is_quiet``).
        """
        if not self._is_over:
            self._group._await(self)
        if self._work is not None:
            self._work.wait()  # over already; makes this thread's CUDA stream wait
            self._work = None


class Group:
    """The members of one generation, as one of them sees them.

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
        """Use ``build_group``. ``process_group`` is None where ``size`` is 1; tensors that are
        not in the host's memory go through ``device_group``, if there is one."""
        self.generation = generation
        self.rank = rank
        self.size = size
        self._process_group = process_group
        self._device_group = device_group
        self._timeout = timedelta(seconds=collective_timeout_s)
        self._adding = dist.AllreduceOptions()  # adds, if nothing else is said
        self._adding.timeout = self._timeout
        self._condition = threading.Condition()
        self._running: dict[Pending, None] = {}
        """Begun, and nobody has seen their end."""
        self._watches_all = False
        self._lost: str | None = None
        self._is_dropped = False

    @property
    def is_lost(self) -> bool:
        """Whether it was given up or an operation failed."""
        return self._lost is not None

    @property
    def is_quiet(self) -> bool:
        """Whether no operation can touch a tensor any more, or not before the next begins."""
        with self._condition:
            return all(map(_can_do_no_more, self._running))

    def wait_until_quiet(self, timeout_s: float) -> bool:
        """Wait until ``is_quiet``, which the death of all lost peers brings about."""
        with self._condition:
            self._watch_all()
            return self._condition.wait_for(lambda: not self._running, timeout_s)

    def check(self) -> None:
        """Raises GroupLost if the group was given up, lost or dropped."""
        if self._lost is not None:
            raise GroupLost(f"the group of generation {self.generation} {self._lost}")

    def all_reduce(self, tensor: torch.Tensor) -> Pending:
        """Begin to add the members' tensors up, in place.

        Args:
            tensor: of the same shape and type on all members.

        Raises:
            GroupLost: the group was given up, lost or dropped.
        """
        options = self._adding
        return self._begin(tensor, lambda group: group.allreduce([tensor], options))

    def broadcast(self, tensor: torch.Tensor, root: int) -> Pending:
        """Begin to copy the tensor of the rank ``root`` to all others; as ``all_reduce``."""
        options = dist.BroadcastOptions()
        options.rootRank = root
        options.rootTensor = 0
        options.timeout = self._timeout
        return self._begin(tensor, lambda group: group.broadcast([tensor], options))

    def give_up(self) -> None:
        """End everything at once with GroupLost, for all threads, now and later.

        From any thread, any number of times. Also frees the group as ``drop`` does, so that
        members which still hang in an operation with this one hear of it.
        """
        self._lose("was given up")

    def drop(self) -> None:
        """Free the group in the background once what is under way has ended.

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
                # Any that fails is news now.
                for running in list(self._running):
                    self._watch(running)
            while not pending._is_over:
                self.check()
                self._condition.wait()

    def _watch_all(self) -> None:
        """With the lock held: have the end of every operation seen, also of those to come."""
        self._watches_all = True
        for running in list(self._running):
            self._watch(running)

    def _watch(self, pending: Pending) -> None:
        """Have an operation's end seen, by gloo's own thread. That costs this thread the
        interpreter for a moment, so who finds it over anyway does without."""
        work = pending._work
        if work is None:
            return
        with self._condition:
            if pending._is_watched:
                return
            pending._is_watched = True
        work.get_future().add_done_callback(lambda future: self._over(pending, _failure_of(future)))

    def _over(self, pending: Pending, failure: str | None) -> None:
        """An operation has ended; on the thread that saw it, and there may be two."""
        if self._ended(pending, well=failure is None) and failure is not None:
            self._lose(f"lost an operation: {failure}")

    def _ended(self, pending: Pending, *, well: bool) -> bool:
        """An operation is over. False: that was seen before."""
        with self._condition:
            if pending._has_ended:
                return False
            pending._has_ended = True
            pending._is_over = well
            if not (well and pending._is_on_device):
                pending._work = None  # it holds the connections, which are to end with the group
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
        """With the lock held. Never on a thread of gloo's own, which would wait for itself."""
        if self._is_dropped and not self._running and self._process_group is not None:
            held, devices = [self._process_group], self._device_group
            self._process_group = self._device_group = None

            def free() -> None:
                held.clear()
                if devices is not None:
                    devices.free()

            # A ``Thread`` waits until it runs, which costs a switch a tenth of a millisecond.
            _thread.start_new_thread(free, ())


def _failure_of(ended: dist.Work | torch.futures.Future[list[torch.Tensor]]) -> str | None:
    """Of an operation that has ended."""
    try:
        ended.wait()
    except Exception as error:  # gloo raises nothing narrower; nobody else would see it
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
    """As ``meet``, with a client of the store of its own.

    Args:
        address: where the job's store listens, with ``port``.
        generation: never used before for these members.
        rank: of this process among the members.
        size: number of members; one alone needs no store and no sockets.
        timeout_s: longest time to wait for the others.
        collective_timeout_s: after that long an operation fails; a safety net only.

    Raises:
        RuntimeError: the store or a member could not be reached in time.
    """
    if size == 1:
        return Group(generation, rank, size, None)
    store = connect(address, port, timeout_s)
    return meet(store, generation, rank, size, timeout_s, collective_timeout_s)


def connect(address: str, port: int, timeout_s: float) -> TCPStore:
    """A client of the store that listens there, for one group: a client in use by two threads
    at once can deadlock both.

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
    """Meet the other members and connect to each. Blocks; may run beside another group's work.

    The connections use the interface that ``GLOO_SOCKET_IFNAME`` names. CUDA tensors gloo copies
    through the memory of the host, which also works for several members on one device.

    Args:
        store: a client that nobody else uses.
        generation: as for ``build_group``, like the others.
        on_devices: connect the members' devices as well, over NCCL. Whether its sums depend on
            anything but the members and the sizes, which would cost the same bits, is unverified.

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

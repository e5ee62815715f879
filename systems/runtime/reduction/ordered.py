"""Reduction of the gradients of a job's workers to their mean.

``OrderedReduction`` gives the same bits for the same workers and shares, whatever happened to the
job before. Its process group can be exchanged between two steps, and may be lost during one.
"""

# Annotations are not postponed, since DistributedDataParallel reads those of its hook.
import random
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from systems.runtime.reduction.refused_modules import check_modules, refusing_sparse_gradients
from systems.runtime.reduction.unused_parameters import check_all_used
from systems.runtime.tensors.flat_buffers import FlatBuffers
from systems.runtime.tensors.state import parameters_of
from systems.runtime.wire.groups import Group, GroupLost, Pending


class Reduction(Protocol):
    """Interface between a trainer and a reduction."""

    parallel: torch.nn.Module
    """Model wrapped for its workers; run forward passes through it."""

    @property
    def layout_in_use(self) -> Sequence[Sequence[int]]:
        """Parameters of each bucket in this step, as indices in the order of the optimizer's
        groups; empty if not known."""
        ...

    @property
    def kept_layout(self) -> Sequence[Sequence[str]]:
        """Names of the parameters of each bucket, in all steps but a job's first.

        The value is empty before the buckets are laid out, and if the bits of a resumed job do not
        depend on them.
        """
        ...

    def needs_warm_up(self, step: int) -> bool:
        """Return whether ``warm_up`` must run before this process's first step, which follows
        ``step``."""
        ...

    def warm_up(self, make_loss: Callable[[], torch.Tensor]) -> None:
        """Run passes of a loss computed through ``parallel`` and discard their results.

        DistributedDataParallel sorts parameters into new buckets after its first backward pass, by
        the order in which gradients came. With more than two workers the sums' last bits depend on
        the buckets.
        """
        ...

    def begin(self) -> None:
        """Start the broadcast of the first worker's buffers, after the forward pass."""
        ...

    def finish(self) -> None:
        """Make gradients the workers' mean and buffers the first worker's, after the backward pass.

        Raises:
            GroupLost: the process group failed; the state is again that before the forward pass.
        """
        ...

    def undo(self) -> None:
        """Restore the buffers to their state before the step, unless it was committed."""
        ...

    def commit(self) -> None:
        """Commit the step: it cannot be undone any more."""
        ...


@dataclass(frozen=True, slots=True)
class BucketLayout:
    """Parameters whose gradients share one bucket, in the order of their memory."""

    parameters: tuple[int, ...]
    """Indices in the order of the optimizer's groups."""
    numel: int
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Places:
    """Location of each gradient of a bucket within its memory."""

    parameters: tuple[torch.nn.Parameter, ...]
    sizes: tuple[torch.Size, ...]
    strides: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]

    def views(self, memory: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return views of the gradients in the memory of a bucket."""
        begin = memory.storage_offset()
        return tuple(
            memory.as_strided(size, stride, begin + offset)
            for size, stride, offset in zip(self.sizes, self.strides, self.offsets, strict=True)
        )


class OrderedReduction:
    """Buckets of DistributedDataParallel (DDP), all-reduced by a process group that can be
    exchanged.

    DDP's reducer sees a process group of one process and fills the buckets. Each full bucket is
    multiplied by 1/N into separate memory and all-reduced there, overlapped with the backward pass.
    ``finish`` makes the sums the parameters' gradients. So the reducer never waits for another
    worker, and stays intact if the process group is lost.

    The number of passes over memory is that of stock DDP. The bits are those of stock DDP after it
    has rebuilt its buckets, which it does after the first step; here ``warm_up`` does that first.

    All workers have the first worker's buffers from the end of a step on. Stock DDP copies them at
    the beginning of the next step.
    """

    parallel: torch.nn.Module

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
    ) -> None:
        """Wrap the model, which must be on its device.

        The model's buffers move to new memory, so take references to them only afterwards. The
        default process group must consist of this process alone (``join_alone``).

        Raises:
            RefusedModuleError: the model has modules that could not be trained to the same result.
        """
        check_modules(model)
        self.buffers = FlatBuffers(model)
        self._boundary = torch.empty_like(self.buffers.flat)
        # Buffers travel in memory of their own: an operation of a lost group may still write to it.
        self._travelling = torch.empty_like(self.buffers.flat)
        self._is_undoable = False
        self._model = model
        self._device = device
        known = parameters_of(optimizer)
        ids = {id(parameter) for parameter in known}
        known += [parameter for parameter in model.parameters() if id(parameter) not in ids]
        self._index = {id(parameter): index for index, parameter in enumerate(known)}
        parallel = DistributedDataParallel(
            model,
            device_ids=[0] if device.type == "cuda" else None,
            gradient_as_bucket_view=True,
            init_sync=False,
        )
        parallel.broadcast_buffers = False  # the argument's name differs between versions
        # A weak reference: C++ would hold a strong one in a cycle that is invisible to the garbage
        # collector. An unused reduction would then keep its memory.
        parallel.register_comm_hook(weakref.ref(self), _on_bucket_full)
        parallel.register_forward_pre_hook(self._before_forward)
        self.parallel = parallel
        self.layout: tuple[BucketLayout, ...] = ()
        self._kept_layout: Sequence[Sequence[str]] = ()
        self.weight = 1.0
        """Weight of this process's gradients in the mean, for a loss that was not multiplied by
        it."""
        self._memory = threading.Lock()
        """Lock for the memory of the sums, which several threads may replace."""
        self._group: Group | None = None
        self._is_warming_up = False
        self.first_layout: tuple[BucketLayout, ...] = ()
        """Layout of the first step that stock DistributedDataParallel makes."""
        self.first_places: list[Places] = []
        self._places: list[Places] = []
        self._own: list[torch.Tensor] = []
        self._sums: list[torch.Tensor] | None = None
        self._sum_views: list[tuple[torch.Tensor, ...]] = []
        self._buffers_pending: Pending | None = None
        self._pending: list[Pending] = []
        self._lost: GroupLost | None = None
        self._after_backward: Callable[[], None] | None = None

    @property
    def layout_in_use(self) -> Sequence[Sequence[int]]:
        """See ``Reduction``."""
        return [bucket.parameters for bucket in self.layout]

    @property
    def kept_layout(self) -> Sequence[Sequence[str]]:
        """See ``Reduction``."""
        return self._kept_layout

    @property
    def buckets(self) -> list[torch.Tensor]:
        """Reduced gradients of the last step, one flat tensor for each bucket; not copies."""
        return self._own if self._is_alone or self._sums is None else self._sums

    @property
    def backward_memory(self) -> list[torch.Tensor]:
        """Memory that backward passes fill, one flat tensor for each bucket of ``layout``.

        A process that takes its state from another does not need the contents until then.
        """
        return self._own

    @property
    def _is_alone(self) -> bool:
        return self._group is None or self._group.size == 1

    def needs_warm_up(self, step: int) -> bool:
        """Return whether ``warm_up`` has not run yet."""
        return not self.layout

    def attach(self, group: Group | None) -> None:
        """Use this process group from the next step on; None if this process is alone. Call it
        between steps."""
        # First, with the old group, which knows whether abandoned operations may still write.
        self.undo()
        self._group = group

    def reserve(self) -> None:
        """Allocate the memory for sums and touch its pages, so that the first step need not.

        Any thread may call it, between the ``attach`` of a group of one and that of a larger group.
        """
        with self._memory:
            if self._sums is None:
                sums = [torch.zeros_like(own) for own in self._own]
                self._sum_views = [
                    places.views(memory) for places, memory in zip(self._places, sums, strict=True)
                ]
                # Last: ``buckets`` reads it without the lock.
                self._sums = sums

    def warm_up(self, make_loss: Callable[[], torch.Tensor], rounds: int = 2) -> None:
        """Run forward and backward passes that fix the layout of the buckets; discard their
        results.

        Buffers and random states are restored. Nothing is sent.

        Args:
            make_loss: returns a loss computed through ``parallel``, of any samples.
            rounds: at least 2, since DDP uses the layout that follows from the first pass only in
                the second; 1 is enough if the layout is known.

        Raises:
            ValueError: ``rounds`` is too small.
            UnusedParameterError: a parameter has no part in the loss.
            RefusedModuleError: a parameter's gradient is sparse.
        """
        if rounds < (1 if self.layout else 2):
            raise ValueError(f"rounds is {rounds}; buckets are laid out in the second")
        states = _random_states(self._device)
        self._is_warming_up = True
        for number in range(rounds):
            self._places, self._own, self.layout = [], [], ()
            with refusing_sparse_gradients(self._model):
                torch.autograd.backward(make_loss())
            check_all_used(self._model)
            for parameter in self._model.parameters():
                parameter.grad = None
            self.undo()
            if number == 0 and not self.first_layout:
                self.first_layout, self.first_places = self.layout, self._places
        self._is_warming_up = False
        names = {self._index[id(value)]: name for name, value in self._model.named_parameters()}
        self._kept_layout = [[names[index] for index in one.parameters] for one in self.layout]
        # The old memory has the old layout; ``reserve`` allocates it again.
        self._sums = None
        _restore_random_states(states, self._device)

    def begin(self) -> None:
        """Start the broadcast of the first worker's buffers, after the forward pass."""
        group = self._group
        if group is None or group.size == 1 or not self._travelling.numel():
            return
        flat = self.buffers.gather()
        if group.rank == 0:
            self._travelling.copy_(flat)
        try:
            self._buffers_pending = group.broadcast(self._travelling, 0)
        except GroupLost as error:
            self._lost = error

    def call_after_backward(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when the next backward pass has filled every bucket, before it
        returns.

        The callback is not called if a parameter has no part in the loss.
        """
        self._after_backward = callback

    def take_gradients(self) -> None:
        """Copy gradients that were replaced since ``finish`` into their buckets' memory.

        A worker that sends its state to a new one sends them from there.
        """
        for places, memory in zip(self._places, self.buckets, strict=True):
            start, width = memory.data_ptr(), memory.element_size()
            for index, parameter in enumerate(places.parameters):
                gradient = parameter.grad
                if gradient is None or gradient.data_ptr() == start + width * places.offsets[index]:
                    continue
                view = places.views(memory)[index]
                view.copy_(gradient)
                parameter.grad = view

    def finish(self) -> None:
        """Make gradients the workers' mean and buffers the first worker's, after the backward pass.

        Raises:
            GroupLost: the process group failed; the state is again that before the forward pass.
        """
        if self._group is None or self._group.size == 1:
            return
        # All waits come before any change: a group that is lost here leaves the state as it was.
        try:
            if self._lost is not None:
                raise self._lost
            if self._buffers_pending is not None:
                self._buffers_pending.wait()
            for pending in self._pending:
                pending.wait()
        except GroupLost:
            self.undo()
            raise
        if self._buffers_pending is not None and self._group.rank > 0:
            self.buffers.gather().copy_(self._travelling)
        self._buffers_pending = None
        self._pending.clear()
        for places, views in zip(self._places, self._sum_views, strict=True):
            _assign(places.parameters, views)

    def undo(self) -> None:
        """Restore the buffers to their state before the step, unless it was committed."""
        if self._is_undoable:
            self.buffers.gather().copy_(self._boundary)
            self._is_undoable = False
        self._lost = None
        if self._group is not None and not self._group.is_quiet:
            # Abandoned operations may still write to the old memory, so it must not be used again.
            self._travelling = torch.empty_like(self._travelling)
            with self._memory:
                self._sums = None
        self._buffers_pending = None
        self._pending.clear()

    def restore_buffers(self) -> None:
        """Restore the buffers to their state before the last step, which was undone.

        Call it only before the next forward pass, which saves the buffers of its own step.
        """
        self.buffers.gather().copy_(self._boundary)

    def commit(self) -> None:
        """Commit the step: it cannot be undone any more."""
        self._is_undoable = False

    def _before_forward(self, module: torch.nn.Module, inputs: object) -> None:
        # Only the first forward pass of a step: a step may have several, and the later ones find
        # buffers that the first has changed.
        if not self._is_undoable:
            self._boundary.copy_(self.buffers.gather())
            self._is_undoable = True

    def _reduce(self, bucket: dist.GradBucket) -> None:  # type: ignore[name-defined]
        """Start the all-reduce of a full bucket. Called by the backward pass on its thread, in the
        order of indices."""
        index, memory = bucket.index(), bucket.buffer()
        if self._is_warming_up:
            self._learn(bucket)
            return
        if self._after_backward is not None and index == len(self._places) - 1:
            callback, self._after_backward = self._after_backward, None
            # Queue the callback twice: the reducer queues its own end of the pass after the first
            # one and needs the gradients as it has left them. The second is queued while the queue
            # is emptied, so it runs after the reducer's.
            _at_end_of_backward(lambda: _at_end_of_backward(callback))
        group = self._group
        if group is None or group.size == 1 or self._lost is not None:
            return
        self.reserve()
        assert self._sums is not None
        total = self._sums[index]
        # Scaled before the sum, as stock DDP does: a division of the sum would give other bits. In
        # other memory, so that the reducer's own stays intact if the group is lost.
        torch.mul(memory, self.weight / group.size, out=total)
        try:
            self._pending.append(group.all_reduce(total))
        except GroupLost as error:
            self._lost = error

    def _learn(self, bucket: dist.GradBucket) -> None:  # type: ignore[name-defined]
        memory = bucket.buffer()
        assert bucket.index() == len(self._places)
        parameters, gradients = bucket.parameters(), bucket.gradients()
        self._own.append(memory)
        self._places.append(
            Places(
                tuple(cast(list[torch.nn.Parameter], parameters)),
                tuple(gradient.size() for gradient in gradients),
                tuple(gradient.stride() for gradient in gradients),
                tuple(
                    gradient.storage_offset() - memory.storage_offset() for gradient in gradients
                ),
            )
        )
        indices = tuple(self._index[id(parameter)] for parameter in parameters)
        self.layout += (BucketLayout(indices, memory.numel(), memory.dtype),)


def _at_end_of_backward(callback: Callable[[], None]) -> None:
    """Call on the thread of the current backward pass, once all gradients are computed."""
    torch.autograd.Variable._execution_engine.queue_callback(callback)


def _on_bucket_full(
    state: weakref.ref[OrderedReduction],
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[torch.Tensor]:
    reduction = state()
    assert reduction is not None, "the caller of the backward pass holds it"
    reduction._reduce(bucket)
    # Done at once: the reducer must never wait for another worker. ``finish`` does.
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def _assign(parameters: Sequence[torch.nn.Parameter], gradients: Sequence[torch.Tensor]) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient


def _random_states(device: torch.device) -> tuple[object, ...]:
    on_device = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    return torch.get_rng_state(), on_device, np.random.get_state(), random.getstate()


def _restore_random_states(states: tuple[object, ...], device: torch.device) -> None:
    on_cpu, on_device, of_numpy, of_python = states
    torch.set_rng_state(cast(torch.Tensor, on_cpu))
    if on_device is not None:
        torch.cuda.set_rng_state(cast(torch.Tensor, on_device), device)
    np.random.set_state(cast(dict[str, object], of_numpy))
    random.setstate(cast(tuple[object, ...], of_python))


def join_alone() -> None:
    """Make this process the whole default process group, as ``OrderedReduction`` requires."""
    if not dist.is_initialized():
        store = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)

"""How the gradients of a job's workers become their mean.

``OrderedReduction`` gives the same bits for the same workers and shares whatever happened to the
job before, and its group can be exchanged between two steps, or lost in the middle of one.
"""

# No postponed annotations: DistributedDataParallel reads those of its hook.
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

from systems.elastic.groups import Group, GroupLost, Pending
from systems.runtime.flat_buffers import FlatBuffers
from systems.runtime.refused_modules import check_modules, refusing_sparse_gradients
from systems.runtime.state import parameters_of
from systems.runtime.unused_parameters import check_all_used


class Reduction(Protocol):
    """What a trainer needs to know of a reduction."""

    parallel: torch.nn.Module
    """The model as its workers share it: call this one."""

    @property
    def layout_in_use(self) -> Sequence[Sequence[int]]:
        """Parameters of each bucket in this step, in the order of the optimizer's groups; empty
        where that is not known."""
        ...

    @property
    def kept_layout(self) -> Sequence[Sequence[str]]:
        """Names of the parameters of each bucket, in all steps but a job's first; empty where they
        are not laid out yet, and where the bits of a job that goes on do not depend on them."""
        ...

    def needs_warm_up(self, step: int) -> bool:
        """Whether ``warm_up`` must come before the first step here, which is after ``step``."""
        ...

    def warm_up(self, make_loss: Callable[[], torch.Tensor]) -> None:
        """Passes that are forgotten, of a loss computed through ``parallel``.

        DistributedDataParallel sorts parameters into buckets anew after its first backward
        pass, by the order in which gradients came, and above two workers the sums' last bits
        depend on the buckets.
        """
        ...

    def begin(self) -> None:
        """After the forward pass: the first worker's buffers are on their way."""
        ...

    def finish(self) -> None:
        """After the backward pass: gradients are the workers' mean, buffers the first one's.

        Raises:
            GroupLost: the state is that from before the forward pass.
        """
        ...

    def undo(self) -> None:
        """Take back what the step did to the buffers, unless it was committed."""
        ...

    def commit(self) -> None:
        """The step counts; it cannot be undone any more."""
        ...


@dataclass(frozen=True, slots=True)
class BucketLayout:
    """Whose gradients follow each other in the memory of one bucket."""

    parameters: tuple[int, ...]
    """Indices in the order of the optimizer's groups."""
    numel: int
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Places:
    """Where the gradients of a bucket lie in its memory."""

    parameters: tuple[torch.nn.Parameter, ...]
    sizes: tuple[torch.Size, ...]
    strides: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]

    def views(self, memory: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The gradients in the memory of a bucket."""
        begin = memory.storage_offset()
        return tuple(
            memory.as_strided(size, stride, begin + offset)
            for size, stride, offset in zip(self.sizes, self.strides, self.offsets, strict=True)
        )


class OrderedReduction:
    """The buckets of DistributedDataParallel, summed by a group of ours.

    Its reducer sees a group of one process and fills the buckets. Each full bucket is
    multiplied by 1/N into memory of our own and summed there, overlapped with the backward
    pass; ``finish`` makes the sums the parameters' gradients. So the reducer never waits for
    anybody, and is in order whatever becomes of the group. The passes over memory are as many
    as those of stock DistributedDataParallel, and the bits are the same once that has laid its
    buckets out anew, which it does after the first step; here ``warm_up`` has done that before.

    The first worker's buffers are everybody's from the end of a step on; stock
    DistributedDataParallel does the same at the beginning of the next.
    """

    parallel: torch.nn.Module

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
    ) -> None:
        """Args: the model, on its device, and its optimizer.

        The model's buffers move: whoever wants to hold on to them asks for them after this.
        The default group must be this process alone (``join_alone``).

        Raises:
            RefusedModuleError: the model has modules that could not be trained alike.
        """
        check_modules(model)
        self.buffers = FlatBuffers(model)
        self._boundary = torch.empty_like(self.buffers.flat)
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
        parallel.broadcast_buffers = False  # as an argument it has had two names
        # C++ would hold on to it, in a cycle that the interpreter cannot see: what is not trained
        # after all would stay.
        parallel.register_comm_hook(weakref.ref(self), _on_bucket_full)
        parallel.register_forward_pre_hook(self._before_forward)
        self.parallel = parallel
        self.layout: tuple[BucketLayout, ...] = ()
        self._kept_layout: Sequence[Sequence[str]] = ()
        self.weight = 1.0
        """Of this process's gradients in the mean, where its loss was not multiplied by it."""
        self._memory = threading.Lock()
        """Held while the memory for sums is exchanged: several threads may want to."""
        self._group: Group | None = None
        self._is_warming_up = False
        self.first_layout: tuple[BucketLayout, ...] = ()
        """Of the first step that stock DistributedDataParallel makes."""
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
        """The reduced gradients of the last step, flat, by bucket; not copies."""
        return self._own if self._is_alone or self._sums is None else self._sums

    @property
    def backward_memory(self) -> list[torch.Tensor]:
        """What backward passes here fill, flat, by bucket, as ``layout`` says. A process that
        takes its state from another has no use for what it holds until then."""
        return self._own

    @property
    def _is_alone(self) -> bool:
        return self._group is None or self._group.size == 1

    def needs_warm_up(self, step: int) -> bool:
        """Until it was."""
        return not self.layout

    def attach(self, group: Group | None) -> None:
        """Between steps: reduce over this group from now on; None: this process is alone."""
        self.undo()
        self._group = group

    def reserve(self) -> None:
        """Have the memory for sums ready, its pages touched; from any thread, between the
        ``attach`` of a group of one and that of a larger one. Else the first step does it."""
        with self._memory:
            if self._sums is None:
                sums = [torch.zeros_like(own) for own in self._own]
                self._sum_views = [
                    places.views(memory) for places, memory in zip(self._places, sums, strict=True)
                ]
                self._sums = sums

    def warm_up(self, make_loss: Callable[[], torch.Tensor], rounds: int = 2) -> None:
        """Forward and backward passes that are forgotten; they fix the layout of the buckets.

        Buffers and random states are restored. Nothing is sent.

        Args:
            make_loss: a loss computed through ``parallel``, of any samples.
            rounds: 2 at least, since the layout follows from the first and is there in the second;
                1 will do where it is known already.

        Raises:
            ValueError: fewer rounds.
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
        self._sums = None
        _restore_random_states(states, self._device)

    def begin(self) -> None:
        """After the forward pass: the first worker's buffers are on their way."""
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
        """Call once when the next backward pass has filled every bucket, before it returns.

        It is not called where a parameter had no part in the loss.
        """
        self._after_backward = callback

    def take_gradients(self) -> None:
        """Copy gradients that were replaced since ``finish`` into the memory of their buckets, from
        which a donor sends them."""
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
        """After the backward pass: gradients are the workers' mean, buffers the first one's.

        Raises:
            GroupLost: the state is that from before the forward pass.
        """
        if self._group is None or self._group.size == 1:
            return
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
        """Take back what the step did to the buffers, unless it was committed."""
        if self._is_undoable:
            self.buffers.gather().copy_(self._boundary)
            self._is_undoable = False
        self._lost = None
        if self._group is not None and not self._group.is_quiet:
            # What was left behind may still write to the memory it was given.
            self._travelling = torch.empty_like(self._travelling)
            with self._memory:
                self._sums = None
        self._buffers_pending = None
        self._pending.clear()

    def restore_buffers(self) -> None:
        """Take back what was done to the buffers since a step that was undone.

        Only before the next forward pass, which keeps the buffers of its own step.
        """
        self.buffers.gather().copy_(self._boundary)

    def commit(self) -> None:
        """The step counts; it cannot be undone any more."""
        self._is_undoable = False

    def _before_forward(self, module: torch.nn.Module, inputs: object) -> None:
        if not self._is_undoable:
            self._boundary.copy_(self.buffers.gather())
            self._is_undoable = True

    def _reduce(self, bucket: dist.GradBucket) -> None:  # type: ignore[name-defined]
        """A bucket is full. On the thread of the backward pass, in the order of indices."""
        index, memory = bucket.index(), bucket.buffer()
        if self._is_warming_up:
            self._learn(bucket)
            return
        if self._after_backward is not None and index == len(self._places) - 1:
            callback, self._after_backward = self._after_backward, None
            # The reducer queues its own end of the pass after this, and wants the gradients to be
            # as it has left them; what is queued while the queue is emptied comes after it.
            _at_end_of_backward(lambda: _at_end_of_backward(callback))
        group = self._group
        if group is None or group.size == 1 or self._lost is not None:
            return
        self.reserve()
        assert self._sums is not None
        total = self._sums[index]
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
    """Call on the thread of the backward pass at hand, when it has computed all gradients."""
    torch.autograd.Variable._execution_engine.queue_callback(callback)


def _on_bucket_full(
    state: weakref.ref[OrderedReduction],
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[torch.Tensor]:
    reduction = state()
    assert reduction is not None, "who makes the backward pass holds it"
    reduction._reduce(bucket)
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
    """Make this process the whole default group, as ``OrderedReduction`` wants it."""
    if not dist.is_initialized():
        store = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)

"""Every tensor of a training job, in one order that is the same on all its workers.

Workers exchange *parts*: a part is a range of elements of one parameter, with everything that the
optimizer keeps on these elements. What an optimizer keeps once per parameter (Adam's step counter)
belongs to the parameter's first part only.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.errors import WorkerError
from systems.runtime.tensors.flat_buffers import FlatBuffers
from systems.runtime.tensors.memory import as_bytes, flat, is_dense
from systems.runtime.tensors.state import optimizer_state, parameters_of

ELEMENTWISE = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.Rprop,
    torch.optim.Adagrad,
    torch.optim.Adadelta,
    torch.optim.ASGD,
)
"""Optimizers that compute each element and its state without any other element.

They use the old values, the element's gradient, hyper-parameters and counters.
"""

_DTYPES = {
    str(dtype): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.complex64, torch.complex128),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}


class StateMismatch(WorkerError):  # noqa: N818 - a state that does not match, not a fault
    """Another worker's state does not fit this one's; the text says where."""


@dataclass(frozen=True, slots=True)
class Part:
    """Elements ``start`` to ``stop`` of a parameter, and all optimizer state on them."""

    index: int
    """Index of the parameter in ``TrainingState.parameters``."""
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Held:
    """A parameter and what the optimizer keeps on it: names, tensors, and the address of each."""

    names: tuple[str, ...]
    tensors: tuple[weakref.ref[torch.Tensor], ...]
    places: tuple[int, ...]


def is_elementwise(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether gradients may be replayed on a state of which only some parts have come.

    Subclasses do not count: they may do anything.
    """
    return type(optimizer) in ELEMENTWISE


class TrainingState:
    """State of a job: live tensors, and values that JSON can hold."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        flat_buffers: FlatBuffers | None = None,
        carried: Callable[[], Mapping[str, torch.Tensor]] = dict,
    ) -> None:
        """Wrap the job's objects.

        Args:
            model: model that is trained.
            optimizer: optimizer of the model.
            flat_buffers: the one piece of memory that holds the model's buffers; None: there is
                none. All workers of a job have it, or none has.
            carried: returns tensors that travel with the buffers, live and by name.
        """
        self.optimizer = optimizer
        names = {id(value): name for name, value in model.named_parameters()}
        owned = parameters_of(optimizer)
        known = {id(value) for value in owned}
        frozen = [value for value in model.parameters() if id(value) not in known]
        self.num_owned = len(owned)
        self.parameters: list[torch.Tensor] = [*owned, *frozen]
        """Parameters in the order of the optimizer's groups, then those that it does not have."""
        self.names = [
            names.get(id(value), f"optimizer/{index}")
            for index, value in enumerate(self.parameters)
        ]
        self._model = model
        self._flat_buffers = flat_buffers
        self._carried = carried

    @property
    def buffer_memory(self) -> list[torch.Tensor]:
        """Bytes of the model's buffers and of carried tensors, in as few pieces as possible.

        Read it on the training thread.
        """
        if self._flat_buffers is None:
            return [as_bytes(value) for _, value in self.named_buffers]
        flat_memory = [self._flat_buffers.gather()] if self._flat_buffers.flat.numel() else []
        return [*flat_memory, *map(as_bytes, self._carried().values())]

    @property
    def named_buffers(self) -> list[tuple[str, torch.Tensor]]:
        """Tensors that change outside updates: the model's buffers, and carried tensors."""
        return [*self._model.named_buffers(), *self._carried().items()]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Live tensors: parameters, buffers, carried tensors and optimizer state."""
        state = [
            value
            for parameter in self.parameters[: self.num_owned]
            for _, value in sorted(self.optimizer.state.get(parameter, {}).items())
            if isinstance(value, torch.Tensor)
        ]
        return [*self.parameters, *(value for _, value in self.named_buffers), *state]

    def values(self) -> dict[str, Any]:
        """Return hyper-parameters of every group, and state that is no tensor.

        Raises:
            TypeError: one of them is neither a tensor nor plain.
        """
        state = optimizer_state(self.optimizer)
        return {"groups": state.groups, "state": {key: dict(v) for key, v in state.values.items()}}

    def load_values(self, values: Mapping[str, Any]) -> None:
        """Take the result of ``values`` from another worker.

        Raises:
            StateMismatch: this optimizer has other groups.
        """
        self.load_groups(values["groups"])
        for index, state in values["state"].items():
            self.optimizer.state[self._owned(int(index))].update(state)

    def load_groups(self, theirs: Sequence[Mapping[str, Any]]) -> None:
        """Take the hyper-parameters of every group from another worker.

        Raises:
            StateMismatch: this optimizer has other groups.
        """
        groups = self.optimizer.param_groups
        if len(theirs) != len(groups):
            raise StateMismatch(f"{len(theirs)} parameter groups there and {len(groups)} here")
        for group, values in zip(groups, theirs, strict=True):
            for key, value in values.items():
                # JSON has made lists of tuples.
                group[key] = tuple(value) if isinstance(group.get(key), tuple) else value

    def describe(self) -> dict[str, Any]:
        """Return names, types, shapes and strides, for ``check`` and ``prepare_like``."""
        return {
            "parameters": [
                [name, *_form(value)]
                for name, value in zip(self.names, self.parameters, strict=True)
            ],
            "buffers": [[name, *_form(value)] for name, value in self.named_buffers],
            "flat_buffers": [] if self._flat_buffers is None else [self._flat_buffers.flat.numel()],
            "optimizer": [self.layout_of(index) for index in range(self.num_owned)],
        }

    def check(self, description: Mapping[str, Any]) -> None:
        """Compare parameters and buffers with another worker's.

        Raises:
            StateMismatch: they differ.
        """
        mine = self.describe()
        for kind in ("parameters", "buffers", "flat_buffers"):
            if len(description[kind]) != len(mine[kind]):
                raise StateMismatch(
                    f"{len(description[kind])} {kind} there and {len(mine[kind])} here"
                )
            for theirs, ours in zip(description[kind], mine[kind], strict=True):
                if theirs != ours:
                    raise StateMismatch(f"of the {kind}, {theirs} there is {ours} here")

    def prepare_like(self, description: Mapping[str, Any]) -> None:
        """Give the optimizer's state the tensors of ``description``, with undefined values.

        Raises:
            StateMismatch: parameters or buffers differ.
        """
        self.check(description)
        for index, layout in enumerate(description["optimizer"]):
            self._shape_state(index, layout)

    def layout_of(self, index: int) -> list[Any]:
        """Return the tensors that the optimizer keeps on a parameter.

        Each is (key, type, shape, whether it is on the parameter's device). A shape of None means
        one element for each element of the parameter.

        Raises:
            TypeError: a tensor's elements lie in another order than its parameter's.
        """
        # Parameters outside the optimizer come last; they have no state.
        if index >= self.num_owned:
            return []
        parameter = self.parameters[index]
        layout: list[Any] = []
        # A copy of the items: a donor's thread reads them without the lock, while an update may add
        # some. It compares versions afterwards.
        for key, value in list(self.optimizer.state.get(parameter, {}).items()):
            if not isinstance(value, torch.Tensor):
                continue
            if value.shape != parameter.shape:
                shape: list[int] | None = list(value.shape)
            elif value.stride() != parameter.stride():
                raise TypeError(
                    f"the optimizer's {key!r} of {self.names[index]} has strides"
                    f" {value.stride()} and the parameter {parameter.stride()}"
                )
            else:
                shape = None
            on_device = value.device == parameter.device
            layout.append([key, str(value.dtype), shape, on_device])
        return layout

    @property
    def is_on_host(self) -> bool:
        """True if parameters and optimizer state lie in the host's memory."""
        kept = [value for each in list(self.optimizer.state.values()) for value in each.values()]
        tensors = [value for value in kept if isinstance(value, torch.Tensor)]
        return all(value.device.type == "cpu" for value in (*self.parameters, *tensors))

    def held(self, index: int) -> Held | None:
        """Return the tensors that ``read`` finds on a parameter, for ``is_still``.

        None if the optimizer also keeps plain values there, which change without moving.
        """
        kept = self._kept(index)
        tensors = (self.parameters[index], *kept.values())
        if not all(isinstance(value, torch.Tensor) for value in tensors):
            return None
        places = tuple(value.data_ptr() for value in tensors)
        return Held(tuple(kept), tuple(map(weakref.ref, tensors)), places)

    def is_still(self, index: int, held: Held) -> bool:
        """Return whether ``read`` finds the same tensors in the same places as in ``held``."""
        kept = self._kept(index)
        tensors: tuple[torch.Tensor, ...] = (self.parameters[index], *kept.values())
        return tuple(kept) == held.names and all(
            tensor is reference() and tensor.data_ptr() == place
            for tensor, reference, place in zip(tensors, held.tensors, held.places, strict=True)
        )

    def _kept(self, index: int) -> dict[str, Any]:
        if index >= self.num_owned:
            return {}
        return dict(self.optimizer.state.get(self.parameters[index], {}))

    def read(self, part: Part) -> tuple[list[Any], list[torch.Tensor]]:
        """Return a part's entry, which says what it holds, and flat views of its live tensors.

        Raises:
            TypeError: a tensor's elements lie in another order than the parameter's, or with gaps.
        """
        parameter = self.parameters[part.index]
        layout = self.layout_of(part.index)
        state = self.optimizer.state.get(parameter, {}) if part.index < self.num_owned else {}
        values = {
            key: value for key, value in list(state.items()) if not isinstance(value, torch.Tensor)
        }
        return [part.index, part.start, part.stop, layout, values], self._views(part, layout)

    def write(self, entry: Sequence[Any]) -> list[torch.Tensor]:
        """Return the views to fill for an entry of ``read``; tensors are made or dropped to fit it.

        Raises:
            StateMismatch: the entry does not fit this state.
        """
        try:
            index, start, stop, layout, values = entry
            parameter = self.parameters[index]
            fits = index >= 0 and 0 <= start <= stop <= parameter.numel()
            self._shape_state(index, layout)
            # Only the first part sets counters: a later one would set them back (``donor``).
            if values and start == 0:
                self.optimizer.state[self._owned(index)].update(values)
        except (TypeError, ValueError, IndexError, KeyError, RuntimeError) as error:
            raise StateMismatch(f"a part that cannot be read: {error}") from None
        if not fits:
            raise StateMismatch(f"elements {start} to {stop} of {self.names[index]}")
        return self._views(Part(index, start, stop), layout)

    def _views(self, part: Part, layout: Sequence[Sequence[Any]]) -> list[torch.Tensor]:
        parameter = self.parameters[part.index]
        views = [flat(parameter)[part.start : part.stop]]
        for key, _, shape, _ in layout:
            whole = flat(self.optimizer.state[parameter][key])
            if shape is None:
                views.append(whole[part.start : part.stop])
            elif part.start == 0:
                views.append(whole)
        return views

    def _owned(self, index: int) -> torch.Tensor:
        if not 0 <= index < self.num_owned:
            raise StateMismatch(f"optimizer state of parameter {index} of {self.num_owned}")
        return self.parameters[index]

    def _shape_state(self, index: int, layout: Sequence[Sequence[Any]]) -> None:
        """Give a parameter's state exactly these tensors, with undefined values if they are new."""
        if not layout:
            self.optimizer.state.pop(self.parameters[index], None)
            return
        parameter = self._owned(index)
        state: dict[str, Any] = self.optimizer.state[parameter]
        wanted = {key for key, *_ in layout}
        for key in [key for key in state if key not in wanted]:
            del state[key]
        for key, dtype_name, shape, on_device in layout:
            dtype = _DTYPES[dtype_name]
            here = state.get(key)
            size = parameter.shape if shape is None else torch.Size(shape)
            # What arrives must not decide how much memory is allocated here.
            if size.numel() > max(1, parameter.numel()):
                raise StateMismatch(f"{key!r} of {self.names[index]} with shape {tuple(size)}")
            device = parameter.device if on_device else torch.device("cpu")
            if (
                isinstance(here, torch.Tensor)
                and (here.dtype, here.shape, here.device) == (dtype, size, device)
                and (shape is not None or here.stride() == parameter.stride())
                and is_dense(here)
            ):
                continue
            if shape is None:
                state[key] = torch.empty_like(parameter, dtype=dtype, requires_grad=False)
            else:
                state[key] = torch.empty(size, dtype=dtype, device=device)


def _form(tensor: torch.Tensor) -> list[Any]:
    return [str(tensor.dtype), list(tensor.shape), list(tensor.stride())]

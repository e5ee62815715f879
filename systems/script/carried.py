"""State that a script keeps over its steps and that travels with its model and optimizer.

A worker that joins runs the script from its first line, so its learning-rate scheduler, its
gradient scaler and its moving average are at their first step. Their state comes with the
model's. A step that is lost with a worker is repeated, and the script's changes to these objects
in the lost step are undone. Otherwise a scheduler would count that step twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from systems.script.errors import ScriptError
from systems.script.plain_state import decode, encode

_OPTIMIZER = "optimizer:"
"""Name of the optimizer among the modules, whose names have no colon."""
_OWN_MARKS = ("_opt_called", "_step_supports_amp_scaling")
"""Attributes that torch sets on an optimizer, and that are not carried."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The carried state at a step boundary."""

    states: tuple[Any, ...]
    """Encoded states of the plain objects."""
    tensors: tuple[torch.Tensor, ...]
    """Copies of the modules' tensors."""
    groups: tuple[dict[str, Any], ...]
    """Hyper-parameters of the optimizer's groups, which schedulers set."""
    attributes: dict[str, dict[str, Any]]
    """Plain attributes of the model's modules and of the optimizer."""


class Carried:
    """Carried objects of one worker, with the same names and order in all workers."""

    def __init__(
        self,
        objects: Mapping[str, Any],
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        """Check that the objects' state can travel.

        Args:
            objects: modules, or objects with ``state_dict`` and ``load_state_dict``, by name.
            model: the script's model. Plain attributes of its modules travel, also ``training``.
            optimizer: the script's optimizer.

        Raises:
            ScriptError: the state of one of them cannot travel.
        """
        self._modules = {
            name: value for name, value in objects.items() if isinstance(value, torch.nn.Module)
        }
        self._plain = {name: value for name, value in objects.items() if name not in self._modules}
        self._model = model
        self._optimizer = optimizer
        self._states()

    @property
    def names(self) -> list[str]:
        """Names of all objects."""
        return [*self._modules, *self._plain]

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the modules' parameters and buffers, live."""
        return {
            f"{name}.{key}": value.detach()
            for name, module in self._modules.items()
            for key, value in _tensors_of(module)
        }

    def values(self) -> list[Any]:
        """Return names and states of the plain objects and plain attributes, as JSON values."""
        return [self.names, self._states(), self._attributes()]

    def adopt(self, values: Sequence[Any]) -> None:
        """Adopt the result of another worker's ``values``.

        Raises:
            ValueError: the other worker carries other objects.
        """
        names, states, attributes = values
        if names != self.names:
            raise ValueError(
                f"the job's workers carry {_listed(names)}, and this one {_listed(self.names)}:"
                " make schedulers, scalers and averages before the first batch, alike in all"
                " workers"
            )
        self._load(states)
        self._set_attributes(attributes)

    def snapshot(self) -> Snapshot:
        """Copy the carried state, and the optimizer's hyper-parameters."""
        return Snapshot(
            tuple(self._states()),
            tuple(value.clone() for value in self.tensors().values()),
            tuple(_hyper_parameters(self._optimizer)),
            self._attributes(),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state that ``snapshot`` copied."""
        self._load(snapshot.states)
        with torch.no_grad():
            for value, copy in zip(self.tensors().values(), snapshot.tensors, strict=True):
                value.copy_(copy)
        groups = self._optimizer.param_groups
        for group, values in zip(groups, snapshot.groups, strict=True):
            group.update(values)
        self._set_attributes(snapshot.attributes)

    def _attributes(self) -> dict[str, dict[str, Any]]:
        """Return plain attributes by module name; the optimizer's are under ``_OPTIMIZER``.

        A temperature that ``forward`` lowers, or a counter of the user's own optimizer, is part of
        what a step computes.
        """
        return {name: _plain_attributes(owner) for name, owner in self._owners()}

    def _set_attributes(self, attributes: Mapping[str, Mapping[str, Any]]) -> None:
        for name, owner in self._owners():
            vars(owner).update(attributes.get(name, {}))

    def _owners(self) -> Iterator[tuple[str, Any]]:
        yield _OPTIMIZER, self._optimizer
        yield from self._model.named_modules()

    def _states(self) -> list[Any]:
        return [
            encode(value.state_dict(), f"the state of {name}")
            for name, value in self._plain.items()
        ]

    def _load(self, states: Sequence[Any]) -> None:
        for (name, value), state in zip(self._plain.items(), states, strict=True):
            found = decode(state)
            try:
                if found != {}:  # a GradScaler that is switched off has none
                    value.load_state_dict(found)
            except (KeyError, RuntimeError, TypeError, AttributeError) as error:
                raise ScriptError(
                    f"{name} does not take the state of another worker's ({error})"
                ) from None


def _plain_attributes(owner: Any) -> dict[str, Any]:
    """Return the numbers and texts among an object's attributes.

    In torch's own modules only ``training`` changes, so only that is returned for them.
    """
    if isinstance(owner, torch.nn.Module) and type(owner).__module__.startswith("torch."):
        return {"training": owner.training}
    return {
        key: value
        for key, value in vars(owner).items()
        if type(value) in (bool, int, float, str) and key not in _OWN_MARKS
    }


def _hyper_parameters(optimizer: torch.optim.Optimizer) -> Iterator[dict[str, Any]]:
    for group in optimizer.param_groups:
        yield {key: value for key, value in group.items() if key != "params"}


def _tensors_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"

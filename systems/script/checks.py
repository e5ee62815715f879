"""Checks of a script's model and optimizer, before and during training."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel

from systems.runtime.tensors.memory import as_bytes
from systems.runtime.tensors.state import hyper_parameters, parameters_of
from systems.script.errors import ScriptError


def check_init(model: object, optimizer: object) -> None:
    """Check the model and the optimizer that ``init`` was given.

    Raises:
        ScriptError: the two cannot be trained together.
    """
    if isinstance(model, DistributedDataParallel | DataParallel):
        raise ScriptError(
            f"init() was given a {type(model).__name__}; give it the module itself, which it shares"
            " with the other workers"
        )
    if not isinstance(model, torch.nn.Module):
        raise ScriptError(f"init() was given a {type(model).__name__} as the model, not a module")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ScriptError(
            f"init() was given a {type(optimizer).__name__} as the optimizer; give it one of"
            " torch.optim, or a subclass of torch.optim.Optimizer"
        )
    known = {id(parameter) for parameter in model.parameters()}
    foreign = [value for value in parameters_of(optimizer) if id(value) not in known]
    if foreign:
        raise ScriptError(
            f"the optimizer has {len(foreign)} parameters that are not the model's, such as one of"
            f" shape {tuple(foreign[0].shape)}: their gradients would not be shared. Make them"
            " part of the model that init() gets, for instance a loss as one of its modules"
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ScriptError("no parameter of the model that init() was given wants a gradient")
    owned = {id(parameter) for parameter in parameters_of(optimizer)}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and id(parameter) not in owned:
            raise ScriptError(
                f"{name} wants a gradient, and the optimizer does not have it; freeze it"
                " (requires_grad_(False)) or give it to the optimizer, in a parameter group of its"
                " own if need be"
            )
    try:
        hyper_parameters(optimizer)
    except TypeError as error:
        raise ScriptError(
            f"{error}. Give a learning rate as a number: lr=0.1, not torch.tensor(0.1)"
        ) from None


def check_alone(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, made: Sequence[object]
) -> None:
    """Check that the script has no other optimizer when it begins to train.

    Args:
        model: model of the script.
        optimizer: optimizer of the script.
        made: all objects of torch's classes that the script has made.

    Raises:
        ScriptError: there is another optimizer.
    """
    known = {id(parameter) for parameter in model.parameters()}
    for other in made:
        if not isinstance(other, torch.optim.Optimizer) or other is optimizer:
            continue
        name = type(other).__name__
        if any(id(parameter) in known for parameter in parameters_of(other)):
            raise ScriptError(
                f"a second optimizer ({name}) has parameters of the model, and its state would not"
                " travel to workers that join; use one optimizer with several parameter groups"
            )
        raise ScriptError(
            f"a second optimizer ({name}) has parameters that init() was not given, so each worker"
            " would train them by its own samples; make them part of the model, with one optimizer"
        )


PART_BYTES = 1 << 17
"""Bytes of parameters whose checksum is compared in a step.

They take 0.06 ms, computed from the measured 2.4 GB/s (``StateComparison``).
"""
DEVICE_STEPS = 16


class StepChecks:
    """Checks that a script leaves alone what must stay as it was at the first batch."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._named = list(model.named_parameters())
        self._flags = [parameter.requires_grad for _, parameter in self._named]
        self._optimizer = optimizer
        self._owned = [id(parameter) for parameter in parameters_of(optimizer)]
        self._versions: list[int] = []
        self.note_parameters()

    def note_parameters(self) -> None:
        """Accept the parameters as they are: an update or another worker's state has come."""
        self._versions = [parameter._version for _, parameter in self._named]

    def changed_outside_updates(self) -> str | None:
        """Return the name of a parameter that was changed since ``note_parameters``, if any was.

        Changes through ``.data`` do not show here; ``StateComparison`` finds those.
        """
        for (name, parameter), version in zip(self._named, self._versions, strict=True):
            if parameter._version != version:
                return name
        return None

    def check_parameters(self) -> None:
        """Check before a forward pass that the trained parameters are those of the first batch.

        Raises:
            ScriptError: they have changed, or a parameter has a hook on its gradient.
        """
        for (name, parameter), flag in zip(self._named, self._flags, strict=True):
            if parameter.requires_grad != flag:
                verb = "unfrozen" if parameter.requires_grad else "frozen"
                raise ScriptError(
                    f"{name} was {verb} after the first batch, but gradients are laid out once."
                    " Leave requires_grad as it is, give such parameters a group of their own, and"
                    " set the group's learning rate to 0 while they are not to change"
                )
            if parameter._backward_hooks or _late_hooks(parameter):
                raise ScriptError(
                    f"{name} has a hook on its gradient, which would see this worker's gradient and"
                    " not the workers' mean; do that after backward(), to the parameter's grad"
                )
        if [id(parameter) for parameter in parameters_of(self._optimizer)] != self._owned:
            raise ScriptError(
                "the optimizer's parameters were changed after the first batch; give it all of them"
                " before init(), in groups whose learning rate may be 0 at first"
            )

    def part_checksum(self, step: int, start: int) -> int:
        """Return a CRC-32 of a part of the parameters, of another part after every step.

        Workers that differ are so found within as many steps as there are parts. On accelerators
        only every ``DEVICE_STEPS`` steps have a part, since reading waits for the device.

        Args:
            step: number of steps executed.
            start: value that the checksum begins with.
        """
        _, parameter = self._named[step % len(self._named)]
        if parameter.device.type != "cpu" and step % DEVICE_STEPS:
            return start
        memory = as_bytes(parameter)
        num_parts = max(1, -(-memory.numel() // PART_BYTES))
        first = step // len(self._named) % num_parts * PART_BYTES
        return zlib.crc32(memory[first : first + PART_BYTES].cpu().numpy().data, start)

    @property
    def num_trained(self) -> int:
        """Number of parameters that need a gradient."""
        return sum(self._flags)

    def without_gradient(self) -> list[str]:
        """Return the names of trained parameters that have no gradient now."""
        return [
            name
            for name, parameter in self._named
            if parameter.requires_grad and parameter.grad is None
        ]


def _late_hooks(parameter: torch.nn.Parameter) -> object:
    """Return the hooks of ``register_post_accumulate_grad_hook`` on a parameter, if any."""
    return getattr(parameter, "_post_accumulate_grad_hooks", None)

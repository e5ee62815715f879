"""A script's model, which the job shares in training and which is the script's own otherwise.

The model stays the same object. Only its class is exchanged for a subclass that passes calls in
training to the job, as ``torch.distributed.fsdp.fully_shard`` does. So an optimizer, a scheduler,
an average or another module that holds the model already still holds the right object.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from systems.script.errors import ScriptError
from systems.script.made import Made
from systems.script.step_calls import StepCalls


def make_elastic(model: torch.nn.Module, run: StepCalls, made: Made) -> None:
    """Make the model's calls in training go through the job.

    Args:
        model: model of the script.
        run: run of the script.
        made: takes copies of the model that the script makes.

    Raises:
        ScriptError: the model's class cannot be exchanged.
    """
    plain = type(model)
    if isinstance(model, torch.jit.ScriptModule):
        raise ScriptError("init() was given a scripted model; give it the module itself")

    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if self is model and run.is_training:
            return run.forward(*args, **kwargs)
        return plain.__call__(self, *args, **kwargs)

    def state_dict(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        """Return the model's state with copies of its buffers.

        In training all buffers share one piece of memory, whatever their types, which
        ``torch.save`` does not allow.
        """
        state = plain.state_dict(self, *args, **kwargs)
        for name, _ in self.named_buffers():
            key = kwargs.get("prefix", "") + name
            if key in state:
                state[key] = state[key].clone()
        return state

    def zero_grad(self: torch.nn.Module, set_to_none: bool = True) -> None:
        if self is model:
            run.zeroed()
        plain.zero_grad(self, set_to_none=True)

    def deepcopy(self: torch.nn.Module, memo: dict[int, Any]) -> torch.nn.Module:
        found = _plain_copy(self, plain, memo)
        made.add(found)
        return found

    def reduce(self: torch.nn.Module, protocol: Any) -> Any:
        # Later protocols insist that a pickled object is of the class that it is rebuilt as.
        return _plain_copy(self, plain, {}).__reduce_ex__(1)

    elastic = type(
        plain.__name__,
        (plain,),
        {
            "__module__": plain.__module__,
            "__qualname__": plain.__qualname__,
            "__doc__": plain.__doc__,
            # Code of the job must not be compiled into a script's own graph.
            "__call__": torch._dynamo.disable(call),  # type: ignore[no-untyped-call]
            "__deepcopy__": deepcopy,
            "__reduce_ex__": reduce,
            "state_dict": state_dict,
            "zero_grad": zero_grad,
        },
    )
    # A compiled module would set the class of the module that it wraps.
    object.__setattr__(model, "__class__", elastic)


def own_buffers(model: torch.nn.Module) -> None:
    """Give every buffer its own memory again; in training all buffers share one piece."""
    for module in model.modules():
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else buffer.clone()


def _plain_copy(model: torch.nn.Module, plain: type, memo: dict[int, Any]) -> torch.nn.Module:
    """Return a copy that has the script's own class and no link to the job."""
    found: torch.nn.Module = object.__new__(plain)
    memo[id(model)] = found
    object.__setattr__(found, "__dict__", copy.deepcopy(model.__dict__, memo))
    own_buffers(found)
    return found

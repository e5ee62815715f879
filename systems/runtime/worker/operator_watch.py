"""Recorder of module outputs in the forward pass and of autograd operators' gradients.

Both are recorded by name and in the order of their computation.

Source: the bitwise tool of EasyScale (Li et al., SC '23, section 3.3), which hooks modules and
gradients. Differs: the backward pass is recorded for each operator in autograd's graph. The
gradients of modules' inputs, which the tool uses, are sums over all modules that have the same
input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch.autograd.graph import Node

OUTSIDE = "loss"
"""Owner of the operators that run outside the model's modules."""


class OperatorWatch:
    """Recorder of one model, from ``begin`` to ``end``. One thread uses it; backward passes may run
    on others.

    A tensor is recorded once, under the module that returns it first, alone or within tuples, lists
    and mappings. If a module's own code made it and passes it to another, it is ``MODULE, before
    OTHER``. ``MODULE: OPERATOR[i]`` is the operator's gradient for its input i. A repeated call is
    ``#1``, and so on.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        """Hook the model's modules; record nothing before ``begin``."""
        self.forward: dict[str, torch.Tensor] = {}
        """Copies of the tensors made since ``begin``."""
        self.backward: dict[str, torch.Tensor] = {}
        """Copies of the gradients computed since ``begin``."""
        self._is_on = False
        self._inside: list[str] = []
        """Modules whose forward pass is in progress, outermost first."""
        self._known: dict[tuple[int, int], torch.Tensor] = {}
        """Tensors recorded in the present forward pass, by identity and version. They are kept
        alive, since Python may reuse the identity of a freed one."""
        self._owners: dict[Node, str] = {}
        self._calls: Counter[str] = Counter()
        for name, module in model.named_modules():
            own = name or "model"
            module.register_forward_pre_hook(partial(self._before, own), with_kwargs=True)
            module.register_forward_hook(partial(self._after, own))

    def begin(self) -> None:
        """Begin to record a worker's passes."""
        self.end()
        self._is_on = True

    def end(self) -> None:
        """Stop recording, and forget what was recorded."""
        self._is_on = False
        self.forward, self.backward = {}, {}
        self._inside.clear()
        self._known.clear()
        self._owners.clear()
        self._calls.clear()

    def before_backward(self, loss: torch.Tensor) -> None:
        """Assign the operators that belong to no module to the loss, after a forward pass."""
        if self._is_on:
            self._claim(OUTSIDE, loss)

    def _before(
        self, name: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if not self._is_on:
            return
        given = [*args, *kwargs.values()]
        maker = self._inside[-1] if self._inside else OUTSIDE
        self._note(f"{maker}, before {name}", given)
        self._claim(maker, given)
        self._inside.append(name)

    def _after(self, name: str, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        if not self._is_on:
            return
        self._note(name, output)
        self._claim(name, output)
        self._inside.pop()
        if not self._inside:
            self._known.clear()

    def _note(self, name: str, value: Any) -> None:
        label = self._label(name)
        for place, tensor in tensors_in(value):
            identity = id(tensor), tensor._version
            if identity not in self._known:
                self._known[identity] = tensor
                self.forward[label + place] = tensor.detach().clone()

    def _claim(self, owner: str, value: Any) -> None:
        """Make ``owner`` the owner of all operators behind these tensors that have none yet."""
        waiting = [tensor.grad_fn for _, tensor in tensors_in(value)]
        while waiting:
            node = waiting.pop()
            # Leaves are parameters, whose gradients are recorded elsewhere.
            if node is None or node in self._owners or not node.next_functions:
                continue
            self._owners[node] = owner
            node.register_hook(self._on_gradients(f"{owner}: {node.name()}"))
            waiting += [other for other, _ in node.next_functions]

    def _on_gradients(self, name: str) -> Callable[[Any, Any], None]:
        def note(by_inputs: tuple[torch.Tensor | None, ...], by_outputs: Any) -> None:
            if not self._is_on:
                return
            label = self._label(name)
            for place, gradient in tensors_in(by_inputs):
                self.backward[label + place] = gradient.detach().clone()

        return note

    def _label(self, name: str) -> str:
        call = self._calls[name]
        self._calls[name] += 1
        return f"{name}#{call}" if call else name


def tensors_in(value: Any, place: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield all dense tensors in a value and its nested containers, each with its place."""
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided:
            yield place, value
    elif isinstance(value, Mapping):  # also the outputs of transformers' models
        for key, part in value.items():
            yield from tensors_in(part, f"{place}[{key}]")
    elif isinstance(value, tuple | list):
        for index, part in enumerate(value):
            yield from tensors_in(part, f"{place}[{index}]")

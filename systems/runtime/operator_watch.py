"""What a model's modules make in the forward pass, and autograd's operators in the backward pass,
by name and in the order of their computation.

Source: the bitwise tool of EasyScale (Li et al., SC '23, section 3.3), which hooks modules and
gradients. Differs: the backward pass is watched operator by operator, where each is in autograd's
graph, and not by the gradients of modules' inputs, which are sums over all modules that have the
same input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch.autograd.graph import Node

OUTSIDE = "loss"
"""Owner of the operators that no module of the model runs."""


class OperatorWatch:
    """Of one model, from ``begin`` to ``end``. Used by one thread; backward passes may have theirs.

    A tensor is noted once, by who made it: the module that returns it first, alone or within
    tuples, lists and mappings; or, where a module's own code made it to give it to another, as
    ``MODULE, before OTHER``. ``MODULE: OPERATOR[i]`` is the operator's gradient by its input i. A
    further call is ``#1``, and so on.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        """Listens from now on; notes nothing before ``begin``."""
        self.forward: dict[str, torch.Tensor] = {}
        """Copies of what was made since ``begin``."""
        self.backward: dict[str, torch.Tensor] = {}
        """And of gradients."""
        self._is_on = False
        self._inside: list[str] = []
        """Modules whose forward pass is under way, the outermost first."""
        self._known: dict[tuple[int, int], torch.Tensor] = {}
        """What was noted in the present forward pass, by identity and version; kept, since the
        identity of what is gone may come back."""
        self._owners: dict[Node, str] = {}
        self._calls: Counter[str] = Counter()
        for name, module in model.named_modules():
            own = name or "model"
            module.register_forward_pre_hook(partial(self._before, own), with_kwargs=True)
            module.register_forward_hook(partial(self._after, own))

    def begin(self) -> None:
        """A worker's passes begin."""
        self.end()
        self._is_on = True

    def end(self) -> None:
        """They are over; forget them."""
        self._is_on = False
        self.forward, self.backward = {}, {}
        self._inside.clear()
        self._known.clear()
        self._owners.clear()
        self._calls.clear()

    def before_backward(self, loss: torch.Tensor) -> None:
        """After a forward pass; what is not a module's is the loss's."""
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
        """All operators behind these tensors that nobody owns yet."""
        waiting = [tensor.grad_fn for _, tensor in tensors_in(value)]
        while waiting:
            node = waiting.pop()
            # Leaves are parameters, whose gradients are noted elsewhere.
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
    """All dense tensors in a value and what it holds, each with its place there."""
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided:
            yield place, value
    elif isinstance(value, Mapping):  # also what transformers' models return
        for key, part in value.items():
            yield from tensors_in(part, f"{place}[{key}]")
    elif isinstance(value, tuple | list):
        for index, part in enumerate(value):
            yield from tensors_in(part, f"{place}[{index}]")

"""Record of torch objects that a script makes, such as schedulers, scalers and averages.

A script hands over only its model and its optimizer. Without this record its other objects, and
optimizers that it forgot, would be known only if it named them.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

import torch
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.swa_utils import AveragedModel

from systems.script.errors import ScriptError

KINDS: Final[tuple[type, ...]] = (
    torch.optim.Optimizer,
    LRScheduler,
    torch.amp.GradScaler,
    AveragedModel,
)


class Made:
    """The objects of ``KINDS`` in this process, in the order in which they were made.

    The order is the same in all workers, since all run the same lines.
    """

    def __init__(self) -> None:
        self._references: list[weakref.ref[Any]] = []
        self.is_closed = False
        """True once training has begun; the state of objects made later would not reach joiners."""

    def watch(self) -> None:
        """Note every object of ``KINDS`` from now on, until the process ends.

        ``__new__`` is called for every subclass. ``__init__`` is not: some schedulers of torch
        do not call that of their base class.
        """
        for kind in KINDS:
            kind.__new__ = self._new  # type: ignore[method-assign,assignment]

    def add(self, value: Any) -> None:
        """Note an object of another kind."""
        self._references.append(weakref.ref(value))

    def living(self) -> list[Any]:
        """Return the objects that still exist."""
        found = [reference() for reference in self._references]
        return [value for value in found if value is not None]

    def _new(self, kind: type, *args: object, **kwargs: object) -> Any:
        if self.is_closed and not issubclass(kind, torch.optim.Optimizer):
            raise ScriptError(
                f"a {kind.__name__} was made after the first batch, and a worker that joins would"
                " not have its state; make it before, and begin to use it when it is time"
            )
        value: Any = object.__new__(kind)
        self.add(value)
        return value

"""Frozen dataclasses with slots that are created as fast as mutable ones.

A replay creates millions of small frozen values. ``dataclass(frozen=True)`` sets each field through
``object.__setattr__``, which takes three times as long as an assignment. Here ``__init__`` gives
the new object a twin class while it assigns. The twin has the same slots and is not frozen.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, dataclass_transform

_C = TypeVar("_C")
_become = object.__dict__["__class__"].__set__


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: type[_C]) -> type[_C]:
    """Return ``dataclass(frozen=True, slots=True)`` of a class, with a fast ``__init__``.

    The class must have no bases, no ``__post_init__``, and only fields that are positional
    arguments.

    Raises:
        TypeError: it is another class.
    """
    made: Any = dataclasses.dataclass(frozen=True, slots=True)(cls)
    fields = dataclasses.fields(made)
    if made.__bases__ != (object,) or hasattr(made, "__post_init__"):
        raise TypeError(f"{cls.__name__} has a base or __post_init__; use dataclass(frozen=True)")
    if not all(each.init and not each.kw_only for each in fields):
        raise TypeError(f"{cls.__name__} has fields by keyword or none; use dataclass(frozen=True)")
    twin = type(cls.__name__, (), {"__slots__": tuple(each.name for each in fields)})
    names: dict[str, Any] = {"_become": _become, "_twin": twin, "_made": made, "_unset": object()}
    arguments, lines = [], []
    for number, each in enumerate(fields):
        argument = value = each.name
        if each.default is not dataclasses.MISSING:
            names[f"_default{number}"] = each.default
            argument = f"{each.name}=_default{number}"
        elif each.default_factory is not dataclasses.MISSING:
            names[f"_factory{number}"] = each.default_factory
            argument = f"{each.name}=_unset"
            value = f"_factory{number}() if {each.name} is _unset else {each.name}"
        arguments.append(argument)
        lines.append(f" _self.{each.name} = {value}")
    source = [f"def __init__(_self, {', '.join(arguments)}):", " _become(_self, _twin)", *lines]
    exec("\n".join([*source, " _self.__class__ = _made"]), names)
    init = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = made.__init__.__annotations__
    made.__init__ = init
    return made  # type: ignore[no-any-return]

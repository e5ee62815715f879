"""Frozen dataclasses with slots that are made as fast as others.

A replay makes millions of small frozen values. ``dataclass(frozen=True)`` sets each field through
``object.__setattr__``, which takes three times as long as an assignment. Here ``__init__`` turns
the new object into a twin class for as long as it assigns: one with the same slots, and not frozen.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, dataclass_transform

_C = TypeVar("_C")
_become = object.__dict__["__class__"].__set__


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: type[_C]) -> type[_C]:
    """``dataclass(frozen=True, slots=True)`` with a fast ``__init__``, for a class without bases,
    ``__post_init__`` or fields that are no arguments.

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

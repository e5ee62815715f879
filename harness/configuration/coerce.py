"""Values of a configuration, checked against the type annotations of the target class."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import math
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import ElastraceError

_UNIONS = (typing.Union, types.UnionType)
_SEQUENCES = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable)
_MAPPINGS = (dict, collections.abc.Mapping)
_SCALARS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


class MismatchError(ElastraceError):
    """Value of a wrong type; the text says what was expected ("a whole number")."""


def show(value: Any) -> str:
    """Return a value as a user would recognise it, with its kind."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"a mapping with {', '.join(map(str, list(value)[:5])) or 'no keys'}"
    return repr(list(value) if isinstance(value, tuple) else value)


def coerce(value: Any, annotation: Any) -> Any:
    """Return ``value`` (from YAML) in the type of ``annotation``; lists become tuples where the
    annotation says so.

    Annotations that configuration cannot judge (a protocol, a callable) accept everything.

    Raises:
        MismatchError: the value does not fit; the text says which values fit.
    """
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if annotation is Any or isinstance(annotation, str | typing.TypeVar):
        return value
    if annotation is None or annotation is type(None):
        return _same(value, value is None, "null")
    if origin is typing.Annotated:
        return coerce(value, arguments[0])
    if origin in _UNIONS:
        return _union(value, arguments)
    if origin is typing.Literal:
        options = ", ".join(str(option) for option in arguments)
        return _same(value, value in arguments, f"one of {options}")
    kind = origin or annotation
    if kind in _SEQUENCES:
        return _sequence(value, kind, arguments)
    if kind in _MAPPINGS:
        return _mapping(value, arguments)
    if isinstance(kind, type):
        return _scalar(value, kind)
    return value


def _same(value: Any, fits: bool, expected: str) -> Any:
    if not fits:
        raise MismatchError(expected)
    return value


def _scalar(value: Any, kind: type) -> Any:
    if issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            options = ", ".join(str(member.value) for member in kind)
            raise MismatchError(f"one of {options}") from None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise MismatchError("a number below 2e308") from None
    if kind is float:
        fits = isinstance(value, float) and not math.isnan(value)
        return _same(value, fits, "a number")
    if kind is int:
        return _same(value, isinstance(value, int) and not isinstance(value, bool), _SCALARS[int])
    if kind in (bool, str):
        return _same(value, isinstance(value, kind), _SCALARS[kind])
    if issubclass(kind, Path):
        return kind(_same(value, isinstance(value, str | Path), "a path"))
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        return value
    if getattr(kind, "_is_protocol", False) or kind is object:
        return value
    return _same(value, isinstance(value, kind | Mapping), f"a {kind.__name__}")


def _union(value: Any, arguments: tuple[Any, ...]) -> Any:
    expected: list[str] = []
    exact = [a for a in arguments if isinstance(a, type) and type(value) is a]
    for argument in [*exact, *arguments]:
        try:
            return coerce(value, argument)
        except MismatchError as mismatch:
            expected.append(str(mismatch))
    raise MismatchError(" or ".join(dict.fromkeys(expected)))


def _sequence(value: Any, kind: Any, arguments: tuple[Any, ...]) -> Any:
    each: tuple[Any, ...] = arguments or (Any,)
    fixed = kind is tuple and len(each) > 1 and each[-1] is not Ellipsis
    expected = "a list"
    if fixed:
        expected = f"a list of {len(each)}"
    elif each[0] in _SCALARS:
        expected = f"a list, each {_SCALARS[each[0]]}"
    if isinstance(value, str | Mapping) or not isinstance(value, collections.abc.Iterable):
        raise MismatchError(expected)
    items = list(value)
    if fixed and len(items) != len(each):
        raise MismatchError(expected)
    types_of = each if fixed else (each[0],) * len(items)
    try:
        parts = [coerce(item, wanted) for item, wanted in zip(items, types_of, strict=True)]
    except MismatchError as mismatch:
        raise MismatchError(f"a list, each {mismatch}") from None
    if kind in (list, set, frozenset):
        return kind(parts)
    return tuple(parts)


def _mapping(value: Any, arguments: tuple[Any, ...]) -> Any:
    if not isinstance(value, Mapping):
        raise MismatchError("a mapping")
    key_type, value_type = arguments if len(arguments) == 2 else (Any, Any)
    try:
        return {coerce(k, key_type): coerce(v, value_type) for k, v in value.items()}
    except MismatchError as mismatch:
        raise MismatchError(f"a mapping, each entry {mismatch}") from None

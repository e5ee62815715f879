"""``frozen`` makes what ``dataclass(frozen=True, slots=True)`` makes."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import ClassVar

import pytest

from harness.contracts.change import Change
from harness.contracts.decision import Grant
from harness.contracts.event import Event, EventKind
from harness.contracts.frozen import frozen
from harness.contracts.view import JobView
from harness.results import records


class Plain:
    """What both are made from."""

    name: str
    size: int = 3
    parts: dict[str, int] = field(default_factory=dict)
    known: ClassVar[int] = 7


def as_class(name: str) -> type:
    return type(name, (), dict(Plain.__dict__) | {"__qualname__": name})


Stock = dataclass(frozen=True, slots=True)(as_class("Stock"))
Quick = frozen(as_class("Quick"))
VALUES = [("a",), ("a", 4), ("b", 3, {"x": 1})]


@pytest.mark.parametrize("values", VALUES)
def test_values_are_those_of_a_stock_dataclass(values):
    stock, quick = Stock(*values), Quick(*values)
    assert type(quick) is Quick
    assert [getattr(quick, f.name) for f in fields(Quick)] == [
        getattr(stock, f.name) for f in fields(Stock)
    ]
    assert repr(quick) == repr(stock).replace("Stock", "Quick")
    names = [f.name for f in fields(Quick)]
    assert Quick(**dict(zip(names, values, strict=False))) == quick


def test_it_is_frozen_compared_hashed_copied_and_pickled_alike():
    @frozen
    class Pair:
        one: int
        two: tuple[int, ...] = ()

    value = Pair(1, (2,))
    with pytest.raises(FrozenInstanceError):
        value.one = 5
    with pytest.raises((AttributeError, TypeError)):
        value.three = 5
    with pytest.raises(FrozenInstanceError):
        del value.one
    assert value.one == 1
    assert value == Pair(1, (2,)) != Pair(1)
    assert hash(value) == hash(Pair(1, (2,)))
    assert replace(value, one=9) == Pair(9, (2,))
    assert copy.copy(value) == copy.deepcopy(value) == value
    event = Event(1.0, EventKind.WAKE)
    assert pickle.loads(pickle.dumps(event)) == event
    with pytest.raises(TypeError):
        Pair()
    with pytest.raises(TypeError):
        Pair(1, two=(), three=2)


def test_what_is_made_anew_each_time_is_not_shared():
    one, other = Quick("a"), Quick("a")
    assert one.parts == other.parts == {}
    assert one.parts is not other.parts
    given = {"x": 1}
    assert Quick("a", parts=given).parts is given


@pytest.mark.parametrize("made", [Event, Change, JobView, Grant, records.JobRecord])
def test_help_shows_the_arguments(made):
    shown = inspect.signature(made)
    assert list(shown.parameters) == [f.name for f in fields(made)]
    assert all(p.annotation is not inspect.Parameter.empty for p in shown.parameters.values())


def test_other_classes_are_refused():
    class Base:
        __slots__ = ()

    with pytest.raises(TypeError, match="has a base or __post_init__"):
        frozen(type("Child", (Base,), {}))
    with pytest.raises(TypeError, match="has a base or __post_init__"):
        frozen(type("Checked", (), {"__post_init__": lambda self: None}))
    with pytest.raises(TypeError, match="fields by keyword or none"):

        @frozen
        class Hidden:
            one: int = field(default=1, init=False)

"""The fuzzer's targets under hypothesis, and inputs on which they once broke."""

import importlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import TARGETS
from tests.fuzz.target import STRANGER, Target, give


def target(name):
    return importlib.import_module(f"tests.fuzz.{name}").TARGET


def assert_right(chosen, data):
    with tempfile.TemporaryDirectory() as folder:
        outcome = give(chosen, data, Path(folder))
    if outcome.crash is not None:
        raise outcome.crash
    assert not outcome.is_hang
    assert outcome.strayed == ()


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_a_few_hostile_inputs(name):
    chosen = target(name)
    for seed in chosen.seeds:
        assert_right(chosen, seed)

    @settings(max_examples=12, derandomize=True)
    @given(st.binary(max_size=60))
    def few(data):
        assert_right(chosen, data)

    few()


BROKEN = {
    "a path with a null character": ("profiles", b"\2\0h\3\x80"),
    "programs called by a text and by a number": ("profiles", b"sm$30\x18,1.0"),
    "costs of a number beyond all floats": ("profiles", b"\x03\x01b\x02\x00\x8e\x99\x03\xa4"),
    "noise of a number beyond all floats": ("profiles", b"\x03\x01b\x02\x00\x8eM\xce\xa4"),
    "the same in a stored configuration": ("profiles", b"\2\0\xe3\x03\xd8"),
    "a time of a sample that is no number": ("manifests", b"\1[\0\1\1"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_inputs_that_once_broke_a_reader(case):
    name, data = BROKEN[case]
    assert_right(target(name), data)


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_many_hostile_inputs(name):
    chosen = target(name)
    kinds = st.sampled_from([seed[:1] for seed in chosen.seeds])

    @settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
    @given(kinds, st.binary(max_size=400))
    def many(kind, data):
        assert_right(chosen, kind + data)

    many()


def test_the_watch_sees_writes_elsewhere_processes_and_foreign_imports(tmp_path):
    """A target that did what no reader may do would be found."""

    def read(_data, folder):
        (folder / "inside").write_bytes(b"")
        (tmp_path / "outside").write_bytes(b"")
        importlib.import_module(STRANGER)

    inside = tmp_path / "inside"
    inside.mkdir()
    outcome = give(Target("wrong", read, (ImportError,)), b"", inside)
    assert outcome.strayed == (f"open {tmp_path / 'outside'}", f"import {STRANGER}")
    assert outcome.crash is None


def test_the_watch_tells_a_hang_and_a_crash(tmp_path, monkeypatch):
    def forever(_data, _folder):
        while True:
            pass

    def broken(_data, _folder):
        raise KeyError("a")

    monkeypatch.setattr("tests.fuzz.target.MOST_CPU_S", 0.1)
    assert give(Target("slow", forever, ()), b"", tmp_path).is_hang
    assert isinstance(give(Target("broken", broken, (ValueError,)), b"", tmp_path).crash, KeyError)

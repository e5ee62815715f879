"""Random states are read and written exactly, also where NumPy's memory is copied."""

import random
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from systems.runtime.data import python_random
from systems.runtime.data.python_random import PythonRandom
from systems.runtime.data.random_states import ProcessRandom, RandomStates

DRAWS = {
    "torch": lambda: torch.rand(2).tolist(),
    "normal": lambda: torch.randn(3).tolist(),
    "numpy": lambda: np.random.rand(),
    "gauss": lambda: np.random.randn(),  # keeps a number for the next call
    "python": random.random,
    "python gauss": lambda: random.gauss(0, 1),  # as well
}


@pytest.fixture(autouse=True)
def own_states():
    """Other tests' random states stay what they are."""
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()
    yield
    torch.set_rng_state(before[0])
    np.random.set_state(before[1])
    random.setstate(before[2])


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(sorted(DRAWS)), st.booleans()), max_size=30
    )
)
def test_workers_that_take_turns_draw_what_each_would_draw_alone(turns):
    process = ProcessRandom(torch.device("cpu"))
    states, alone = {}, {}
    for worker in range(3):
        seed(worker)
        alone[worker] = [DRAWS[kind]() for turn, kind, _ in turns if turn == worker]
        seed(worker)
        states[worker] = process.read()
    drawn = {worker: [] for worker in range(3)}
    for number, (worker, kind, draws_between) in enumerate(turns):
        process.write(states[worker])
        drawn[worker].append(DRAWS[kind]())
        states[worker] = process.read(states[worker])
        if number % 2:  # it moves to another process
            states[worker] = RandomStates.from_bytes(states[worker].to_bytes(), 0)
        if draws_between:  # as a user's own update may
            np.random.randn()
    assert drawn == alone


def test_pythons_state_is_found_in_memory_and_is_what_python_says():
    random.seed(3)
    random.gauss(0, 1)
    found = PythonRandom()
    assert found._address is not None
    bits, gauss = found.read(), found.gauss
    drawn = [random.gauss(0, 1) for _ in range(700)]
    assert found.read() != bits
    found.write(bits, gauss)
    assert [random.gauss(0, 1) for _ in range(700)] == drawn


def test_where_pythons_state_is_not_found_it_is_asked_for(monkeypatch):
    random.seed(4)
    copied = PythonRandom()
    monkeypatch.setattr(python_random.ctypes, "string_at", lambda at, size: bytes(size))
    asked = PythonRandom()
    monkeypatch.undo()
    assert asked._address is None
    assert asked.read() == copied.read()
    bits = asked.read()
    drawn = random.random()
    asked.write(bits, 0.25)
    assert asked.read() == copied.read() == bits
    assert (random.gauss(0, 1), random.random()) == (0.25, drawn)


def test_bytes_have_the_order_of_pythons_own_state():
    """What checkpoints hold."""
    random.seed(5)
    states = ProcessRandom(torch.device("cpu")).read()
    packed = struct.pack("<625I", *random.getstate()[1])
    assert packed in states.to_bytes()
    assert RandomStates.from_bytes(states.to_bytes(), 0).python_bits == states.python_bits


def seed(number):
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)

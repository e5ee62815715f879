"""A world of the backend torchft, with real processes; skipped where torchft is not installed."""

import pytest

from systems.backends.torchft import Torchft
from tests.backends.world import World, descendants


@pytest.fixture
def world(launcher, tmp_path):
    world = World(Torchft(start="preimported"), launcher, tmp_path)
    yield world
    world.backend.close()
    assert descendants() == []

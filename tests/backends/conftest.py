"""What tests of several backends start with."""

import pytest

from tests.backends.world import World, descendants, waiting_spares


@pytest.fixture
def worlds(launcher, tmp_path):
    """Makes worlds of a backend, each in a folder of its own, and closes them."""
    made = []

    def make(backend):
        made.append(World(backend, launcher, tmp_path / str(len(made))))
        return made[-1]

    yield make
    for world in made:
        world.backend.close()
    assert descendants() == waiting_spares() == []

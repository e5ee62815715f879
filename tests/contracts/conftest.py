"""A world for each backend in configs/backend: real processes, warm starts, nothing left."""

import pytest

from tests.backends.world import (
    World,
    configured,
    descendants,
    waiting_spares,
    warm_backends,
)


@pytest.fixture(params=warm_backends())
def world(request, launcher, tmp_path):
    name, choices = request.param
    world = World(configured("backend", name, **choices), launcher, tmp_path)
    yield world
    world.backend.close()
    world.backend.close()
    assert descendants() == []
    assert waiting_spares() == []


@pytest.fixture
def able_world(world):
    """A world whose backend can rescale and suspend; the others have nothing to show here."""
    if not (world.backend.abilities.rescale and world.backend.abilities.suspend):
        pytest.skip(f"{world.backend.name} can neither rescale nor suspend")
    return world

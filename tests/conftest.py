"""What all tests have in common."""

import pytest
from hypothesis import settings

# An example's time says nothing on a machine that also trains.
settings.register_profile("elastrace", deadline=None)
settings.load_profile("elastrace")


@pytest.fixture(scope="module")
def launcher():
    """Starts workers from a process that has imported what they need."""
    from tests.backends.world import children, warm_launcher

    launcher = warm_launcher()
    launcher.open()
    yield launcher
    launcher.close()
    assert children() == []

import pytest

from tests.program import wheel


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return wheel.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(built, tmp_path_factory):
    """Programs of an environment with the wheel, and the log of what it opens of the checkout."""
    return wheel.install(built, tmp_path_factory.mktemp("environment") / "own")

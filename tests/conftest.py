"""What all tests have in common."""

import os
import signal

import pytest
from hypothesis import settings

from tests.examples import choose, examples

# Several tests run at once, and a thread that waits for another one spins: with a thread for each
# core the tests of models take three times as long. Before torch and numpy are imported; workers
# of jobs have what their slots say.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")


def pytest_configure(config):
    """Choose how many examples properties are tried with; before test modules are imported."""
    choose(config.option.markexpr)
    # An example's time says nothing on a machine that also trains.
    settings.register_profile("elastrace", deadline=None, max_examples=examples(100))
    settings.load_profile("elastrace")


@pytest.hookimpl(tryfirst=True)  # before pytest drops what the expression of markers leaves out
def pytest_collection_modifyitems(config, items):
    """Let properties be part of the long suite as well, with all their examples."""
    if choose(config.option.markexpr):
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker("long")


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_not_ignored():
    """Commands that tests start listen to SIGINT, even if these tests run in the background of a
    shell script, which starts them with SIGINT ignored: a child would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def nothing_left():
    """Once all launchers are closed, no process of theirs lives: not what they fork from either."""
    from tests.backends.world import children

    yield
    assert children() == []


@pytest.fixture(scope="session")
def launcher(nothing_left):
    """Starts workers from a process that has imported what they need (that takes seconds, so
    the tests of all files share one)."""
    yield from _launcher()


@pytest.fixture(scope="session")
def catalogue_launcher(nothing_left):
    """Starts workers that have also imported what the programs of the catalogue are made of."""
    from tests.virtual.run_memory import names

    targets = [entry["_target_"] for entry in names("tiny").values()]
    yield from _launcher(sorted({target.rpartition(".")[0] for target in targets}))


def _launcher(modules=()):
    from tests.backends.world import warm_launcher

    launcher = warm_launcher()
    launcher.open(modules)
    yield launcher
    launcher.close()

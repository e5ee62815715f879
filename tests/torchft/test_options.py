"""Options of the backend torchft, and what it says where torchft is missing."""

import subprocess
import sys

import pytest

from systems.backends import torchft
from systems.backends.torchft import Torchft
from tests.backends.world import CLUSTER


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"start": "spare"}, "torchft knows only: cold, preimported"),
        ({"heartbeat_timeout_s": 0.0}, "heartbeat_timeout_s is 0.0"),
        ({"heartbeat_timeout_s": 0.1}, "every replica would be taken for dead"),
        ({"heartbeat_interval_s": -1.0}, "heartbeat_interval_s is -1.0"),
        ({"join_timeout_s": 0.0}, "join_timeout_s is 0.0"),
        ({"quorum_timeout_s": 0.0}, "quorum_timeout_s is 0.0"),
        ({"quorum_tick_s": 0.0}, "quorum_tick_s is 0.0"),
        ({"min_replicas": 0}, "min_replicas is 0"),
    ],
)
def test_options_out_of_range_are_refused_in_words(options, fact):
    with pytest.raises(ValueError, match=fact):
        Torchft(**options)


def test_a_missing_torchft_is_told_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(torchft.importlib.util, "find_spec", lambda name: None)
    (problem,) = Torchft().problems(CLUSTER)
    assert "pip install 'elastrace[torchft]'" in problem


def test_no_problem_is_told_where_torchft_is_installed(monkeypatch):
    monkeypatch.setattr(torchft.importlib.util, "find_spec", lambda name: object())
    assert Torchft().problems(CLUSTER) == []


def test_the_driver_imports_neither_torch_nor_torchft():
    code = (
        "import sys, systems.backends.torchft;"
        "print([name for name in ('torch', 'torchft') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"

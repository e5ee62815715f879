"""A heap that is kept takes no page anew in every step."""

import os
import subprocess
import sys

import pytest

from harness.machine.malloc import environment

SCRIPT = """
import resource, sys
import numpy as np
from harness.machine.malloc import keep_heap

if sys.argv[1] == "keep":
    print(keep_heap())
elif sys.argv[1] == "build":
    from types import SimpleNamespace

    from systems.runtime.worker.session import build
    from workloads.toy import Toy

    build(
        SimpleNamespace(
            num_threads=1, device="cpu", device_type="cpu", options={"hidden": 8}, seed=1,
            keeps_bits=False, common_kernels=False,
        ),
        Toy,
    )
for step in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [np.ones(3_000_000) for _ in range(8)]  # 24 MB each, in the heap from the second on
    del held
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
MANY, FEW = 1000, 100
"""Page faults; numpy asks for pages of 2 MB, where there are any."""


def steps(what, **environment):
    """What the script says of its own call, and the page faults of its last step."""
    clean = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, what],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    *said, faults = done.stdout.split()
    return said, int(faults)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc is not used here")
def test_pages_are_taken_once():
    assert steps("leave")[1] > MANY
    said, faults = steps("keep")
    assert said == ["True"]
    assert faults < FEW


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc is not used here")
def test_the_environment_says_the_same_to_other_code():
    assert steps("leave", **environment())[1] < FEW


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc is not used here")
def test_a_worker_keeps_its_heap():
    assert steps("build")[1] < FEW


def test_who_has_chosen_a_heap_keeps_it(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "")
    assert environment() == {}
    assert steps("keep", MALLOC_TRIM_THRESHOLD_="131072")[0] == ["False"]

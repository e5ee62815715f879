"""A heap that is kept takes no page anew in every step."""

import os
import subprocess
import sys

import pytest

from harness.kept_heap import ENVIRONMENT

SCRIPT = """
import resource, sys
import torch
from harness.kept_heap import keep_heap

if sys.argv[1] == "keep":
    print(keep_heap())
for step in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [torch.ones(10_000_000) for _ in range(4)]  # more than 32 MB each: malloc maps and unmaps
    del held
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 4 * 40_000_000 // 4096


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
    assert steps("leave")[1] > PAGES // 2
    said, faults = steps("keep")
    assert said == ["True"]
    assert faults < PAGES // 20


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc is not used here")
def test_the_environment_says_the_same_to_other_code():
    assert steps("leave", **ENVIRONMENT)[1] < PAGES // 20


def test_who_has_chosen_a_heap_keeps_it():
    assert steps("keep", MALLOC_TRIM_THRESHOLD_="131072")[0] == ["False"]

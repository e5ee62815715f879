"""What workers forbid so that bits do not depend on chance: kernels, searches, TF32.

On CUDA only that the switches are set; nothing has run there.
"""

import json
import subprocess
import sys

import pytest

from harness.cluster import uniform_cluster
from harness.contracts.backend_reports import ReportKind
from systems.backends.stop_free import StopFree
from systems.backends.virtual_thread import VirtualThread
from tests.backends.world import World

TWO_CORES = uniform_cluster(
    name="two_cores",
    num_hosts=1,
    devices_per_host=1,
    device_type="cpu",
    slots_per_device=1,
    cores_per_slot=2,
    num_cores=2,
)
_PROGRAM = """
import json, sys, warnings
warnings.simplefilter("error")
import torch
from systems.runtime.worker.determinism import make_deterministic, use_common_kernels
for device, num_threads, is_strict, common in json.loads(sys.argv[1]):
    make_deterministic(torch.device(device), num_threads, is_strict=is_strict)
    if common:
        use_common_kernels(torch.device(device))
    print(json.dumps([
        torch.get_deterministic_debug_mode(),
        torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.deterministic and not torch.backends.cudnn.benchmark,
    ]))
"""
NOTHING, WARN, RAISE = range(3)
STAGES = {
    ("cpu", 1, True, False): [NOTHING, True, False],
    ("cpu", 2, True, True): [RAISE, True, False],
    ("cuda", 1, False, False): [WARN, False, True],
    ("cuda", 1, True, True): [RAISE, False, True],
}
"""Device, threads, whether strict, whether with common kernels: what happens to operators
without deterministic kernels, whether TF32 may be used, whether algorithms are fixed."""


def test_switches():
    """One after the other in a process of their own, in which a warning is an error."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps(list(STAGES))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == list(STAGES.values())


@pytest.mark.parametrize("reconfigure", ["stop_free", "checkpoint"])
def test_an_operator_without_a_deterministic_kernel_is_refused_by_name(
    launcher, tmp_path, reconfigure
):
    backend = VirtualThread(start="preimported", reconfigure=reconfigure)
    world = World(backend, launcher, tmp_path, TWO_CORES)
    try:
        world.start((0,), refused="put")
        end = world.until_end(ReportKind.FAILED)
    finally:
        world.backend.close()
    assert "operator put_ has no deterministic kernel" in end.reason
    assert "backend.level=D0" in end.reason


@pytest.mark.parametrize(
    "backend",
    [
        StopFree(start="preimported"),
        VirtualThread(start="preimported", level="D0", reconfigure="checkpoint"),
    ],
)
def test_where_no_bits_are_promised_it_trains(launcher, tmp_path, backend):
    world = World(backend, launcher, tmp_path, TWO_CORES)
    try:
        world.start((0,), 3, refused="put")
        world.until_end()
    finally:
        world.backend.close()

"""Types of CPU slots: what their workers are told, refused, and kept from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cluster import is_cpu, joined_cluster, uniform_cluster
from harness.contracts.process import Warmth
from harness.engines.live.devices import device_problems, instruction_set_problems
from harness.machine.instruction_sets import InstructionSet, sets_of_this_machine
from systems.backends.static import Static
from systems.backends.virtual_thread import VirtualThread
from systems.runtime.driver.launch import slot_environment
from systems.runtime.wire.kernels import (
    Kernels,
    common_kernels,
    kernels_of,
    kernels_on,
    warmth_problems,
)
from tests.backends.world import configured

SSE41, AVX2, AVX512 = InstructionSet
ONE_HOST = {"num_hosts": 1, "devices_per_host": 1}


def cluster(*sets):
    parts = [
        uniform_cluster(
            name=f"part{number}",
            device_type="cpu" if name is None else f"cpu_{name}",
            instruction_set=name,
            cores_per_slot=1 + number,
            num_cores=4,
            **ONE_HOST,
        )
        for number, name in enumerate(sets)
    ]
    return joined_cluster(name="mixed", parts=parts)


def test_the_shipped_cluster_has_two_types_of_cpu_slots():
    found = configured("cluster", "cpu_two_types")
    assert found.device_types == ("cpu_avx2", "cpu_sse41")
    assert all(map(is_cpu, found.device_types))
    assert not is_cpu("cpux")
    assert device_problems(found, num_devices=0) == []
    assert [kernels_of(slot).num_threads for slot in found.slots] == [1, 1, 1, 1, 2, 2]
    assert common_kernels(found) == Kernels(1, SSE41, are_common=True)


@pytest.mark.parametrize(
    ("sets", "common"),
    [((None,), AVX2), ((AVX512, None), AVX2), ((AVX512, AVX2), AVX2), ((AVX2, SSE41), SSE41)],
)
def test_common_kernels_are_the_oldest_and_at_most_avx2(sets, common):
    """So that a job on a cluster of the newest CPUs alone has the bits of one on any."""
    found = cluster(*sets)
    assert common_kernels(found) == Kernels(1, common, are_common=True)
    for slot in found.slots:
        assert kernels_on(slot, found, common=True) == common_kernels(found)
        assert kernels_on(slot, found, common=False) == kernels_of(slot)


def test_workers_are_told_before_they_import_a_library():
    found = cluster(AVX2, SSE41)
    told = [slot_environment(slot, "127.0.0.1", kernels_of(slot)) for slot in found.slots]
    names = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "OMP_NUM_THREADS")
    assert [tuple(env[name] for name in names) for env in told] == [
        ("avx2", "AVX2", "1"),
        ("default", "SSE41", "2"),
    ]
    (plain,) = cluster(None).slots
    assert not kernels_of(plain).environment, "slots of no type have whatever the machine has"


def test_workers_that_have_imported_one_are_refused():
    mixed, plain = cluster(AVX2, SSE41), cluster(None)
    for warmth in (Warmth.PREIMPORTED, Warmth.SPARE):
        (of_slots,) = warmth_problems(warmth, mixed, common=False)
        assert "slots of cluster 'mixed' have instruction sets of their own" in of_slots
        (of_level,) = warmth_problems(warmth, plain, common=True)
        assert "level asks for common kernels (D2)" in of_level
        assert "backend.start=cold" in of_level
        assert warmth_problems(warmth, plain, common=False) == []
    assert warmth_problems(Warmth.COLD, mixed, common=True) == []
    assert Static(start="preimported").problems(mixed)
    assert VirtualThread(start="preimported", level="D2").problems(plain)
    assert VirtualThread(level="D2").problems(plain) == []


def test_an_instruction_set_that_the_machine_lacks_is_refused(tmp_path):
    (problem,) = instruction_set_problems(cluster(AVX512, AVX2), frozenset({SSE41, AVX2}))
    assert "has slots with instruction set avx512" in problem
    assert "this machine's CPU has sse41, avx2" in problem
    assert instruction_set_problems(cluster(AVX2, None), frozenset({SSE41, AVX2})) == []
    info = tmp_path / "cpuinfo"
    info.write_text("processor: 0\nflags\t\t: fpu sse4_1 sse4_2 fma avx2\nbugs\t\t:\n")
    assert sets_of_this_machine(info) == {SSE41, AVX2}
    assert sets_of_this_machine(tmp_path / "none") == frozenset()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"instruction_set": "avx", "device_type": "cpu"}, "known: sse41, avx2, avx512, or null"),
        ({"instruction_set": "avx2", "device_type": "a100"}, "only CPU slots have one"),
    ],
)
def test_wrong_sets_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        uniform_cluster(name="c", **ONE_HOST, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "D3"}, "level is 'D3'; known: D0, D1, D2, D0\\+D2, D1\\+D2"),
        ({"level": "D0"}, "set reconfigure=checkpoint, or level=D1"),
        ({"collectives": "nccl"}, "collectives is 'nccl', whose sums have no fixed order"),
        ({"collectives": "nccl", "reconfigure": "checkpoint"}, "set collectives=gloo, or"),
    ],
)
def test_options_that_would_lose_bits_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        VirtualThread(**options)


def test_what_jobs_are_held_to_has_the_kernels_of_the_first_slot_or_common_ones():
    mixed = configured("cluster", "cpu_two_types")
    of_d1 = VirtualThread(level="D1").reference(mixed)
    of_d2 = VirtualThread(level="D2").reference(mixed)
    assert (of_d1.env["ATEN_CPU_CAPABILITY"], of_d2.env["ATEN_CPU_CAPABILITY"]) == (
        "avx2",
        "default",
    )
    assert "--common-kernels" in of_d2.words
    assert "--common-kernels" not in of_d1.words


def test_bits_are_promised_on_slots_of_one_type_or_from_d2_on():
    plain, mixed = (configured("cluster", name) for name in ("cpu2", "cpu_two_types"))
    for level, promised in {"D0": (0, 0), "D1": (1, 0), "D2": (1, 1), "D0+D2": (0, 0)}.items():
        backend = VirtualThread(level=level, reconfigure="checkpoint")
        assert (backend.bitwise(plain), backend.bitwise(mixed)) == promised, level
        assert backend.warnings(plain) == []
        assert bool(backend.warnings(mixed)) == (level == "D1")
    assert (Static().bitwise(plain), Static().bitwise(mixed)) == (True, False)
    (caution,) = VirtualThread().warnings(mixed)
    assert "slots of 2 types (cpu_avx2 with avx2 and 1 thread, cpu_sse41 with sse41" in caution
    assert caution.endswith("set level=D2, or use a cluster of one type")


def test_accelerators_of_two_types_are_slots_of_two_types_unless_training_is_on_cpus():
    types = ("v100", "t4")
    parts = [uniform_cluster(name=kind, device_type=kind, **ONE_HOST) for kind in types]
    mixed = joined_cluster(name="two", parts=parts)
    assert not VirtualThread().bitwise(mixed)
    assert VirtualThread(device="cpu").bitwise(mixed)


@pytest.mark.long
def test_kernels_of_two_types_differ():
    """A matrix product, a convolution and a normalisation, in processes of their own."""
    old, new = (_run(PRODUCTS, Kernels(1, name)) for name in _two_types())
    # The product is MKL's, which goes by its own choice on an AMD, whatever it is told.
    own = slice(1 if _is_amd() else 0, None)
    assert all(one != other for one, other in zip(old[own], new[own], strict=True)), (old, new)


@pytest.mark.long
@pytest.mark.parametrize("common", [False, True])
def test_trainings_on_two_types_differ_without_common_kernels_and_are_equal_with_them(common):
    """Each under the limits that make a slot of this machine one of its type. Common kernels come
    on top of them, as on CPUs that have these limits by themselves: what they leave alone still
    tells the types apart."""
    older, newer = _two_types()
    mixed = cluster(newer, older)
    found = []
    for slot in mixed.slots:
        kernels = kernels_on(slot, mixed, common=common)
        of_its_type = kernels_of(slot).environment
        if common:  # these two are the common kernels' own; all else is the type's
            told = kernels.environment
            of_its_type |= {name: told[name] for name in ("ATEN_CPU_CAPABILITY", "MKL_CBWR")}
        found.append(_run(TRAINING, kernels, of_its_type))
    assert (found[0] == found[1]) == common, found


def _two_types():
    """An older and a newer instruction set that this machine has."""
    here = sets_of_this_machine()
    if not {SSE41, AVX2} <= here:
        pytest.skip("this machine's CPU is no x86 with AVX2: its slots cannot be of two types")
    return SSE41, AVX2


def _is_amd():
    return "AuthenticAMD" in Path("/proc/cpuinfo").read_text(encoding="utf-8")


_BEGIN = """
import hashlib, json, sys
import numpy as np, torch
from systems.runtime.worker.determinism import check_kernels, use_common_kernels
check_kernels()
common, num_threads = json.loads(sys.argv[1])
torch.set_num_threads(num_threads)
if common:
    use_common_kernels(torch.device("cpu"))
rng = np.random.default_rng(0)
def drawn(*shape):
    return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))
"""
PRODUCTS = """
made = [
    drawn(64, 512) @ drawn(512, 256),
    torch.nn.functional.conv2d(drawn(4, 64, 8, 8), drawn(64, 64, 3, 3), padding=1),
    torch.nn.functional.layer_norm(drawn(4, 8, 64), (64,)),
]
"""
TRAINING = """
from torch import nn
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
    nn.Conv2d(32, 32, 3, padding=1), nn.Flatten(1), nn.Linear(32 * 64, 64), nn.LayerNorm(64),
    nn.GELU(), nn.Linear(64, 10),
)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_(drawn(*parameter.shape) * 0.1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(5):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(drawn(8, 3, 8, 8)), drawn(8, 10)).backward()
    optimizer.step()
made = [value.detach() for value in model.state_dict().values()]
"""
_END = """
print(json.dumps([hashlib.sha256(one.numpy().tobytes()).hexdigest()[:8] for one in made]))
"""


def _run(program, kernels, environment=None):
    """Digests of what a program made with these kernels, in a process of its own."""
    done = subprocess.run(
        [
            *(sys.executable, "-c", _BEGIN + program + _END),
            json.dumps([kernels.are_common, kernels.num_threads]),
        ],
        env={**os.environ, **(kernels.environment if environment is None else environment)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)

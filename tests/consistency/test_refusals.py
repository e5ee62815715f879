"""Checks that could say nothing are refused before a run, each with its way out."""

import pytest

from harness.configuration.compose import options
from harness.machine.instruction_sets import InstructionSet, sets_of_this_machine
from tests.backends.world import configured
from tests.config.commands import assert_refused, command
from tests.consistency.worlds import checked, write_files

__all__ = ["command"]


@pytest.fixture
def words(tmp_path):
    return checked(write_files(tmp_path), "scheduler=fifo", "dry=true")


@pytest.mark.long
def test_a_check_is_planned_with_the_time_it_takes(words, command):
    answer = command(*words)
    assert (answer.code, answer.err) == (0, "")
    without = command(*words, "engine.check_reference=false")
    assert answer.out.split("about")[1] != without.out.split("about")[1]


@pytest.mark.parametrize(
    ("override", "facts"),
    [
        ("engine.fast_forward=true", ["check_reference is true", "set fast_forward=false"]),
        ("backend=stop_resume", ["jobs under stop_resume are bitwise equal to no", "backend="]),
        ("backend.data_order=blocks", ["data_order is 'blocks'", "backend.data_order=positions"]),
        ("backend.device=cuda", ["trains on the CPU", "backend.device=cpu"]),
        ("cluster.cores_per_slot=2", ["a thread for each of their cores", "cores_per_slot: 1"]),
        ("cluster.device_type=a100", ["(a100)", "backend.device=cpu"]),
        ("trace.transforms.0.least=14", ["a smaller batch than logical workers"]),
    ],
)
def test_what_cannot_be_checked_is_refused(words, command, override, facts):
    words = [word for word in words if word.split("=")[0] != override.split("=")[0]]
    if override.startswith("backend=stop_resume"):
        words = [word for word in words if "backend" not in word]
    assert_refused(command(*words, override), *facts)


def test_fixed_workers_that_do_not_fit_into_memory_are_refused(tmp_path, command):
    trace, pool = write_files(tmp_path)
    pool.write_text(pool.read_text() + "    memory_bytes_per_worker: 1_000_000_000_000\n")
    answer = command(*checked((trace, pool), "scheduler=fifo", "dry=true"))
    assert_refused(answer, "GiB are free")


@pytest.mark.parametrize("name", options("backend"))
def test_a_backend_names_a_reference_if_it_promises_bits(name):
    cluster = configured("cluster", "cpu2")
    backend = configured("backend", name)
    if backend.bitwise(cluster):
        assert backend.reference(cluster).module
    else:
        with pytest.raises(ValueError, match=r"engine\.check_reference=false"):
            backend.reference(cluster)


@pytest.mark.parametrize("sweep", [(), ("seed=0,1", "-m")])
@pytest.mark.long
def test_bits_that_slots_of_two_types_may_cost_are_announced_once(tmp_path, command, sweep):
    if not {InstructionSet.SSE41, InstructionSet.AVX2} <= sets_of_this_machine():
        pytest.skip("this machine's CPU is no x86 with AVX2: its slots cannot be of two types")
    words = checked(write_files(tmp_path), "scheduler=fifo", "dry=true")
    replaced = {"cluster=cpu2": "cluster=cpu_two_types", "backend.start=preimported": ""}
    answer = command(*filter(None, (replaced.get(word, word) for word in words)), *sweep)
    assert answer.code == 0
    (caution,) = answer.err.splitlines()
    assert caution.startswith("warning: backend.level is 'D1', and cluster 'cpu_two_types' has")

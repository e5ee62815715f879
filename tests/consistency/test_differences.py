"""Where two jobs part, from files written by hand: without training anything."""

import json

import pytest
import torch
from safetensors.torch import save_file

from harness.consistency.__main__ import main as consistency
from harness.consistency.compare import first_difference
from harness.consistency.job_files import read_job
from harness.contracts.evidence import COMMON, Stage
from harness.files.safe_names import file_name
from systems.runtime.worker.evidence import digest


def write_job(folder, *, losses=("0x1p0", "0x1p1"), own=None, digests=None, tensors=None):
    """A job of two steps; ``own``: every worker's losses; ``tensors``: reduced gradients of step 2
    by name, kept as evidence."""
    folder.mkdir()
    lines = [{"step": step, "loss": loss} for step, loss in enumerate(losses, 1)]
    for line, values in zip(lines, own or (), strict=own is not None):
        line["losses"] = values
    write_lines(folder / "steps.jsonl", lines)
    if digests is not None:
        write_lines(folder / "digests.jsonl", [{"step": 2, **digests}])
    if tensors is not None:
        found = {name: digest(value) for name, value in tensors.items()}
        line = {"step": 2, "stage": Stage.REDUCED, "found": found}
        write_lines(folder / f"evidence-{COMMON}.jsonl", [line])
        (folder / "evidence").mkdir()
        path = folder / "evidence" / f"step-00000002-{COMMON}.safetensors"
        save_file({f"{Stage.REDUCED}/{name}": value for name, value in tensors.items()}, path)
    return folder


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def parted(one, other):
    return first_difference(read_job(one), read_job(other))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool]
)
def test_the_first_element_that_differs_is_named(tmp_path, dtype):
    mine = torch.tensor([[1, 0], [1, 1], [0, 1]]).to(dtype)
    theirs = mine.clone()
    theirs[1, 0] = 0
    theirs[2, 1] = 0
    other = torch.ones(3).to(dtype)
    one = write_job(tmp_path / "a", tensors={"other": other, "weight": mine})
    two = write_job(tmp_path / "b", tensors={"other": other, "weight": theirs})
    found = parted(one, two)
    assert (found.step, found.stage, found.name) == (2, Stage.REDUCED, "weight")
    assert (found.element, found.values) == ((1, 0), (1.0, 0.0))
    assert (found.num_elements, found.largest) == (2, 1.0)
    assert consistency([str(one), str(two)]) == 1
    assert parted(one, one) is None


def test_a_bit_that_no_number_shows_is_found(tmp_path):
    one = write_job(tmp_path / "a", tensors={"w": torch.tensor([0.0, 1.0])})
    two = write_job(tmp_path / "b", tensors={"w": torch.tensor([-0.0, 1.0])})
    found = parted(one, two)
    assert (found.element, found.num_elements, found.largest) == ((0,), 1, 0.0)


def test_digests_that_only_one_job_has_are_a_difference(tmp_path):
    one = write_job(tmp_path / "a", digests={"parameters": "x"})
    two = write_job(tmp_path / "b", digests={"parameters": "x", "buffers": "y"})
    for pair in ((one, two), (two, one)):
        found = parted(*pair)
        assert (found.step, found.stage, found.name) == (2, None, "buffers")


def test_losses_tell_the_step_where_nothing_else_was_kept(tmp_path, capsys):
    one = write_job(tmp_path / "a")
    two = write_job(tmp_path / "b", losses=("0x1p0", "0x1p2"))
    assert consistency([str(one), str(two)]) == 1
    out = capsys.readouterr().out
    assert "different from step 2 on: loss" in out
    assert "engine.evidence=tensors" in out
    short = write_job(tmp_path / "c", losses=("0x1p0",))
    assert parted(one, short).part == "length"
    assert consistency([str(one), str(one)]) == 0
    assert consistency([str(tmp_path / "none"), str(one)]) == 2


def test_evidence_of_later_steps_does_not_hide_where_losses_part(tmp_path):
    """Losses part in step 1, evidence is there of step 2 only: it shows what followed."""
    one = write_job(tmp_path / "a", tensors={"w": torch.tensor([1.0])})
    other = write_job(tmp_path / "b", losses=("0x1p2", "0x1p1"), tensors={"w": torch.tensor([2.0])})
    found = parted(one, other)
    assert (found.step, found.stage, found.name) == (1, None, "loss")
    late = write_job(tmp_path / "c", losses=("0x1p0", "0x1p2"), tensors={"w": torch.tensor([2.0])})
    found = parted(one, late)
    assert (found.step, found.stage) == (2, Stage.REDUCED), "in one step evidence says more"


@pytest.mark.parametrize(
    ("step", "fact"), [(1, "the initial states of the jobs"), (2, "no evidence")]
)
def test_parameters_are_not_blamed_on_the_start_in_a_later_step(tmp_path, step, fact):
    jobs = [write_job(tmp_path / name) for name in "ab"]
    for value, folder in enumerate(jobs):
        line = {"step": step, "stage": Stage.PARAMETERS, "found": {"w": str(value)}}
        write_lines(folder / f"evidence-{COMMON}.jsonl", [line])
    found = parted(*jobs)
    assert (found.step, found.stage) == (step, Stage.PARAMETERS)
    assert fact in found.part


FOUR = [["0x1p0"] * 4, ["0x1p1"] * 4]
TWO = [["0x1p0"] * 2, ["0x1p1"] * 2]


@pytest.mark.parametrize(("mine", "theirs"), [(None, FOUR), (TWO, FOUR)])
def test_where_logs_have_other_losses_their_means_are_compared(tmp_path, capsys, mine, theirs):
    """As beside backends that log the mean alone; rounding of the mean itself is no difference."""
    one = write_job(tmp_path / "a", own=mine)
    rounded = ("0x1.0000000000001p0", "0x1p1")
    equal = write_job(tmp_path / "b", losses=rounded, own=theirs)
    assert consistency([str(one), str(equal)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("equal: mean losses of 2 steps (to 12 digits")
    other = write_job(tmp_path / "c", losses=("0x1p0", "0x1.000001p1"), own=theirs)
    assert consistency([str(one), str(other)]) == 1
    out = capsys.readouterr().out
    assert "different from step 2 on: mean loss" in out
    assert "4 in B, so means were compared" in out


def test_jobs_without_a_common_step_cannot_be_compared(tmp_path, capsys):
    one, none = write_job(tmp_path / "a"), write_job(tmp_path / "b", losses=())
    assert consistency([str(one), str(none)]) == 2
    err = capsys.readouterr().err
    assert f"{one}: steps 1 to 2; {none}: no steps: no step is in both" in err
    assert "give two jobs" in err


def test_a_job_of_a_run_is_found_by_its_id(tmp_path, capsys):
    """Ids come from traces; the folder of ``a/b`` has another name."""
    jobs = tmp_path / "run" / "jobs"
    jobs.mkdir(parents=True)
    for job_id in ("a/b", "c"):
        write_job(jobs / file_name(job_id))
    run = str(tmp_path / "run")
    assert consistency([run, run, "--job", "a/b"]) == 0
    assert consistency([run, run, "--job", "d"]) == 2
    assert "there is no job 'd'; jobs: a%2Fb, c" in capsys.readouterr().err
    assert consistency([run, run]) == 2
    assert "no --job was given" in capsys.readouterr().err

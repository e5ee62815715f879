"""Scripts in the forms that people write: equal to stock PyTorch, or refused with the way out.

Each runs plainly (no job, torch's own optimizer), with one worker, with two, and from one worker to
three to two. docs/how-to/elastic-script.md has the table of these.
"""

import runpy
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from harness.contracts.backend_reports import ReportKind
from harness.engines.live.consumed_samples import count_samples
from systems.runtime.data.position_order import PositionOrder
from systems.runtime.data.step_seed import EVERY_RANK, step_seed
from systems.runtime.wire.data_order import Range, share
from systems.runtime.wire.step_log import read_lines
from systems.script import api
from tests.elastic.scripts import points
from tests.elastic.test_api import launcher, run, worlds

__all__ = ["launcher", "run"]

FOLDER = Path(points.__file__).parent
STEPS = 41
"""Of jobs that keep their size; in the middle of an epoch."""


@dataclass(frozen=True)
class Works:
    """A script that ends with the parameters of stock PyTorch."""

    name: str
    arguments: tuple[str, ...] = ()


WORKS = [
    Works("plain_loop"),
    Works("clipping"),
    Works("amp"),
    Works("amp_unscale"),
    Works("scheduler_before"),
    Works("scheduler_after"),
    Works("ema"),
    Works("freezing"),
    Works("loss_with_parameters", ("module",)),
    Works("checkpoints"),
    Works("early_stopping", ("never",)),
    Works("mixed_types"),
    Works("tied_weights"),
    Works("metrics"),
    Works("compiled"),
    Works("compiled", ("after",)),
    Works("clamped", ("told",)),
    Works("attributes"),
]
REFUSED = [
    (
        "accumulation",
        (),
        1,
        "To accumulate gradients over several batches, give batches() their sum",
    ),
    ("two_optimizers", (), 1, "2.weight wants a gradient, and the optimizer does not have it"),
    ("gan", (), 1, "init() was called twice, and a job trains one model with one optimizer"),
    ("freezing", ("thaw",), 1, "0.weight was unfrozen after the first batch"),
    ("loss_with_parameters", (), 1, "the optimizer has 1 parameters that are not the model's"),
    ("early_stopping", ("one",), 2, "this worker's loop ended after step 16, and others' go on"),
    ("sparse_embedding", (), 1, "make them with sparse=False"),
    ("exception", (), 2, "ValueError: a file that only this worker reads is broken"),
    ("clamped", (), 1, "the script has changed 0.weight outside optimizer.step()"),
]


def named(cases):
    return ["-".join((case.name, *case.arguments)) for case in cases]


def plain(script, steps, out, monkeypatch, *arguments):
    """Run a script with python alone for so many steps, and return what it saves."""
    alone = api.Batches._alone
    drawn = 0

    def limited(self):
        nonlocal drawn
        for batch in alone(self):
            if drawn == steps:
                self._feed = None  # no epoch follows
                return
            drawn += 1
            yield batch
            if drawn == steps:
                return

    epochs = api.Batches.epochs

    def counted(self):
        for epoch in epochs(self):
            yield epoch
            if drawn == steps:
                return

    monkeypatch.setattr(api.Batches, "_alone", limited)
    monkeypatch.setattr(api.Batches, "epochs", counted)
    monkeypatch.setattr(sys, "argv", [str(script), str(out), *arguments])
    monkeypatch.syspath_prepend(FOLDER)
    runpy.run_path(str(script), run_name="__main__")
    assert drawn == steps
    return torch.load(out, weights_only=True)


def equal(found, expected):
    assert list(found) == list(expected)
    is_tight = all(value.dtype is not torch.float32 for value in expected.values())
    bounds = {"rtol": 1e-7, "atol": 1e-9} if is_tight else {"rtol": 1e-4, "atol": 1e-5}
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, **bounds)


def trained(job):
    end = job.until_end()
    assert end.kind is ReportKind.FINISHED, f"{end}\n{job.logs()}"
    assert count_samples(job.folder, end.step) == (0, 0)
    return end


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("case", WORKS, ids=named(WORKS))
@pytest.mark.long
def test_a_script_gives_what_it_gives_plainly(case, workers, run, tmp_path, monkeypatch):
    script, out = FOLDER / f"{case.name}.py", tmp_path / "out.pt"
    job = run(script, str(out), *case.arguments, workers=workers, seed=api.ALONE_SEED)
    job.backend.set_target_step("job", STEPS)
    end = trained(job)
    found = torch.load(out, weights_only=True)
    equal(found, plain(script, end.step, tmp_path / "plain.pt", monkeypatch, *case.arguments))


@pytest.mark.parametrize("case", WORKS, ids=named(WORKS))
@pytest.mark.long
def test_a_script_that_grows_and_shrinks_gives_what_it_gives_plainly(
    case, run, tmp_path, monkeypatch
):
    grows_and_shrinks(case, run, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ["clipping", "scheduler_after"])
def test_clipping_and_schedules_survive_changes(name, run, tmp_path, monkeypatch):
    grows_and_shrinks(Works(name), run, tmp_path, monkeypatch)


def grows_and_shrinks(case, run, tmp_path, monkeypatch):
    script, out = FOLDER / f"{case.name}.py", tmp_path / "out.pt"
    job = run(script, str(out), *case.arguments, "slow", seed=api.ALONE_SEED)
    job.until_step(9)
    grown = job.do(action="scale_out", to=3)
    assert grown["status"] == "done", f"{grown}\n{job.logs()}"
    job.until_step(grown["step"] + 9)
    # The first worker leaves: a worker that has joined saves the results.
    shrunk = job.do(action="scale_in", leave=[0])
    assert shrunk["status"] == "done", f"{shrunk}\n{job.logs()}"
    job.until_step(shrunk["step"] + 9)
    job.do(action="finish")
    end = trained(job)
    assert worlds(job.folder) == [1, 3, 2]
    found = torch.load(out, weights_only=True)
    expected = plain(script, end.step, tmp_path / "plain.pt", monkeypatch, *case.arguments)
    equal(found, expected)
    for path in sorted(tmp_path.glob("plain.pt.epoch*")):
        mine = tmp_path / path.name.replace("plain", "out")
        equal(torch.load(mine, weights_only=True), torch.load(path, weights_only=True))


@pytest.mark.parametrize(
    ("name", "arguments", "workers", "reason"),
    REFUSED,
    ids=["-".join((name, *arguments)) for name, arguments, _, _ in REFUSED],
)
def test_a_script_that_would_go_wrong_is_refused(name, arguments, workers, reason, run, tmp_path):
    job = run(FOLDER / f"{name}.py", str(tmp_path / "out.pt"), *arguments, workers=workers)
    end = job.until_end()
    assert end.kind is ReportKind.FAILED
    assert reason in end.reason
    assert not (tmp_path / "out.pt").exists()


@pytest.mark.parametrize("kind", ["norm", "dropout", "noise"])
@pytest.mark.parametrize("changes", [False, True], ids=["two", "one-three-two"])
@pytest.mark.long
def test_what_depends_on_random_numbers_or_a_worker_s_samples_is_as_under_ddp(
    kind, changes, run, tmp_path, monkeypatch
):
    out = tmp_path / "out.pt"
    workers = 1 if changes else 2
    slow = ["slow"] if changes else []
    script = FOLDER / "random_layers.py"
    job = run(script, str(out), kind, *slow, workers=workers, seed=api.ALONE_SEED)
    if changes:
        job.until_step(9)
        grown = job.do(action="scale_out", to=3)
        job.until_step(grown["step"] + 9)
        job.do(action="scale_in", leave=[0])
        job.until_step(job.job.step + 9)
        job.do(action="finish")
    else:
        job.backend.set_target_step("job", STEPS)
    end = trained(job)
    lines = {line["step"]: line["world"] for line in read_lines(job.folder / "steps.jsonl")}
    sizes = [lines[step] for step in sorted(lines)]
    assert len(sizes) == end.step
    assert set(sizes) == ({1, 2, 3} if changes else {2})
    equal(torch.load(out, weights_only=True), by_shares(kind, sizes, monkeypatch))


def by_shares(kind, sizes, monkeypatch):
    """What DistributedDataParallel does, in one process: every worker's part of a batch has its own
    statistics and random numbers, gradients are averaged, and the first worker's buffers stay."""
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "argv", ["random_layers.py", "", kind])
    model = runpy.run_path(str(FOLDER / "random_layers.py"), run_name="part")["layers"]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = points.Points()
    order = PositionOrder(api.ALONE_SEED, points.NUM_SAMPLES)
    for step, size in enumerate(sizes):
        first = step * points.BATCH % points.NUM_SAMPLES
        epoch = step * points.BATCH // points.NUM_SAMPLES
        optimizer.zero_grad()
        before = {name: value.clone() for name, value in model.named_buffers()}
        kept = before
        for rank in range(size):
            start, stop = share(points.BATCH, size, rank)
            ids = order.ids([Range(epoch, first + start, first + stop)])
            for name, value in model.named_buffers():
                value.copy_(before[name])
            torch.manual_seed(step_seed(api.ALONE_SEED, step, rank))
            loss = points.error(model(data.x[ids]), data.y[ids])
            (loss * (stop - start) / points.BATCH).backward()
            if rank == 0:
                kept = {name: value.clone() for name, value in model.named_buffers()}
        for name, value in model.named_buffers():
            value.copy_(kept[name])
        if kind == "noise":
            torch.manual_seed(step_seed(api.ALONE_SEED, step, EVERY_RANK))
            for parameter in model.parameters():
                parameter.grad += 0.1 * torch.randn_like(parameter)
        optimizer.step()
    return model.state_dict()

"""What a script may not do, each refused in one sentence, and what drifts, found by its name."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from harness.contracts.backend_reports import ReportKind
from systems.script import api
from systems.script.errors import ScriptError
from systems.script.messages import ScaleOut
from tests.elastic.test_api import launcher, run
from tests.elastic.test_scripts import FOLDER, equal, plain

__all__ = ["launcher", "run"]

ROOT = Path(__file__).resolve().parents[2]
HEAD = f"""
import sys, torch
sys.path.insert(0, {str(FOLDER)!r})
from points import BATCH, EPOCHS, Points, error, network
from systems.script import api as elastic
"""
BUILD = """
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = elastic.batches(Points(), BATCH, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)
"""


def loop(body):
    """A whole script whose step is this."""
    lines = textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    return f"{BUILD}for epoch in loader.epochs():\n    for x, y in loader:\n{lines}\n"


REFUSED = {
    "a hook on a gradient": (
        loop("""
        if epoch == 1:
            model[0].weight.register_hook(lambda gradient: gradient.clamp(-1, 1))
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
        """),
        "0.weight has a hook on its gradient",
    ),
    "a late hook on a gradient": (
        loop("""
        if elastic.step() == 1:
            model[2].bias.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5))
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
        """),
        "2.bias has a hook on its gradient",
    ),
    "a second optimizer of the same parameters": (
        BUILD + "other = torch.optim.Adam(model.parameters())\n" + "next(iter(loader.epochs()))\n",
        "a second optimizer (Adam) has parameters of the model",
    ),
    "a part of the model without an optimizer": (
        "model = network()\nelastic.init(model, torch.optim.SGD(model[2].parameters(), lr=0.1))\n",
        "0.weight wants a gradient, and the optimizer does not have it",
    ),
    "a tensor as the learning rate": (
        "model = network()\n"
        "elastic.init(model, torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1)))\n",
        "Give a learning rate as a number",
    ),
    "a graph of the gradients": (
        loop("""
        optimizer.zero_grad()
        error(model(x), y).backward(create_graph=True)
        optimizer.step()
        """),
        "create_graph=True",
    ),
    "a scheduler made late": (
        loop("""
        if epoch == 1:
            torch.optim.lr_scheduler.StepLR(optimizer, 3)
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
        """),
        "a StepLR was made after the first batch",
    ),
    "the loader after training": (
        loop("""
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
        """).replace("EPOCHS)", "1)")
        + "elastic.shutdown()\nfor x, y in loader:\n    model(x)\n",
        "the loader has no batches left: training is over",
    ),
    "an epoch left early": (
        loop("""
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
        break
        """),
        "Either the loop has left an epoch early",
    ),
    "two backward passes": (
        loop("""
        optimizer.zero_grad()
        loss = error(model(x), y)
        loss.backward(retain_graph=True)
        loss.backward()
        optimizer.step()
        """),
        "there were two backward passes in one step",
    ),
    "gradients never zeroed": (
        loop("""
        error(model(x), y).backward()
        optimizer.step()
        """),
        "call optimizer.zero_grad() in every step",
    ),
    "a gradient taken away": (
        loop("""
        optimizer.zero_grad()
        error(model(x), y).backward()
        model[0].bias.grad = None
        optimizer.step()
        """),
        "the gradient of 0.bias was set to None",
    ),
    "no backward pass": (
        loop("""
        optimizer.zero_grad()
        error(model(x), y)
        optimizer.step()
        """),
        "optimizer.step() without a backward pass",
    ),
    "a parameter without a part in the loss": (
        loop("""
        optimizer.zero_grad()
        output = model(x)
        loss = error(output, y) if epoch < 1 else model[2].bias.sum() + 0 * output.detach().sum()
        loss.backward()
        optimizer.step()
        """),
        "3 parameters had no part in the loss of step 9, such as 0.weight",
    ),
    "a closure": (
        loop("""
        def closure():
            optimizer.zero_grad()
            loss = error(model(x), y)
            loss.backward()
            return loss
        optimizer.step(closure)
        """),
        "optimizer.step() was given a closure",
    ),
    "a group added later": (
        loop("""
        if epoch == 1 and len(optimizer.param_groups) == 1:
            optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))]})
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
        """),
        "the optimizer's parameters were changed after the first batch",
    ),
    "epochs by range": (
        BUILD + "for _ in range(EPOCHS):\n    for x, y in loader:\n        pass\n",
        "loop over them with 'for epoch in loader.epochs()'",
    ),
    "a module in DistributedDataParallel": (
        "model = torch.nn.DataParallel(network())\n"
        "elastic.init(model, torch.optim.SGD(model.parameters(), lr=0.1))\n",
        "give it the module itself",
    ),
    "no optimizer of torch": (
        "elastic.init(network(), object())\n",
        "init() was given a object as the optimizer",
    ),
    "nothing to train": (
        "model = network().requires_grad_(False)\n"
        "elastic.init(model, torch.optim.SGD(model.parameters(), lr=0.1))\n",
        "no parameter of the model that init() was given wants a gradient",
    ),
    "a second init": (
        BUILD + "elastic.init(model, torch.optim.SGD(model.parameters(), lr=1.0))\n",
        "init() was called twice",
    ),
    "a network that init does not know": (
        "other = network()\nown = torch.optim.Adam(other.parameters())\n"
        + BUILD
        + "next(iter(loader.epochs()))\n",
        "a second optimizer (Adam) has parameters that init() was not given",
    ),
    "a state that cannot travel": (
        BUILD + "class Kept:\n    def state_dict(self):\n        return {'file': sys.stdout}\n"
        "    load_state_dict = None\nelastic.carry(kept=Kept())\nnext(iter(loader.epochs()))\n",
        "the state of kept is a TextIOWrapper, which cannot travel",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_right_is_refused(case, run, tmp_path):
    text, reason = REFUSED[case]
    script = tmp_path / "script.py"
    script.write_text(HEAD + text)
    end = run(script).until_end()
    assert end.kind is ReportKind.FAILED
    assert reason in end.reason


def test_a_checkpoint_of_an_average_is_refused_before_training(run, tmp_path):
    script = tmp_path / "script.py"
    average = "average = torch.optim.swa_utils.AveragedModel(model)\n"
    script.write_text(HEAD + BUILD + average + "next(iter(loader.epochs()))\n")
    end = run(script, recovery="consistent", checkpoint_every=5).until_end()
    assert "AveragedModel 1, whose tensors are in no checkpoint" in end.reason


def test_a_loop_over_epochs_does_not_go_back_to_an_earlier_one(run, tmp_path):
    script = FOLDER / "scheduler_after.py"
    options = {"recovery": "consistent", "checkpoint_every": 10**6}
    job = run(script, str(tmp_path / "out.pt"), "slow", workers=2, **options)
    job.until_step(20)
    job.kill("w2")
    end = job.until_end()
    assert end.kind is ReportKind.FAILED, str(end)
    assert "Or the job went back to a checkpoint" in end.reason


DRIFTS = {
    "learning rate": (
        "optimizer.param_groups[0]['lr'] = 0.05 / (1 + elastic.rank())",
        "the optimizer's hyper-parameters",
    ),
    "parameter": ("model[2].bias.data += elastic.rank()", "parameter 2.bias"),
    "optimizer state": (
        "optimizer.state[model[0].weight]['momentum_buffer'] += elastic.rank()",
        "optimizer state momentum_buffer of 0.weight",
    ),
    "what is carried": ("kept.count += elastic.rank()", "what the script carries"),
}


@pytest.mark.parametrize(
    ("case", "at"),
    # What a step's checksums have is found in the steps after it, before any change.
    [*((case, "end") for case in DRIFTS), ("what is carried", "change")],
)
def test_workers_that_drift_end_the_job_with_the_tensor_s_name(case, at, run, tmp_path):
    line, name = DRIFTS[case]
    script = tmp_path / "script.py"
    body = f"""
    optimizer.zero_grad()
    error(model(x), y).backward()
    optimizer.step()
    if elastic.step() == 19 or {at == "change"}:
        {line}
    """
    kept = (
        "class Kept:\n    count = 0\n    def state_dict(self):\n        return {'n': self.count}\n"
        "    def load_state_dict(self, state):\n        self.count = state['n']\n"
        "kept = Kept()\nelastic.carry(kept=kept)\n"
    )
    text = loop(body).replace("lr=0.05)", "lr=0.05, momentum=0.5)")
    script.write_text(HEAD + kept + text + "elastic.shutdown()\n")
    job = run(script, "slow", workers=2)
    if at == "change":
        job.until_step(5)
        job.job.request(ScaleOut(to=3), lambda answer: None)
    else:
        job.backend.set_target_step("job", 20)
    end = job.until_end()
    assert end.kind is ReportKind.FAILED
    assert "the workers differ in" in end.reason
    assert name in end.reason


def test_data_sets_of_different_lengths_are_found_before_the_first_update(run, tmp_path):
    """The workers would train on some samples twice and on others never."""
    script = tmp_path / "script.py"
    text = loop("""
    optimizer.zero_grad()
    error(model(x), y).backward()
    optimizer.step()
    """)
    part = "torch.utils.data.Subset(Points(), range(96 - elastic.rank()))"
    script.write_text(HEAD + text.replace("Points()", part))
    end = run(script, workers=2).until_end()
    assert end.kind is ReportKind.FAILED
    assert "after step 0 the workers differ in the data set's length" in end.reason


def test_learning_rates_that_differ_are_found_in_the_next_step(run, tmp_path):
    script = tmp_path / "script.py"
    body = """
    optimizer.zero_grad()
    error(model(x), y).backward()
    if elastic.step() == 30:
        optimizer.param_groups[0]["lr"] = 0.01 / (1 + elastic.rank())
    optimizer.step()
    """
    script.write_text(HEAD + loop(body))
    end = run(script, "slow", workers=2).until_end()
    assert end.kind is ReportKind.FAILED
    assert "in step 31 the workers had different learning rates" in end.reason


NOISE = """
    optimizer.zero_grad()
    error(model(x), y).backward()
    own = torch.Generator().manual_seed(elastic.rank())
    model[2].bias.grad += 0.1 * torch.randn(1, dtype=torch.float64, generator=own)
    optimizer.step()
"""
LOCAL_LOSS = """
    optimizer.zero_grad()
    loss = error(model(x), y)
    loss.backward()
    optimizer.param_groups[0]["lr"] = 0.01 * loss.item()
    optimizer.step()
"""


@pytest.mark.parametrize("body", [NOISE, LOCAL_LOSS], ids=["noise", "local loss"])
def test_updates_that_differ_are_found_within_some_steps(body, run, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(HEAD + loop(body))
    end = run(script, "slow", workers=2).until_end()
    assert end.kind is ReportKind.FAILED
    assert "or came to different parameters" in end.reason
    assert end.step < 10


def test_a_parameter_changed_through_data_is_found_when_a_worker_joins(run, tmp_path):
    job = run(FOLDER / "clamped.py", str(tmp_path / "out.pt"), "data", "slow", workers=1)
    job.until_step(5)
    job.job.request(ScaleOut(to=2), lambda answer: None)
    end = job.until_end()
    assert end.kind is ReportKind.FAILED
    assert "the workers differ in parameter" in end.reason
    assert "changes_parameters=True" in end.reason


@pytest.mark.parametrize(
    "name", ["scheduler_before", "scheduler_after", "ema", "amp", "attributes", "clamped"]
)
@pytest.mark.long
def test_what_a_script_keeps_counts_a_lost_step_once(name, run, tmp_path, monkeypatch):
    script, out = FOLDER / f"{name}.py", tmp_path / "out.pt"
    job = run(script, str(out), "told", "slow", workers=4, seed=api.ALONE_SEED)
    for number, worker in enumerate(("w3", "w1", "w2")):
        job.until_step(job.job.step + 7)
        job.kill(worker)
        job.until(lambda number=number: len(job.job.slots) == 3 - number)
    job.until_step(job.job.step + 7)
    assert job.do(action="scale_out", to=2)["status"] == "done"
    job.until_step(job.job.step + 7)
    job.do(action="finish")
    end = job.until_end()
    assert end.kind is ReportKind.FINISHED, f"{end}\n{job.logs()}"
    found = torch.load(out, weights_only=True)
    equal(found, plain(script, end.step, tmp_path / "plain.pt", monkeypatch, "told"))


SAVED = """
import copy
saved = copy.deepcopy(model)
assert type(saved) is torch.nn.Sequential and type(model) is not type(saved)
assert isinstance(model, torch.nn.Sequential)
first = model[0].weight.clone()
norm = torch.nn.BatchNorm1d(1)
for epoch in loader.epochs():
    for x, y in loader:
        optimizer.zero_grad()
        error(model(x), y).backward()
        optimizer.step()
    break
assert torch.equal(saved[0].weight, first) and not torch.equal(model[0].weight, first)
assert saved(x).shape == (len(x), 1)
torch.save(model, sys.argv[1])
elastic.shutdown()
"""


@pytest.mark.long
def test_a_model_can_be_copied_and_saved_whole(run, tmp_path):
    script, out = tmp_path / "script.py", tmp_path / "whole.pt"
    script.write_text(HEAD + BUILD + SAVED)
    end = run(script, str(out)).until_end()
    assert end.kind is ReportKind.FINISHED, end
    # Loading it needs torch alone.
    load = f"import torch; m = torch.load({str(out)!r}, weights_only=False); print(m, m[0].weight)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", load], capture_output=True, text=True, check=True, cwd="/"
    )
    assert "Linear(in_features=4" in done.stdout


def test_data_that_has_no_items_by_id_is_refused():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([1])

    with pytest.raises(ScriptError, match="give it a map-style data set"):
        api.batches(Stream(), 4)
    with pytest.raises(ScriptError, match="give it the loader's data set"):
        api.batches(torch.utils.data.DataLoader([1, 2, 3]), 4)
    with pytest.raises(ScriptError, match=r"without state_dict\(\) and load_state_dict\(\)"):
        api.carry(best=3.0)
    with pytest.raises(ScriptError, match="needs their number"):
        next(api.batches([1, 2, 3], 3).epochs())


def test_alone_a_batch_reaches_into_the_next_epoch_as_in_a_job():
    loader = api.batches(list(range(10)), 4, epochs=2)
    ids = [[batch.tolist() for batch in loader] for _ in loader.epochs()]
    assert [len(epoch) for epoch in ids] == [3, 2]
    flat = [sample for epoch in ids for batch in epoch for sample in batch]
    assert sorted(flat[:10]) == sorted(flat[10:]) == list(range(10))
    assert (api.rank(), api.num_workers(), api.is_first()) == (0, 1, True)

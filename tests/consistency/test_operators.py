"""Two trainings that part in one operator: the comparison names it, forward and backward."""

import importlib
from pathlib import Path

import pytest
import torch
import yaml

from harness.consistency.__main__ import main as consistency
from harness.consistency.job_files import read_job
from harness.contracts.evidence import Evidence, Stage
from harness.contracts.workload import WorkloadSpec
from systems.runtime.data.make_order import data_order
from systems.runtime.wire.data_order import Range
from systems.runtime.worker.evidence import Recorder
from systems.runtime.worker.operator_watch import OperatorWatch
from tests.backends.world import CONFIGS
from tests.consistency.planted import LITTLE, Scaled
from tests.virtual.worlds import SEED, reference, virtual

STEPS, NUM_WORKERS = 2, 2
WATCHED = Evidence(1, STEPS, tensors=True, operators=True)
TARGET = "tests.consistency.planted.Planted"


def trained(launcher, folder, slots=(0,), **options):
    """The directory of a job under virtual threads, with evidence of all its operators."""
    world = virtual(launcher, folder)
    try:
        world.start(
            slots,
            STEPS,
            seed=SEED,
            workload=WorkloadSpec("planted", TARGET, options),
            logical_workers=NUM_WORKERS,
            evidence=WATCHED,
        )
        world.until_end()
    finally:
        world.backend.close()
    return str(world.job_dir())


@pytest.fixture(scope="module")
def sound(launcher, tmp_path_factory):
    """A job without a difference."""
    return trained(launcher, tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize(
    ("planted", "named"),
    [
        ("backward", "backward second.passing: ScaledBackward[0] of worker 0"),
        pytest.param(
            "mapping", "operators second.part[1][squared] of worker 0", marks=pytest.mark.long
        ),
        pytest.param(
            "code",
            "operators second, before second.activation[0] of worker 0",
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_operator_that_differs_is_named(launcher, sound, tmp_path, capsys, planted, named):
    assert consistency([sound, trained(launcher, tmp_path, planted=planted)]) == 1
    text = capsys.readouterr().out
    assert f"different from step 1 on: {named}\n" in text, text
    assert "first element [" in text
    assert "points to: kernel" in text


@pytest.mark.long
def test_on_other_slots_all_operators_are_equal(launcher, sound, tmp_path, capsys):
    assert consistency([sound, trained(launcher, tmp_path, slots=(0, 1))]) == 0
    assert f"evidence of {STEPS} steps agrees" in capsys.readouterr().out


@pytest.mark.long
def test_the_stock_script_s_modules_make_the_same(sound, tmp_path, capsys):
    evidence = ("--evidence", "operators", "--evidence-steps", "1", str(STEPS))
    reference(tmp_path, NUM_WORKERS, STEPS, workload=TARGET, script=evidence)
    stock = tmp_path / "reference.jsonl"
    shared = [set(read_job(path).stages[1, Stage.OPERATORS, "0"]) for path in (stock, Path(sound))]
    assert {"first.part.linear", "second.passing", "head"} <= set.intersection(*shared)
    assert consistency([str(stock), sound]) == 0
    assert f"evidence of {STEPS} steps agrees" in capsys.readouterr().out


def built(target):
    module, _, kind = target.rpartition(".")
    return getattr(importlib.import_module(module), kind)()


def one_step(folder, workload, change=lambda model: None):
    """The directory of one step in this process, on a model to which something was done."""
    folder.mkdir()
    model = workload.build_model(3)
    change(model)
    model.train()
    optimizer = workload.build_optimizer(model)
    data = data_order("positions", 3, workload.num_samples, 1)
    recorder = Recorder(WATCHED, folder, model, optimizer, torch.device("cpu"), data)
    batch = workload.samples([0, 1, 2])
    recorder.begin_step(0, is_first=True)
    recorder.begin_worker(0, batch, [Range(0, 0, 3)])
    torch.manual_seed(3)
    loss = workload.loss(model, batch)
    recorder.before_backward(loss)
    recorder.after_forward(loss)
    loss.backward()
    recorder.end_worker()
    (folder / "steps.jsonl").write_text('{"step": 1, "loss": "0x0p0"}\n')
    return str(folder)


class Passed(torch.nn.Module):
    """A module with something done to what it gives."""

    def __init__(self, module, then):
        super().__init__()
        self.module, self.then = module, then

    def forward(self, *args, **kwargs):
        return self.then(self.module(*args, **kwargs))


def replaced(name, then):
    def change(model):
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, Passed(model.get_submodule(name), then))

    return change


def times(factor):
    """The first part of a tuple."""
    return lambda output: (output[0] * factor, *output[1:])


def passed(factor):
    return lambda output: Scaled.apply(output, factor)


@pytest.mark.parametrize(
    ("target", "name", "thens", "named"),
    [
        pytest.param(
            "workloads.language.BERT",
            "bert.encoder.layer.1.attention",
            (times(1.0), times(LITTLE)),
            "operators bert.encoder.layer.1.attention[0]",
            id="bert-tuple",
        ),
        pytest.param(
            "workloads.gpt2.GPT2",
            "transformer.h.1.attn",
            (times(1.0), times(LITTLE)),
            "operators transformer.h.1.attn[0]",
            id="gpt2-tuple",
        ),
        pytest.param(
            "workloads.gpt2.GPT2",
            "transformer.h.1.mlp",
            (passed(1.0), passed(LITTLE)),
            "backward transformer.h.1.mlp: ScaledBackward[0]",
            id="gpt2-backward",
        ),
    ],
)
@pytest.mark.long
def test_models_of_transformers(tmp_path, capsys, target, name, thens, named):
    workload = built(target)
    one, other = (
        one_step(tmp_path / str(number), workload, replaced(name, then))
        for number, then in enumerate(thens)
    )
    assert consistency([one, other]) == 1
    text = capsys.readouterr().out
    assert f"different from step 1 on: {named} of worker 0\n" in text, text
    assert consistency([one, one]) == 0


def models():
    """The catalogue's, at size tiny: convolutions, in-place operators, attention, recurrence."""
    pool = yaml.safe_load((CONFIGS / "workload" / "tiny.yaml").read_text())["pool"]
    for name, entry in pool.items():
        yield pytest.param(entry["_target_"], id=name, marks=pytest.mark.long)


@pytest.mark.parametrize("target", [pytest.param(TARGET, id="planted"), *models()])
def test_watching_changes_no_bit(target):
    workload, gradients = built(target), []
    for watched in (False, True):
        model = workload.build_model(1)
        model.train()
        torch.manual_seed(1)
        watch = OperatorWatch(model)
        if watched:
            watch.begin()
        for _ in range(2):  # gradients are added up
            loss = workload.loss(model, workload.samples([1, 2, 3]))
            watch.before_backward(loss)
            loss.backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
        assert bool(watch.forward) == bool(watch.backward) == watched
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
    names = {name.split(":")[0] for name in watch.backward}
    assert "loss" in names
    assert len(names) > 1
    assert any("#1" in name for name in watch.forward)

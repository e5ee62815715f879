"""One suite for every workload: each entry of each file in configs/workload/ is tested by
existing. Entries of size ``small`` are for the long tests, and those of size ``paper`` are only
built on the meta device and counted: a step of theirs belongs on an accelerator."""

import functools
import importlib
import math
from pathlib import Path

import pytest
import torch
import yaml

FOLDER = Path(__file__).parents[2] / "configs" / "workload"
PUBLISHED_PARAMETERS = {
    # torchvision's tables for its own ImageNet models.
    "resnet50": (25_557_032, 25_557_032),
    "vgg16": (138_357_544, 138_357_544),
    # BERT-Base with its pooler, 109.48 M, and a classifier of two labels.
    "bert": (109_482_240 + 768 * 2 + 2, 109_482_240 + 768 * 2 + 2),
    # "65 M" in Vaswani et al., table 3, where the vocabulary is "about 37,000" and the one
    # table of words is counted once.
    "transformer": (60_000_000, 65_500_000),
    "resnet18": (11_689_512, 11_689_512),
    "vgg11_bn": (132_868_840, 132_868_840),
    "vgg19": (143_667_240, 143_667_240),
    "alexnet": (61_100_840, 61_100_840),
    "inception3": (27_161_264, 27_161_264),
    "shufflenetv2": (2_278_604, 2_278_604),
    "swin_t": (28_288_354, 28_288_354),
    # "124 M": OpenAI's smallest, with tied input and output words.
    "gpt2": (124_439_808, 124_439_808),
    # BERT-Base without its pooler, and two outputs a token; ELECTRA-Base has the same shape.
    "bert_qa": (108_891_648 + 768 * 2 + 2, 108_891_648 + 768 * 2 + 2),
    "electra": (108_891_648 + 768 * 2 + 2, 108_891_648 + 768 * 2 + 2),
    # MLPerf's reference for MovieLens 20M: 64 factors, layers 256, 256, 128, 64: 31.8 M.
    "ncf": (31_800_000, 31_900_000),
    # "Deep Speech 2" stands for a family: 18 to 100 M parameters (Amodei et al., table 11).
    "deepspeech2": (35_000_000, 100_000_000),
    # 61.9 M for 80 classes; twenty classes have 3 x 60 outputs less at each of three scales.
    "yolov3": (61_400_000, 61_900_000),
}
SHARES = ("accuracy", "exact_match", "hit_ratio", "mean_average_precision")
"""Metrics to watch that lie between 0 and 1."""


def entries():
    for path in sorted(FOLDER.glob("*.yaml")):
        for name, entry in yaml.safe_load(path.read_text())["pool"].items():
            marks = [pytest.mark.long] if entry["size"] == "small" else []
            yield pytest.param(
                path.name, name, entry["size"], id=f"{path.stem}-{name}", marks=marks
            )


ALL = list(entries())
RUNNABLE = [entry for entry in ALL if entry.values[2] != "paper"]
PAPER = [entry for entry in ALL if entry.values[2] == "paper"]
every_entry = pytest.mark.parametrize(("file", "name", "size"), ALL)
every_runnable = pytest.mark.parametrize(("file", "name", "size"), RUNNABLE)


def options(file, name):
    return dict(yaml.safe_load((FOLDER / file).read_text())["pool"][name])


@functools.cache
def workload(file, name, **more):
    entry = options(file, name)
    entry.pop("memory_bytes_per_worker")
    module, _, kind = entry.pop("_target_").rpartition(".")
    return getattr(importlib.import_module(module), kind)(**entry, **more, evaluation_samples=24)


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same(left, right):
    assert left.keys() == right.keys()
    for key in left:
        assert torch.equal(left[key], right[key]), key


class Wrapped(torch.nn.Module):
    """As a data-parallel wrapper: the model can be called, and nothing else of it is there."""

    def __init__(self, model):
        super().__init__()
        self.module = model

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


@every_entry
def test_entry_is_complete(file, name, size):
    entry = options(file, name)
    assert entry["_target_"].startswith("workloads.")
    assert isinstance(entry["memory_bytes_per_worker"], int)
    assert entry["memory_bytes_per_worker"] > 200_000_000
    built = workload(file, name)
    assert (built.name, built.size) == (name, size)
    assert built.num_samples >= 1_000


@every_runnable
def test_a_sample_is_the_same_whatever_comes_with_it(file, name, size):
    built = workload(file, name)
    together = built.samples([7, 3, 11, 2], [0, 1, 1, 2])
    parts = built.samples([7, 3, 11], [0, 1, 1]), built.samples([2], [2])
    assert_same({key: torch.cat([part[key] for part in parts]) for key in together}, together)


@every_runnable
def test_same_seed_gives_same_bits_and_moves_no_random_state(file, name, size):
    built = workload(file, name)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = built.build_model(3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    torch.rand(7)
    assert_same(state(first), state(built.build_model(3)))
    other = state(built.build_model(4))
    assert any(not torch.equal(value, other[key]) for key, value in state(first).items())


@every_runnable
def test_samples_are_addressed_by_id(file, name, size):
    built = workload(file, name)
    last = built.num_samples - 1
    ids = [3, 5, last, 0, 5, 17]
    together = built.samples(ids)
    assert all(len(value) == len(ids) for value in together.values())
    torch.manual_seed(1)
    random_state = torch.get_rng_state()
    for place, one in enumerate(ids):
        alone = built.samples([one])
        assert alone.keys() == together.keys()
        for key, value in alone.items():
            assert value.dtype == together[key].dtype
            assert torch.equal(value[0], together[key][place]), (key, one)
    # Batches may be fetched ahead of their step, so fetching must not draw from its random state.
    assert torch.equal(torch.get_rng_state(), random_state)
    image_or_text = next(iter(together))
    assert not torch.equal(together[image_or_text][0], together[image_or_text][1])


@every_runnable
def test_augmented_samples_are_addressed_by_id_and_epoch(file, name, size):
    entry = options(file, name)
    if "wide" in entry["_target_"]:
        pytest.skip("it has the options of its network alone")
    plain, varied = workload(file, name), workload(file, name, augment=True)
    ids, epochs = [3, 5, plain.num_samples - 1, 0, 5, 17] * 2, [0] * 6 + [4] * 6
    stored, together = plain.samples(ids), varied.samples(ids, epochs)
    assert_same(stored, plain.samples(ids, epochs))
    assert_same(stored, varied.samples(ids))
    torch.manual_seed(1)
    random_state = torch.get_rng_state()
    for place, (one, epoch) in enumerate(zip(ids, epochs, strict=True)):
        for key, value in varied.samples([one], [epoch]).items():
            assert torch.equal(value[0], together[key][place]), (key, one)
    assert torch.equal(torch.get_rng_state(), random_state)
    for key, value in stored.items():
        assert (value.dtype, value.shape) == (together[key].dtype, together[key].shape)
    assert any(not stored[key].equal(together[key]) for key in stored)
    assert any(not value[:6].equal(value[6:]) for value in together.values())


@every_runnable
@pytest.mark.parametrize("ids", [[-1], [0, 10**9], []], ids=["negative", "beyond", "none"])
def test_ids_outside_the_set_are_refused(file, name, size, ids):
    built = workload(file, name)
    with pytest.raises(IndexError, match=r"sample id"):
        built.samples(ids)
    with pytest.raises(IndexError):
        built.samples([built.num_samples])


@every_runnable
def test_loss_is_the_mean_over_samples(file, name, size):
    built = workload(file, name)
    model = built.build_model(0).eval()
    with torch.no_grad():
        whole = built.loss(model, built.samples(range(8)))
        three = built.loss(model, built.samples(range(3)))
        five = built.loss(model, built.samples(range(3, 8)))
    assert whole.ndim == 0
    assert float(three) != pytest.approx(float(five), rel=1e-4)
    assert (3 * float(three) + 5 * float(five)) / 8 == pytest.approx(float(whole), rel=1e-4)


@every_runnable
def test_a_step_reaches_every_parameter(file, name, size):
    built = workload(file, name)
    model = built.build_model(0).train()
    before = state(model)
    optimizer = built.build_optimizer(model)
    built.loss(Wrapped(model), built.samples(range(4))).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        if parameter.ndim > 1:
            assert parameter.grad.any(), key
    built.update(optimizer, 4, 10**6)
    moved = [k for k, parameter in model.named_parameters() if not parameter.equal(before[k])]
    weights = [k for k, parameter in model.named_parameters() if parameter.ndim > 1]
    assert set(weights) <= set(moved)


@every_runnable
def test_a_step_is_repeatable(file, name, size):
    built = workload(file, name)
    after = []
    for _ in range(2):
        model = built.build_model(7).train()
        optimizer = built.build_optimizer(model)
        for step in range(2):
            torch.manual_seed(step)
            optimizer.zero_grad()
            built.loss(model, built.samples(range(step, step + 4))).backward()
            built.update(optimizer, 4, step)
        after.append(state(model))
    assert_same(*after)


@every_runnable
def test_learning_rate_follows_the_batch(file, name, size):
    built = workload(file, name)
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = built.build_optimizer(torch.nn.ParameterList([parameter]))

    def rate(global_batch, step):
        built.update(optimizer, global_batch, step)
        return optimizer.param_groups[0]["lr"]

    late = 10**6
    assert rate(64, late) == pytest.approx(2 * rate(32, late))
    assert rate(32, late) == pytest.approx(32 * rate(1, late))
    rising = [rate(32, step) for step in range(20)]
    assert rising == sorted(rising)
    assert 0 < rising[0] <= rate(32, late)


@every_runnable
def test_evaluation_leaves_no_trace(file, name, size):
    built = workload(file, name)
    model = built.build_model(0).train()
    frozen = next(module for module in model.modules() if not list(module.children()))
    frozen.eval()
    before, random_state = state(model), torch.get_rng_state()
    first = built.evaluate(Wrapped(model))
    assert torch.equal(torch.get_rng_state(), random_state)
    assert_same(before, state(model))
    assert not frozen.training
    assert all(module.training for module in model.modules() if module is not frozen)
    assert all(parameter.grad is None for parameter in model.parameters())
    watched = next(iter(first))
    assert watched in (*SHARES, "perplexity", "letter_error_rate")
    assert first["evaluated_samples"] == 24
    assert all(math.isfinite(value) for value in first.values())
    assert first[watched] >= 0
    assert watched not in SHARES or first[watched] <= 1
    assert built.evaluate(model) == first


@pytest.mark.parametrize(("file", "name", "size"), PAPER)
def test_paper_size_has_the_published_number_of_parameters(file, name, size):
    with torch.device("meta"):
        model = workload(file, name).build_model(0)
    assert all(parameter.is_meta for parameter in model.parameters())
    low, high = PUBLISHED_PARAMETERS[name]
    assert low <= sum(parameter.numel() for parameter in model.parameters()) <= high


@pytest.mark.parametrize(
    ("file", "name", "size"), [entry for entry in ALL if entry.values[2] == "tiny"]
)
def test_tiny_is_tiny(file, name, size):
    model = workload(file, name).build_model(0)
    assert sum(parameter.numel() for parameter in model.parameters()) <= 5_000_000

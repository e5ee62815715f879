"""Checkpoints and digests, without processes."""

import json
import math

import pytest
import torch
from torch import nn

from systems.runtime.tensors.state import digests, optimizer_state
from systems.runtime.worker.checkpoint import Checkpoint, CheckpointError, keep_only, load, save

AT = Checkpoint(step=7, values={"data": {"order": "positions", "consumed": 84}}, seed=3)
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.9), amsgrad=True),
    "groups": lambda p: torch.optim.Adam([{"params": [q], "lr": 0.1 + i} for i, q in enumerate(p)]),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}


class Tied(nn.Module):
    """Tied weights, buffers of several types, one of them not persistent; bf16 parameters."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(6, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.embedding.weight
        self.low = nn.Linear(6, 2).to(torch.bfloat16)
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)
        self.register_buffer("view", torch.arange(12.0)[2:5])

    def forward(self, ids):
        hidden = self.norm(self.embedding(ids)) * self.scale
        return self.low(self.head(hidden).to(torch.bfloat16)).float()


def trained(optimizer, steps):
    torch.manual_seed(0)
    model = Tied()
    made = OPTIMIZERS[optimizer](list(model.parameters()))
    advance(model, made, steps)
    return model, made


def advance(model, optimizer, steps):
    for step in range(steps):
        optimizer.zero_grad()
        ids = torch.arange(5) + step % 2
        model(ids).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_what_is_loaded_trains_on_with_the_same_bits(tmp_path, optimizer):
    model, made = trained(optimizer, 3)
    manifest = save(tmp_path, AT, model, made)
    other, fresh = trained(optimizer, 1)
    assert load(manifest, other, fresh, verify=True) == AT
    assert digests(other, fresh) == digests(model, made)
    assert other.head.weight is other.embedding.weight
    advance(model, made, 3)
    advance(other, fresh, 3)
    assert digests(other, fresh) == digests(model, made)
    for mine, theirs in zip(fresh.param_groups, made.param_groups, strict=True):
        assert {**mine, "params": 0} == {**theirs, "params": 0}
        assert [type(value) for value in mine.values()] == [type(v) for v in theirs.values()]


def test_a_later_checkpoint_replaces_the_earlier_one_and_leaves_nothing_partial(tmp_path):
    model, made = trained("sgd", 1)
    first = save(tmp_path, AT, model, made)
    second = save(tmp_path, Checkpoint(9, {}, 3), model, made)
    assert load(first, model, made, verify=True) == AT, "somebody may not know of the other yet"
    (tmp_path / "step-00000010.partial").touch()
    keep_only(tmp_path, second)
    assert not first.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-00000009.json",
        "step-00000009.safetensors",
    ]
    assert load(second, model, made, verify=True).step == 9


def test_none_is_kept_for_a_job_that_begins_from_scratch_or_from_elsewhere(tmp_path):
    model, made = trained("sgd", 1)
    elsewhere = save(tmp_path / "elsewhere", AT, model, made)
    for manifests in ([], [elsewhere]):
        save(tmp_path / "here", AT, model, made)
        keep_only(tmp_path / "here", *manifests)
        assert list((tmp_path / "here").iterdir()) == []
    assert load(elsewhere, model, made, verify=True) == AT
    keep_only(tmp_path / "never_made")


def test_a_crash_before_the_manifest_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    model, made = trained("sgd", 1)
    first = save(tmp_path, AT, model, made)

    def crash(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(json, "dumps", crash)
    with pytest.raises(OSError, match="no space left"):
        save(tmp_path, Checkpoint(9, {}, 3), model, made)
    monkeypatch.undo()
    assert load(first, model, made, verify=True) == AT


def test_other_models_and_optimizers_are_refused_with_the_difference(tmp_path):
    model, made = trained("momentum", 2)
    manifest = save(tmp_path, AT, model, made)
    other, fresh = trained("momentum", 1)
    other.low = nn.Linear(6, 3).to(torch.bfloat16)
    with pytest.raises(CheckpointError, match=r"low\.weight .*\(2, 6\).*\(3, 6\)"):
        load(manifest, other, fresh, verify=True)
    narrow = nn.Linear(2, 2)
    with pytest.raises(CheckpointError, match="belongs to another model"):
        load(manifest, narrow, torch.optim.SGD(narrow.parameters()), verify=True)
    other, fresh = trained("groups", 1)
    with pytest.raises(CheckpointError, match="belongs to another model"):
        load(manifest, other, fresh, verify=True)


def test_the_unverified_read_does_not_look_at_the_checksum(tmp_path):
    model, made = trained("sgd", 1)
    manifest = save(tmp_path, AT, model, made)
    entry = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**entry, "sha256": "0" * 64}))
    load(manifest, model, made, verify=False)
    with pytest.raises(CheckpointError, match="is damaged"):
        load(manifest, model, made, verify=True)


def test_a_state_that_cannot_be_said_in_json_is_refused_in_words():
    _, made = trained("sgd", 1)
    made.param_groups[0]["lr"] = torch.tensor(0.1)
    with pytest.raises(TypeError, match="hyper-parameter 'lr' is a Tensor"):
        optimizer_state(made)


@pytest.mark.parametrize("part", ["parameters", "buffers", "optimizer", "learning rate"])
def test_a_digest_sees_the_last_bit_of_its_own_part_only(part):
    model, made = trained("momentum", 2)
    before = digests(model, made)
    with torch.no_grad():
        if part == "parameters":
            model.norm.weight[1] = torch.nextafter(model.norm.weight[1], torch.tensor(9.0))
        elif part == "buffers":
            model.norm.running_mean[0] = -model.norm.running_mean[0]
        elif part == "optimizer":
            made.state[model.norm.weight]["momentum_buffer"][0] += 1
        else:
            made.param_groups[0]["lr"] = math.nextafter(0.1, 1)
    after = digests(model, made)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {f"digest_{'optimizer' if part == 'learning rate' else part}"}

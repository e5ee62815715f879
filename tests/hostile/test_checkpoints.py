"""Checkpoints of a stranger: their manifest leads to no other file, and replaces no parameter."""

import json

import pytest
import torch

from systems.runtime.worker.checkpoint import Checkpoint, CheckpointError, load, save


@pytest.fixture
def made(tmp_path):
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return save(tmp_path / "here", Checkpoint(7, {}, 3), model, optimizer), model, optimizer


def change(manifest, **changes):
    entry = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**entry, **changes}))


@pytest.mark.parametrize(
    "data", ["../elsewhere/data.safetensors", "/etc/passwd", "other.safetensors"]
)
def test_the_tensors_lie_beside_their_manifest(made, tmp_path, data):
    manifest, model, optimizer = made
    change(manifest, data=data)
    with pytest.raises(CheckpointError, match=r"is damaged \(data\)"):
        load(manifest, model, optimizer, verify=True)


@pytest.mark.parametrize("key", ["data", "sha256", "step", "values", "seed", "optimizer_groups"])
def test_an_entry_of_another_type_is_refused(made, key):
    manifest, model, optimizer = made
    change(manifest, **{key: None})
    with pytest.raises(CheckpointError, match=rf"is damaged \({key}\)"):
        load(manifest, model, optimizer, verify=True)


@pytest.mark.parametrize("groups", [[None], [[1]], [{"params": []}], ["x"]])
def test_hyper_parameters_replace_no_parameters(made, groups):
    manifest, model, optimizer = made
    change(manifest, optimizer_groups=groups)
    with pytest.raises(CheckpointError, match="belongs to another model"):
        load(manifest, model, optimizer, verify=True)
    assert [*optimizer.param_groups[0]["params"]] == [*model.parameters()]


def test_a_shape_that_its_file_cannot_hold_takes_no_memory(made):
    manifest, model, optimizer = made
    data = manifest.with_suffix(".safetensors")
    huge = {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}
    header = json.dumps({"parameter/weight": huge}).encode()
    for said in (len(header), 1 << 62):
        data.write_bytes(said.to_bytes(8, "little") + header)
        with pytest.raises(CheckpointError, match="cannot be read"):
            load(manifest, model, optimizer, verify=False)

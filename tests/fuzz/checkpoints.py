"""Checkpoints of jobs: a manifest, and tensors whose header says what they are."""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import cache
from pathlib import Path

import torch

from systems.runtime.worker.checkpoint import Checkpoint, CheckpointError, load, save
from tests.fuzz.edits import Choices, edited
from tests.fuzz.target import Target


def _model() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Linear(2, 3)
    return model, torch.optim.Adam(model.parameters(), lr=0.1)


@cache
def _sample() -> tuple[dict[str, object], bytes]:
    model, optimizer = _model()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    with tempfile.TemporaryDirectory() as folder:
        manifest = save(Path(folder), Checkpoint(7, {"data": {}}, 3), model, optimizer)
        data = manifest.with_suffix(".safetensors").read_bytes()
        return json.loads(manifest.read_text()), data


def _read(data: bytes, folder: Path) -> None:
    choices = Choices(data)
    entry, tensors = _sample()
    kind = choices.below(4)
    manifest = folder / "step-00000007.json"
    text = json.dumps(entry)
    if kind == 0:
        text = choices.rest.decode("utf-8", "replace")
    elif kind == 1:
        text = json.dumps(edited(entry, choices))
    else:
        tensors = choices.rest if kind == 2 else _with_header(tensors, choices)
        text = json.dumps({**entry, "sha256": hashlib.sha256(tensors).hexdigest()})
    manifest.write_text(text, encoding="utf-8", errors="surrogatepass")
    manifest.with_suffix(".safetensors").write_bytes(tensors)
    load(manifest, *_model(), verify=True)


def _with_header(tensors: bytes, choices: Choices) -> bytes:
    size = int.from_bytes(tensors[:8], "little")
    header = json.dumps(edited(json.loads(tensors[8 : 8 + size]), choices)).encode()
    said = (len(header), 1 << 62, 0)[choices.below(8) % 7 % 3]
    return said.to_bytes(8, "little") + header + tensors[8 + size :]


_sample()  # made before anything is watched

TARGET = Target(
    "checkpoints", _read, (CheckpointError,), [b"\0{}", b"\1\1\2\3", b"\2" + bytes(8), b"\3\1\2"]
)

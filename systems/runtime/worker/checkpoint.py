"""Checkpoints: one safetensors file and a JSON manifest with its SHA-256, without pickle.

The manifest is written last and renamed into place, so that a checkpoint exists either completely
or not at all. The manifest's path names the checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from harness.errors import StoredDataError
from harness.files.bounded_file import parse_json, read_text
from systems.runtime.tensors.state import optimizer_state, parameters_of
from systems.runtime.tensors.tensor_file import write_tensors

VERSION = 4
_ENTRY: Mapping[str, type] = {
    "data": str,
    "sha256": str,
    "step": int,
    "values": dict,
    "seed": int,
    "optimizer_values": dict,
    "optimizer_groups": list,
    "optimizer_on_device": list,
}
"""Fields of a manifest besides its version, with their types."""


class CheckpointError(StoredDataError):
    """A checkpoint cannot be used; the text names it and gives the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State of a job at its checkpoint, apart from tensors."""

    step: int
    """Number of steps executed."""
    values: Mapping[str, Any]
    """State apart from the tensors: ``Session.values``."""
    seed: int


def save(
    folder: Path,
    at: Checkpoint,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
) -> Path:
    """Write a checkpoint and return its manifest's path.

    The checkpoint is on disk when this returns: both files and their names are synchronised. Other
    checkpoints in ``folder`` stay. ``keep_only`` removes them, once every process that might use
    one knows of the new one.

    Raises:
        OSError: the disk has no room for it, or refuses. No part of it is left, and the previous
            checkpoint is unchanged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Eight digits: ``newest`` compares names as texts.
    manifest = folder / f"step-{at.step:08d}.json"
    try:
        _write(manifest, at, model, optimizer)
    except OSError:
        # Data with a manifest belong to an earlier checkpoint of this step and must stay.
        left = (".partial",) if manifest.exists() else (".partial", ".safetensors")
        for suffix in left:
            with suppress(OSError):
                manifest.with_suffix(suffix).unlink()
        raise
    return manifest


def _write(
    manifest: Path,
    at: Checkpoint,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    state = optimizer_state(optimizer)
    tensors: dict[str, torch.Tensor] = {}
    tensors |= {f"parameter/{name}": value for name, value in model.named_parameters()}
    tensors |= {f"buffer/{name}": value for name, value in model.named_buffers()}
    tensors |= {f"optimizer/{name}": value for name, value in state.tensors.items()}
    # Data first, then the manifest, each on disk before its rename: a manifest proves its data.
    data = manifest.with_suffix(".safetensors")
    partial = write_tensors(data, {key: _owned(value) for key, value in tensors.items()})
    sha256 = _synchronise(partial)
    partial.replace(data)
    entry = {
        "version": VERSION,
        "data": data.name,
        "sha256": sha256,
        "step": at.step,
        "values": at.values,
        "seed": at.seed,
        "optimizer_values": state.values,
        "optimizer_groups": state.groups,
        "optimizer_on_device": [
            key for key, value in state.tensors.items() if value.device.type != "cpu"
        ],
    }
    partial = manifest.with_suffix(".partial")
    partial.write_text(json.dumps(entry), encoding="utf-8")
    _synchronise(partial)
    partial.replace(manifest)
    # The new names are on disk only once the folder is.
    _synchronise_folder(manifest.parent)


def newest(folder: Path) -> Path | None:
    """Return the manifest of the latest complete checkpoint in a folder; None if there is none."""
    return max(folder.glob("step-*.json"), default=None)


def keep_only(folder: Path, *manifests: Path) -> None:
    """Remove every other checkpoint in a folder, unfinished ones included.

    Manifests go first, so that a manifest always has its data.

    Raises:
        OSError: a file cannot be removed.
    """
    here = folder.resolve()
    kept = {path.stem for path in manifests if path.parent.resolve() == here}
    for path in sorted(folder.glob("step-*"), key=lambda path: path.suffix != ".json"):
        if path.stem not in kept:
            path.unlink(missing_ok=True)


def load(
    manifest: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, verify: bool
) -> Checkpoint:
    """Read a checkpoint into a model and its optimizer, in place.

    Args:
        manifest: path that ``save`` returned.
        model: built from the same options as the saved one.
        optimizer: built from the same options as the saved one.
        verify: read the data twice, first to check its SHA-256; it is enough if one worker does so.

    Raises:
        CheckpointError: a file is missing or damaged, or belongs to another model.
    """
    entry = _read_manifest(manifest)
    data = manifest.with_suffix(".safetensors")
    try:
        if verify:
            with data.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != entry["sha256"]:
                raise CheckpointError(
                    f"checkpoint {data} is damaged: its SHA-256 is {found[:12]}… and its"
                    f" manifest says {entry['sha256'][:12]}…. Restore the file, or remove the"
                    " folder and start the job from scratch"
                )
        tensors = load_file(data)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"checkpoint {data} cannot be read: {error}") from None
    try:
        _fill(tensors, entry, model, optimizer)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"checkpoint {data} belongs to another model or optimizer ({error});"
            " build the workload with the options it was saved with"
        ) from None
    return Checkpoint(entry["step"], entry["values"], entry["seed"])


def _read_manifest(manifest: Path) -> dict[str, Any]:
    try:
        entry = parse_json(read_text(manifest))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"manifest {manifest} cannot be read: {error}") from None
    if not isinstance(entry, dict) or entry.get("version") != VERSION:
        raise CheckpointError(f"manifest {manifest} is not of version {VERSION}")
    # Accept only the manifest's own data file next to it: a manifest must not lead elsewhere.
    wrong = [key for key, kind in _ENTRY.items() if not isinstance(entry.get(key), kind)]
    if wrong or entry["data"] != manifest.with_suffix(".safetensors").name:
        raise CheckpointError(
            f"manifest {manifest} is damaged ({', '.join(wrong) or 'data'}); restore the file, or"
            " remove the folder and start the job from scratch"
        )
    return entry


@torch.no_grad()
def _fill(
    tensors: dict[str, torch.Tensor],
    entry: dict[str, Any],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    for name, parameter in model.named_parameters():
        _copy(parameter, tensors.pop(f"parameter/{name}"), name)
    for name, buffer in model.named_buffers():
        _copy(buffer, tensors.pop(f"buffer/{name}"), name)
    parameters = parameters_of(optimizer)
    on_device = set(entry["optimizer_on_device"])
    for group, saved in zip(optimizer.param_groups, entry["optimizer_groups"], strict=True):
        if "params" in saved:  # saved groups never name parameters: those are the model's own
            raise ValueError("its hyper-parameters name parameters")
        group.update(
            {
                # JSON has made lists of tuples.
                key: tuple(value) if isinstance(group.get(key), tuple) else value
                for key, value in saved.items()
            }
        )
    optimizer.state.clear()
    for index, values in entry["optimizer_values"].items():
        optimizer.state[parameters[int(index)]].update(values)
    for name in [name for name in tensors if name.startswith("optimizer/")]:
        _, index, key = name.split("/", 2)
        parameter = parameters[int(index)]
        device = parameter.device if f"{index}/{key}" in on_device else torch.device("cpu")
        optimizer.state[parameter][key] = tensors.pop(name).clone().to(device)
    if tensors:
        raise KeyError(f"{len(tensors)} tensors too many, such as {min(tensors)}")


def _copy(into: torch.Tensor, saved: torch.Tensor, name: str) -> None:
    if into.shape != saved.shape or into.dtype != saved.dtype:
        raise ValueError(
            f"{name} is {saved.dtype}{tuple(saved.shape)} in it"
            f" but {into.dtype}{tuple(into.shape)} here"
        )
    into.copy_(saved)


def _owned(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor on the CPU, contiguous and alone in its memory, as the file format
    requires."""
    tensor = tensor.detach().cpu().contiguous()
    if tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size():
        tensor = tensor.clone()
    return tensor


def _synchronise(path: Path) -> str:
    """Force a file to disk; return its SHA-256."""
    with path.open("rb+") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return found


def _synchronise_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

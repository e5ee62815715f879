"""Tensors in a safetensors file that is there whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

_ERROR_NUMBER = re.compile(r"\(os error (\d+)\)")
"""How the library, which is written in Rust, names what the system refused."""


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> Path:
    """Write tensors next to ``path``; the file, which the caller is to rename.

    Where that fails nothing of it is left: a disk that is full is not to stay so.

    Raises:
        OSError: the system refuses, with its error number.
        SafetensorError: the tensors cannot be written for another reason.
    """
    partial = path.with_suffix(".partial")
    try:
        save_file(dict(tensors), partial)
    except SafetensorError as error:
        partial.unlink(missing_ok=True)
        if (found := _ERROR_NUMBER.search(str(error))) is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), str(partial)) from error
    return partial

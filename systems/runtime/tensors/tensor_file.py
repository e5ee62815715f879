"""Tensors in a safetensors file that exists either completely or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

_ERROR_NUMBER = re.compile(r"\(os error (\d+)\)")
"""Error number of the system in the message of the library, which is written in Rust."""


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> Path:
    """Write tensors to a temporary file next to ``path`` and return it; the caller must rename it.

    If writing fails, the partial file is removed, so that the disk does not stay full.

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

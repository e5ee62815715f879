"""Declarations that allow torchvision to be imported without its compiled operators.

A torchvision wheel built for another torch cannot load its compiled library. This is usual if torch
is a CPU build. The import then fails, because torchvision describes two operators, ``nms`` and
``qnms``, that are not declared. transformers imports torchvision, so it fails too. Declaring the
bare schemas makes everything but detection work.

Import this module before torchvision or transformers. It declares the operators at import, once per
process, and only if the compiled library does not provide them.
"""

from __future__ import annotations

import importlib.util
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder

import torch

_NAMES = ("nms", "qnms")
_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def _load_compiled() -> None:
    """Load torchvision's compiled operators as torchvision itself would, if they load."""
    package = importlib.util.find_spec("torchvision")
    if package is None or not package.submodule_search_locations:
        return
    folder = package.submodule_search_locations[0]
    library = FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES)).find_spec("_C")
    if library is None or library.origin is None:
        return
    try:
        torch.ops.load_library(library.origin)  # type: ignore[no-untyped-call]
    except OSError:  # built for another torch: this module exists for that case
        return


def declare_missing() -> tuple[torch.library.Library, tuple[str, ...]]:
    """Declare the missing operators; return the library that owns them, and their names.

    The declarations exist as long as the returned library. A second call declares nothing.
    """
    if any(not hasattr(torch.ops.torchvision, name) for name in _NAMES):
        _load_compiled()
    missing = tuple(name for name in _NAMES if not hasattr(torch.ops.torchvision, name))
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name in missing:
        library.define(name + _SIGNATURE)  # type: ignore[no-untyped-call]
    return library, missing


LIBRARY, DECLARED = declare_missing()
"""Library that owns the declarations, and the names that had to be declared. The declarations end
with the library."""

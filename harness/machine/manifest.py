"""Manifest of a run: the command, the state of the code and the machine that made it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

_PACKAGES = (
    "elastrace",
    "hydra-core",
    "immutables",
    "mlflow",
    "numpy",
    "omegaconf",
    "pandas",
    "sortedcontainers",
    "torch",
    "torchvision",
    "transformers",
)
_NVIDIA = Path("/proc/driver/nvidia/gpus")


def environment(command: list[str]) -> dict[str, Any]:
    """Return the entries that every manifest has, for all kinds of runs.

    Args:
        command: words of the command line.
    """
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        **git_state(Path(__file__).resolve().parents[2]),
        "python": platform.python_version(),
        "packages": package_versions(),
        "hardware": hardware(),
        "load": machine_load(),
    }


def git_state(root: Path) -> dict[str, Any]:
    """Return the commit of the code and whether files differ from it; None outside a checkout.

    An installed package may lie in a repository of the user, whose commit says nothing of the code.
    """
    if not (root / "pyproject.toml").is_file():
        return {"git_commit": None, "git_dirty": None}
    commit = _git(root, "rev-parse", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=normal")
    dirty = None if commit is None or status is None else bool(status)
    return {"git_commit": commit, "git_dirty": dirty}


def _git(root: Path, *words: str) -> str | None:
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def package_versions() -> dict[str, str]:
    """Return the installed versions of the packages that can change results; absent ones are left
    out."""
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, Any]:
    """Return processor, cores that this process may use, memory and accelerators."""
    return {
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "accelerators": accelerators(),
    }


def hardware_slug(found: Mapping[str, Any]) -> str:
    """Return a short name of a machine for folders, such as ``amd-epyc-2cpu``.

    Args:
        found: ``hardware`` of a manifest.
    """
    name = re.sub(r"\(r\)|\(tm\)|@.*|\b\d+-core\b|\b(cpu|processor)\b", " ", found["cpu"].lower())
    words = re.findall(r"[a-z0-9]+", name) or ["unknown"]
    accelerators = sorted(found.get("accelerators") or [])
    parts = [*words, f"{found['cores']}cpu"]
    for model in dict.fromkeys(accelerators):
        known = "-".join(re.findall(r"[a-z0-9]+", model.lower()))
        parts.append(f"{accelerators.count(model)}x-{known}")
    return "-".join(parts)


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else platform.processor() or "unknown"


def accelerators() -> list[str]:
    """Return the models of this machine's CUDA devices, as the driver's files name them."""
    found = []
    for path in sorted(_NVIDIA.glob("*/information")):
        match = re.search(r"^Model:\s*(.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        found.append(match.group(1).strip() if match else "unknown")
    return found


def machine_load() -> dict[str, float]:
    """Return the load averages of the machine and its free memory."""
    one, five, fifteen = os.getloadavg()
    return {
        "load_1min": round(one, 2),
        "load_5min": round(five, 2),
        "load_15min": round(fifteen, 2),
        "memory_available_bytes": float(psutil.virtual_memory().available),
    }

"""Check that a cluster's accelerators exist, without a training library."""

from __future__ import annotations

import os
from pathlib import Path

from harness.cluster import Cluster, is_cpu
from harness.machine.instruction_sets import InstructionSet, sets_of_this_machine

_DRIVER = Path("/proc/driver/nvidia/gpus")


def num_cuda_devices(driver: Path = _DRIVER) -> int:
    """Return how many CUDA devices the driver shows and ``CUDA_VISIBLE_DEVICES`` allows."""
    found = len(list(driver.glob("*"))) if driver.is_dir() else _num_device_files()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    listed = [name for name in visible.split(",") if name.strip() not in ("", "-1")]
    return min(found, len(listed))


def _num_device_files() -> int:
    return len([p for p in Path("/dev").glob("nvidia[0-9]*") if p.name[6:].isdigit()])


def device_problems(cluster: Cluster, num_devices: int | None = None) -> list[str]:
    """Return accelerators that the cluster names and this machine lacks.

    Args:
        cluster: cluster of real workers; CPU slots need no accelerator.
        num_devices: accelerators of this machine; None: those the driver shows.
    """
    wanted = {(s.host, s.device): s.device_type for s in cluster.slots if not is_cpu(s.device_type)}
    here = num_cuda_devices() if num_devices is None else num_devices
    if len(wanted) <= here:
        return []
    types = ", ".join(sorted(set(wanted.values())))
    return [
        f"cluster {cluster.name} has {len(wanted)} devices ({types}) and this machine shows"
        f" {here} CUDA devices; use a CPU cluster (cluster=cpu2, cluster=cpu4), emulate it with"
        " engine.pace=profile, or simulate it with engine=simulated"
    ]


def instruction_set_problems(
    cluster: Cluster, here: frozenset[InstructionSet] | None = None
) -> list[str]:
    """Return instruction sets that slots of the cluster name and this machine's CPU lacks.

    Args:
        cluster: cluster of real workers.
        here: sets that the CPU has; None: as Linux says.
    """
    found = sets_of_this_machine() if here is None else here
    named = {slot.instruction_set for slot in cluster.slots if slot.instruction_set is not None}
    lacking = [name for name in InstructionSet if name in named - found]
    if not lacking:
        return []
    has = ", ".join(name for name in InstructionSet if name in found) or "none of those known"
    return [
        f"cluster {cluster.name} has slots with instruction set {', '.join(lacking)}, and this"
        f" machine's CPU has {has}: its slots would all be of one type; give its parts an older"
        " instruction_set, or use cluster=cpu2"
    ]

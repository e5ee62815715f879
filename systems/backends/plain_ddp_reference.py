"""Reference training by the stand-alone script, with which jobs are compared. The module does not
import torch."""

from __future__ import annotations

from harness.cluster import Cluster, is_cpu
from harness.contracts.abilities import Reference
from systems.runtime.wire.kernels import kernels_on
from systems.runtime.wire.options import RuntimeOptions

SCRIPT = "systems.peers.plain_ddp"


def stock_training(options: RuntimeOptions, cluster: Cluster) -> Reference:
    """Return stock DistributedDataParallel on fixed workers, with the random states of these
    options.

    Its kernels are those common to all slots, or else those of the cluster's first slot. So a job
    on slots of another type is compared with training on the first slot's type.

    Raises:
        ValueError: the script cannot train like workers with these options on these slots; the text
            has one line for each reason.
    """
    problems = []
    if options.data_order != "positions":
        problems.append(
            f"data_order is {options.data_order!r}, which the stand-alone script does not support; "
            "set backend.data_order=positions"
        )
    if not options.virtual and options.reduction != "ddp":
        problems.append(
            f"reduction is {options.reduction!r}, which is not stock DistributedDataParallel's;"
            " set backend.reduction=ddp"
        )
    types = [kind for kind in cluster.device_types if not is_cpu(kind)]
    if options.device == "cuda" or (options.device == "auto" and types):
        slots = ", ".join(types) or "cpu"
        problems.append(
            f"device is {options.device!r} on cluster {cluster.name!r} ({slots}), and the"
            " stand-alone script trains on the CPU; set backend.device=cpu"
        )
    kernels = kernels_on(cluster.slots[0], cluster, common=options.common_kernels)
    if kernels.num_threads > 1:
        problems.append(
            f"workers on cluster {cluster.name!r} have a thread for each of their cores, but the "
            "script's workers have one thread, which rounds differently; use a cluster with one "
            "core per slot (cores_per_slot: 1)"
        )
    if problems:
        raise ValueError("\n".join(problems))
    words = ["--bitwise", "--forked"]
    if options.random_states == "streams":
        words.append("--streams")
    if options.accumulation_steps > 1:
        words += ["--accumulate", str(options.accumulation_steps)]
    if options.drawn_samples and options.loader_processes:
        words += ["--loaders", str(options.loader_processes)]
    if options.common_kernels:
        words.append("--common-kernels")
    return Reference(SCRIPT, tuple(words), kernels.environment)

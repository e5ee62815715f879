"""Memory that one worker of a workload needs: ``python -m workloads.memory CLASS [OPTIONS]``.

For example ``python -m workloads.memory workloads.vision.ResNet50 size=tiny``. The number goes into
``memory_bytes_per_worker`` of the workload's entry in ``configs/workload/``, where a live run
checks whether its workers fit into the machine before it starts any.
"""

from __future__ import annotations

import argparse
import resource
import sys
from typing import Any

import torch
import yaml

from harness.configuration.named_classes import locate
from harness.contracts.workload import Workload
from harness.errors import UserError
from harness.machine.interrupts import run_command

_STEPS = 3


def peak_bytes(workload: Workload, batch: int) -> int:
    """Return the peak resident memory of this process after a few training steps, bytes.

    The peak includes everything that the process has held, and libraries, so measure one workload
    per process. Gradient synchronisation between workers needs about one more copy of the
    gradients.
    """
    model = workload.build_model(seed=0)
    optimizer = workload.build_optimizer(model)
    model.train()
    for step in range(_STEPS):
        ids = [(step * batch + k) % workload.num_samples for k in range(batch)]
        optimizer.zero_grad()
        torch.autograd.backward(workload.loss(model, workload.samples(ids)))
        workload.update(optimizer, batch, step)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _parsed(option: str) -> tuple[str, Any]:
    name, sign, text = option.partition("=")
    if not (name and sign):
        raise ValueError(f"option {option!r} is not of the form NAME=VALUE")
    return name, yaml.safe_load(text)


def main(argv: list[str] | None = None) -> int:
    """Build the workload of the command line, train it, and print its peak memory."""
    parser = argparse.ArgumentParser(prog="python -m workloads.memory", description=__doc__)
    parser.add_argument("target", help="class of the workload: package.module.Class")
    parser.add_argument("options", nargs="*", help="options of the workload, as NAME=VALUE")
    parser.add_argument(
        "--batch", type=int, default=32, help="number of samples per worker and step (32)"
    )
    arguments = parser.parse_args(argv)
    try:
        options = dict(_parsed(option) for option in arguments.options)
        workload: Workload = locate(arguments.target, "workload", "target")(**options)
    except (ImportError, TypeError, ValueError, UserError) as error:
        print(f"{arguments.target}: cannot be built: {error}", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    print(f"{arguments.target} {options}: {peak_bytes(workload, arguments.batch)} bytes")
    return 0


if __name__ == "__main__":
    run_command(main)

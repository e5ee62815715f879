"""Measurement of the operators of a workload's step, in one process with its own kernels.

``python -m systems.virtual.operators`` reads JSON from its standard input. ``scan`` starts it, with
the environment that its kernels need.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.configuration.named_classes import locate
from systems.runtime.worker.determinism import check_kernels, use_common_kernels

WARM_UP_STEPS = 2


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counter and timer of operators, which also records the modules that use each."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: dict[str, int] = defaultdict(int)
        self.seconds: dict[str, float] = defaultdict(float)
        self.modules: dict[str, dict[str, None]] = defaultdict(dict)
        self.inside: list[str] = []
        """Modules whose forward pass is in progress."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """See ``TorchDispatchMode``."""
        name = func.overloadpacket.__name__
        started = time.process_time()
        found = func(*args, **(kwargs or {}))
        self.seconds[name] += time.process_time() - started
        self.calls[name] += 1
        if self.inside:
            self.modules[name][self.inside[-1]] = None
        return found


def watched_steps(workload: Any, batch_size: int, num_steps: int) -> dict[str, dict[str, Any]]:
    """Return for each operator its calls, its seconds in the median step, and its modules.

    Seconds are processor time, so that other programs on the machine matter little.

    Args:
        workload: a ``contracts.workload.Workload``.
        batch_size: samples of a step.
        num_steps: number of measured steps, which follow some that are not measured.
    """
    model = workload.build_model(0)
    optimizer = workload.build_optimizer(model)
    watch = _Watch()
    for name, module in model.named_modules():
        module.register_forward_pre_hook(partial(_enter, watch, name or "the model"))
        module.register_forward_hook(partial(_leave, watch), always_call=True)
    steps: list[dict[str, float]] = []
    for step in range(WARM_UP_STEPS + num_steps):
        watch.calls.clear()
        watch.seconds.clear()
        ids = [(step * batch_size + k) % workload.num_samples for k in range(batch_size)]
        batch = workload.samples(ids)
        with watch:
            optimizer.zero_grad()
            torch.autograd.backward(workload.loss(model, batch))
            workload.update(optimizer, batch_size, step)
        steps.append(dict(watch.seconds))
    return {
        name: {
            "calls": calls,
            "seconds": median(step.get(name, 0.0) for step in steps[WARM_UP_STEPS:]),
            "modules": list(watch.modules.get(name, ())),
        }
        for name, calls in watch.calls.items()
    }


def _enter(watch: _Watch, name: str, *_: object) -> None:
    watch.inside.append(name)


def _leave(watch: _Watch, *_: object) -> None:
    watch.inside.pop()


def main(read: Callable[[], str] = sys.stdin.read) -> int:
    """Measure what standard input asks for; print the answer as a line of JSON."""
    asked = json.loads(read())
    check_kernels()
    torch.set_num_threads(asked["num_threads"])
    if asked["common"]:
        use_common_kernels(torch.device("cpu"))
    workload = locate(asked["target"], "workload", "workload")(**asked["options"])
    print(json.dumps(watched_steps(workload, asked["batch"], asked["steps"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Preparation of a spare: the part of a worker's start that depends on no job."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from systems.runtime.wire.process import num_threads
from systems.runtime.worker.session import choose_device


def warm_up_spare(argv: Sequence[str]) -> int:
    """Prepare a spare; arguments: ``DEVICE DEVICE_TYPE``, as ``session.choose_device`` takes them.

    The warm-up opens the device and trains a toy for two steps. So the costs of a first pass are
    paid in advance: copies of the parent's pages, and kernels made or loaded at first use. A job
    sees no effect: random states are restored, and on a CPU the process still has one thread.

    Raises:
        RuntimeError: the warm-up started threads.
    """
    device = choose_device(*argv)
    with torch.random.fork_rng([0] if device.type == "cuda" else []):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)
        ).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        samples = torch.randn(4, 3, 8, 8).to(device)
        labels = torch.zeros(4, dtype=torch.long, device=device)
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(nn.functional.cross_entropy(model(samples), labels))
            optimizer.step()
    if device.type == "cpu" and (threads := num_threads()) > 1:
        raise RuntimeError(
            f"the warm-up of a spare left {threads - 1} threads running; use start=preimported"
        )
    return 0

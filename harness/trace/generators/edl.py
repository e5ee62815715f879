"""Synthetic workload of EDL: sixteen jobs, one every half minute, that never end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.trace.generators.generated import Generated
from harness.trace.model.context import check, positive

MODELS = (
    "alexnet",
    "googlenet",
    "inception3",
    "inception4",
    "resnet50",
    "resnet101",
    "resnet152",
    "vgg16",
    "vgg19",
)
"""Nine networks of TensorFlow's benchmarks; the paper names ResNet and VGG variants only."""


@dataclass(frozen=True)
class SixteenJobs:
    """A job every ``every_s`` seconds, each with a program drawn from ``models``.

    Source: Wu et al., EDL, section 6.3, "Synthetic workload": 16 jobs, 30 s apart, 4 GPUs each by
    default, on 4 machines of 8 GPUs; no job leaves. Each job therefore gets ``duration_s`` of work,
    far more than the observed time.
    """

    count: int = 16
    every_s: float = 30.0
    slots: int = 4
    duration_s: float = 86400.0
    batch: int = 256
    """Global batch of every job; the paper does not state it."""
    models: Sequence[str] = MODELS

    def __post_init__(self) -> None:
        check(
            self.count < 1 and f"count is {self.count}; draw at least 1 job",
            positive("every_s", self.every_s),
            positive("duration_s", self.duration_s),
            self.slots < 1 and f"slots is {self.slots}; a job needs at least 1 slot",
            self.batch < 1 and f"batch is {self.batch}; a batch has at least 1 sample",
            not self.models and "models is empty; name at least one",
        )

    def draw(self, rng: np.random.Generator) -> Generated:
        """Draw the jobs; only their programs are random."""
        names = rng.choice(np.array(list(self.models)), self.count).tolist()
        return Generated(
            rows=[
                {
                    "job_id": f"{number:02d}",
                    "arrival": number * self.every_s,
                    "slots": self.slots,
                    "duration": self.duration_s,
                    "workload": name,
                    "batch": self.batch,
                }
                for number, name in enumerate(names)
            ],
            about="After the synthetic workload of EDL (Wu et al., section 6.3).",
            transforms=[{"_target_": "harness.trace.transforms.RecomputeWork"}],
            recorded_on_slots=32,
        )

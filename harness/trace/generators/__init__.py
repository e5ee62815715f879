"""Generators that draw a trace from a paper's description of its workload and write it as files."""

from harness.trace.generators.edl import SixteenJobs
from harness.trace.generators.generated import Generated, Generator
from harness.trace.generators.hu import ModelArts
from harness.trace.generators.saxena import Saxena

__all__ = ["Generated", "Generator", "ModelArts", "Saxena", "SixteenJobs"]

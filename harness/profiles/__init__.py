"""Throughput and rescale-cost curves, each with its provenance.

A profile answers two questions: how many samples per second a workload makes on w slots,
and what a change of its slots costs. ``docs/reference/configuration.md`` describes the file format.
"""

from harness.profiles.costs import CostCell, RescaleCost
from harness.profiles.curves import Curve
from harness.profiles.errors import ProfileError
from harness.profiles.profile import RECORDED, Profile
from harness.profiles.read import load_profile

__all__ = [
    "RECORDED",
    "CostCell",
    "Curve",
    "Profile",
    "ProfileError",
    "RescaleCost",
    "load_profile",
]

"""Engine of simulated jobs, under the name that configurations and stored runs give its options."""

from harness.engines.simulated.options import Simulated

__all__ = ["Simulated"]

"""Engine of real training, under the name that configurations and stored runs give its options."""

from harness.engines.live.options import Live

__all__ = ["Live"]

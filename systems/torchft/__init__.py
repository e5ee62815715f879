"""Jobs whose workers are replicas of torchft, which keeps their membership."""

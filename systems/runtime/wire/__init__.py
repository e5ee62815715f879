"""What drivers and workers agree on: messages, groups, orders of samples, options."""

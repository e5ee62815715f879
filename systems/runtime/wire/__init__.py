"""Formats that drivers and workers share: messages, groups, orders of samples, options."""

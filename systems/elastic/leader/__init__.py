"""Leader of an elastic job: the worker that decides when members change."""

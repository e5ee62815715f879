"""The classes that a configuration names, each with the kind of part that is wanted there."""

from harness.configuration.schema import PARTS

TARGET = "_target_"


def named(config):
    """Kind and class of every part of a run's configuration, where a part may be."""
    trace = config.get("trace", {})
    places = [(group, config[group]) for group in PARTS if group in config]
    places += [("workload", entry) for entry in config.get("workload", {}).get("pool", {}).values()]
    places += [("reader", trace["reader"])] if trace else []
    places += [("transform", step) for step in trace.get("transforms") or ()]
    places += [("cluster", part) for part in config.get("cluster", {}).get("parts", ())]
    places += [("faults", plan) for plan in [config.get("engine", {}).get("faults")] if plan]
    return [(seam, part[TARGET]) for seam, part in places]


def counted(value):
    """Number of parts anywhere in a value."""
    if isinstance(value, dict):
        return (TARGET in value) + sum(map(counted, value.values()))
    return sum(map(counted, value)) if isinstance(value, list | tuple) else 0

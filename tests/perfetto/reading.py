"""Timelines as a reader of the format sees them."""

import functools
from collections import defaultdict

from reports.perfetto.timeline import timeline


@functools.cache
def events(run):
    return timeline(run).listed


def of_kind(listed, *kinds):
    return [event for event in listed if event.get("cat") in kinds]


def names(listed):
    """Group and track of every (pid, tid) that has a name."""
    groups = {e["pid"]: e["args"]["name"] for e in listed if e["name"] == "process_name"}
    return {
        (e["pid"], e["tid"]): (groups[e["pid"]], e["args"]["name"])
        for e in listed
        if e["name"] == "thread_name"
    }


def by_track(listed):
    """Slices of every track in the order of the UI: by begin, outer ones first."""
    found = defaultdict(list)
    for event in listed:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    for slices in found.values():
        slices.sort(key=lambda e: (e["ts"], -e["dur"]))  # stable, as the UI's sort is
    return found


def end(event):
    return event["ts"] + event["dur"]


def parents(slices):
    """Pairs of a slice and the innermost slice around it, or None."""
    stack = []
    for event in slices:
        while stack and end(stack[-1]) <= event["ts"] and event["dur"]:
            stack.pop()
        while stack and end(stack[-1]) < event["ts"]:
            stack.pop()
        yield event, stack[-1] if stack else None
        stack.append(event)

"""Events of the Chrome Trace Event Format: slices, instants, counters and the names of tracks.

Source: "Trace Event Format" of the Chromium project. Only complete events (``X``) are used for
slices, so no begin can lack its end. Times are whole microseconds: Perfetto cuts fractions off, and
a slice could then reach out of the one around it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]
"""One event, ready for JSON."""
_FIRST_TRACK = 1001
"""First id of a track. The UI writes ids after names, so they should not look like numbers of
slots; it takes a thread with the id of its process for the main thread."""


@dataclass(frozen=True, slots=True)
class Track:
    """Row of the timeline: a thread of a process in the words of the format."""

    pid: int
    tid: int


@dataclass
class Events:
    """Events of one run in the order of the file, and the numbers of processes and tracks."""

    listed: list[Event] = field(default_factory=list)
    _num_groups: int = 0
    _num_tracks: int = 0

    def group(self, name: str) -> int:
        """Open a group of tracks below the earlier ones, and return its process id."""
        self._num_groups += 1
        pid = self._num_groups
        self._tell("process_name", Track(pid, pid), name=name)
        # Perfetto's UI sorts groups by their number of slices; older viewers read the index.
        self._tell("process_sort_index", Track(pid, pid), sort_index=pid)
        return pid

    def track(self, pid: int, name: str) -> Track:
        """Open a track below the earlier ones of its group."""
        self._num_tracks += 1
        track = Track(pid, _FIRST_TRACK + self._num_tracks)
        self._tell("thread_name", track, name=name)
        self._tell("thread_sort_index", track, sort_index=self._num_tracks)
        return track

    def slice(
        self, track: Track, kind: str, name: str, start_us: int, end_us: int, /, **args: Any
    ) -> None:
        """Add a period; an outer slice has to be added before the slices inside it."""
        self._add("X", track, kind, name, start_us, args, dur=end_us - start_us)

    def instant(self, track: Track, kind: str, name: str, at_us: int, /, **args: Any) -> None:
        """Add a moment on a track."""
        self._add("i", track, kind, name, at_us, args, s="t")

    def counter(self, pid: int, name: str, series: str, levels: Mapping[int, float]) -> None:
        """Add a curve: the value from each moment on. The UI shows its name and then its series."""
        for at_us, value in levels.items():
            self._add("C", Track(pid, pid), "counter", name, at_us, {series: value})

    def _add(
        self, phase: str, track: Track, kind: str, name: str, at_us: int, args: Event, **more: Any
    ) -> None:
        event: Event = {"ph": phase, "pid": track.pid, "tid": track.tid, "ts": at_us, **more}
        event |= {"cat": kind, "name": name}
        known = {key: value for key, value in args.items() if value is not None}
        self.listed.append(event | {"args": known} if known else event)

    def _tell(self, what: str, track: Track, **args: Any) -> None:
        self.listed.append(
            {"ph": "M", "pid": track.pid, "tid": track.tid, "ts": 0, "name": what, "args": args}
        )


def text(events: Events, about: Mapping[str, str]) -> Iterator[str]:
    """Yield the file's text, one event a line; equal events give equal text.

    Args:
        events: events of the run.
        about: facts on the run, which the UI shows as metadata.
    """
    yield f'{{"displayTimeUnit": "ms",\n"otherData": {json.dumps(dict(about))},\n"traceEvents": ['
    separator = "\n"
    for event in events.listed:
        yield separator
        # JSON has no NaN and no infinity, and a reader may refuse them.
        yield json.dumps(event, allow_nan=False)
        separator = ",\n"
    yield "\n]}\n"

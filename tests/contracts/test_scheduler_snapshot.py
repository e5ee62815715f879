"""Every scheduler can be saved in the middle of a replay, and goes on as if nothing had been."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from harness import frozen_pickle
from harness.replay import replay
from harness.tables import RECORD_TYPES
from harness.trace.events import TraceEvent, TraceEventKind
from harness.trace.job import DeadlineKind
from systems.placements.consolidated import Consolidated
from tests.replay.worlds import cluster, engine, job, profile
from tests.schedulers.curves import curve_profile
from tests.schedulers.world import built, shipped

WHERE = cluster(2, 4)
PACKAGES = frozenset({"harness", "systems", "tests"})
CUTS = (0.2, 0.5, 0.9)
"""Shares of the instants of a replay after which it is saved."""


class StoppedError(Exception):
    """The replay was saved, and is to go no further."""


class Keeper:
    """Counts instants; saves and stops after one of them, or goes on from what was saved."""

    def __init__(self, stop_after: int | None = None, saved: bytes | None = None) -> None:
        self.stop_after, self.saved, self.instants = stop_after, saved, 0

    def load(self):
        return self.saved and frozen_pickle.read(io.BytesIO(self.saved), PACKAGES)

    def due(self, now_s):
        self.instants += 1
        return self.instants == self.stop_after

    def save(self, replayed, described):
        file = io.BytesIO()
        frozen_pickle.write(file, replayed)
        self.saved = file.getvalue()
        raise StoppedError(described)


def replayed(name: str, keeper: Keeper):
    """Forty jobs of every sort on eight slots, where changes take time and a host fails."""
    curves = curve_profile({"dips": {1: 4.0, 2: 7.0, 3: 9.0, 4: 8.0, 8: 12.0}})
    known = replace(profile(preparation_s=1.0, pause_s=2.0), families=curves.families)
    jobs = []
    for index in range(40):
        slots, deadline = 1 + index % 3, index % 4 == 0
        arrival_s, work = 7.0 * (index // 2), 20.0 + 13.0 * (index * 7 % 11)
        jobs.append(
            job(
                f"{index:02d}", arrival_s, slots, work,
                workload=("recorded", "dips")[index % 2], max_slots=8,
                deadline_s=arrival_s + 300.0 if deadline else None,
                deadline_kind=DeadlineKind.HARD if deadline else DeadlineKind.NONE,
            )
        )  # fmt: skip
    events = (
        TraceEvent(50.0, TraceEventKind.SLOTS_DOWN, slots=(4, 5)),
        TraceEvent(120.0, TraceEventKind.SLOTS_UP, slots=(4, 5)),
    )
    return replay(
        jobs=jobs,
        cluster=WHERE,
        scheduler=built("scheduler", name),
        placement=Consolidated(),
        engine=engine(WHERE, known, events=events),
        profile=known,
        keeper=keeper,
    )


@pytest.mark.parametrize("name", shipped("scheduler"))
def test_a_replay_that_was_saved_goes_on_with_the_same_records(name):
    whole = Keeper()
    expected = replayed(name, whole)
    for share in CUTS:
        stopped = Keeper(stop_after=int(share * whole.instants))
        with pytest.raises(StoppedError, match="of 40 jobs had ended"):
            replayed(name, stopped)
        found = replayed(name, Keeper(saved=stopped.saved))
        for table in RECORD_TYPES:
            assert getattr(found, table) == getattr(expected, table), table
        assert len(found.latencies_us) == len(expected.latencies_us)
        assert found.facts.keys() == expected.facts.keys()
        assert found.facts["num_events"] == expected.facts["num_events"]

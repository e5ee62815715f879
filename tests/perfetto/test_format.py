"""Files keep the rules of the Trace Event Format, whatever the records' texts hold."""

import gzip
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reports.perfetto import files
from reports.perfetto.events import Events, text
from reports.perfetto.phases import laid_out

NEEDED = {"ph", "ts", "pid", "tid", "name"}
MORE = {"X": {"dur", "cat"}, "i": {"s", "cat"}, "C": {"cat", "args"}, "M": {"args"}}
"""Fields that an event of each phase has to have. B and E, which need a partner, are not used."""


def read(path: Path) -> dict:
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    assert isinstance(document["traceEvents"], list)
    return document


def check(listed: list[dict]) -> None:
    for event in listed:
        assert set(event) >= NEEDED | MORE[event["ph"]]
        assert all(type(event[key]) is int for key in ("ts", "pid", "tid"))
        assert min(event["pid"], event["tid"]) > 0
        assert isinstance(event["name"], str)
        if event["ph"] == "X":
            assert type(event["dur"]) is int
            assert event["dur"] >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())
    named = [(e["pid"], e["tid"]) for e in listed if e["name"] == "thread_name"]
    assert len(set(named)) == len(named) == len({tid for _, tid in named})
    assert {(e["pid"], e["tid"]) for e in listed if e["ph"] in "Xi"} <= set(named)
    groups = {e["pid"] for e in listed if e["name"] == "process_name"}
    assert {e["pid"] for e in listed} == groups
    assert not groups & {tid for _, tid in named}  # else a track is taken for the main thread


def test_files_keep_the_rules(run, tmp_path) -> None:
    (path,) = files.write(tmp_path, [run])
    document = read(path)
    check(document["traceEvents"])
    assert document["otherData"]["run"] == run.run_id
    assert document["displayTimeUnit"] == "ms"
    assert files.perfetto_path(tmp_path, run.run_id) == path


def test_equal_records_give_equal_bytes_plain_and_compressed(live, tmp_path) -> None:
    one, other = (files.write(tmp_path / name, [live])[0].read_bytes() for name in "ab")
    assert one == other
    (small,) = files.write(tmp_path / "a", [live], most_plain_bytes=0)
    assert small.name.endswith(".perfetto.json.gz")
    assert gzip.decompress(small.read_bytes()) == one
    assert len(small.read_bytes()) < len(one) / 4
    # The plain file of the command before is gone, so a page cannot show another state.
    assert [*small.parent.iterdir()] == [small]
    assert files.perfetto_path(tmp_path / "a", live.run_id) == small
    assert files.perfetto_path(tmp_path / "c", live.run_id) is None
    (again,) = files.write(tmp_path / "b", [live], most_plain_bytes=0)
    assert again.read_bytes() == small.read_bytes()


@given(st.lists(st.tuples(st.text(), st.integers(0, 10**15), st.integers(0, 10**12))), st.text())
def test_any_text_is_data(slices, name) -> None:
    events = Events()
    track = events.track(events.group(name), name)
    for own, start, length in slices:
        events.slice(track, "slot", own, start, start + length, reason=own)
        events.instant(track, "fault", own, start)
    written = "".join(text(events, {"run": name}))
    assert written.isascii()
    found = json.loads(written)
    check(found["traceEvents"])
    assert found["otherData"] == {"run": name}
    assert found["traceEvents"][0]["args"] == {"name": name}
    names = [event["name"] for event in found["traceEvents"] if event["ph"] == "X"]
    assert names == [own for own, _, _ in slices]


seconds = st.floats(0, 1e4, allow_subnormal=False)
known = st.sampled_from(["spawn", "import", "group", "switch", "first_step", "save", "stop"])


@given(st.dictionaries(known, seconds), st.integers(0, 10**12), st.integers(0, 10**10),
       st.sampled_from([0.25, 1.0, 4.0, 8.0]))  # fmt: skip
def test_phases_fill_the_end_of_their_change(phases_s, start_us, length_us, dilation) -> None:
    end_us = start_us + length_us
    placed = laid_out(phases_s, start_us, end_us, dilation)
    assert {phase.name: phase.recorded_s for phase in placed} == phases_s
    at_us = placed[0].start_us if placed else end_us
    assert start_us <= at_us
    for phase in placed:
        assert phase.start_us == at_us <= phase.end_us
        at_us = phase.end_us
    assert at_us == end_us
    total_us = sum(phases_s.values()) / dilation * 1e6
    if total_us <= length_us:
        assert all(phase.drawn_share == 1.0 for phase in placed)
        for phase in placed:
            assert abs(phase.end_us - phase.start_us - phase.recorded_s / dilation * 1e6) <= 2
    else:
        assert placed[0].start_us == start_us
    if "first_step" in phases_s:
        assert placed[-1].name == "first_step"


def test_phases_of_newcomers_come_before_the_switch() -> None:
    """As ``systems.elastic`` records them: the first worker's phases, then the newcomers'."""
    old = {"group": 0.1, "switch": 0.1, "first_step": 0.1}
    new = {"spawn": 0.1, "import": 0.1, "wait": 0.1, "copy": 0.1}
    placed = laid_out(old | new, 0, 1_000_000)
    order = ["spawn", "import", "wait", "copy", "group", "switch", "first_step"]
    assert [phase.name for phase in placed] == order
    assert placed[0].start_us == 300_000

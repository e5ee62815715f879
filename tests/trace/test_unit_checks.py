"""Lint notices times read in a wrong unit, and finds none in what is shipped."""

import json
import warnings

import pytest
import yaml

from harness.trace.build import TRACES
from harness.trace.columns import ColumnsReader
from harness.trace.commands.catalog import open_trace
from harness.trace.commands.lint import lint, report
from harness.trace.parsing.unit_checks import wrong_units
from tests.trace.examples import write

COLUMNS = {"arrival": "at", "slots": "gpus", "duration": "ran", "deadline": "due"}
NOW_S = 1_760_000_000


def told(folder, rows, **options):
    """The notes on a file with these rows."""
    text = "at,gpus,ran,due\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    submissions = ColumnsReader(str(write(folder, text)), **{"columns": COLUMNS, **options}).parse()
    return report(submissions, lint(submissions))


def jobs(*, at=1, ran=1, due=1, begin_s=NOW_S, count=40):
    """Jobs an hour apart that run for half an hour to 20 hours; each column in its own unit."""
    return [
        (
            round((begin_s + 3600 * number) * at),
            1,
            round(1800 * (number + 1) * ran, 6),
            round((begin_s + 3600 * number + 3600 * (number + 1)) * due),
        )
        for number in range(count)
    ]


def test_right_units_are_not_noted(tmp_path):
    assert told(tmp_path, jobs()) == "nothing to remark"
    milliseconds = jobs(at=1000, ran=1000, due=1000)
    units = {"arrival": "ms", "duration": "ms", "deadline": "ms"}
    assert told(tmp_path, milliseconds, units=units) == "nothing to remark"


def test_milliseconds_read_as_seconds(tmp_path):
    text = told(tmp_path, jobs(at=1000, ran=1000, due=1000))
    assert "submissions after the year 5000, if they are seconds since 1970: 40 of 40" in text
    assert ":2: at is 1760000000000\n" in text
    assert "they look like milliseconds: units: {arrival: ms}" in text
    assert "note: mean duration of 427.1 days: 40 of 40 jobs" in text
    assert ":41: ran is 72000000: 2.3 years" in text
    assert "as milliseconds they would last 10.2 h on average: units: {duration: ms}" in text


def test_only_deadlines_in_milliseconds(tmp_path):
    text = told(tmp_path, jobs(due=1000))
    assert "deadlines more than 10.0 years after submission: 40 of 40 jobs" in text
    assert ":2: due is 1760003600000: 55,715." in text
    assert "they look like milliseconds: units: {deadline: ms}" in text


def test_relative_deadlines_in_milliseconds(tmp_path):
    rows = [(at, slots, ran, 2000 * ran) for at, slots, ran, _ in jobs()]
    text = told(tmp_path, rows, deadlines="relative")
    assert "deadlines 2,000 durations after submission (median): 40 of 40 jobs" in text


def test_seconds_since_1970_read_as_relative(tmp_path):
    text = told(tmp_path, jobs(), deadlines="relative")
    assert "deadlines more than 10.0 years after submission: 40 of 40 jobs" in text
    assert "seconds since 1970, counted from submission: deadlines: absolute" in text


def test_relative_deadlines_read_as_absolute(tmp_path):
    rows = [(at, slots, ran, 2 * ran) for at, slots, ran, _ in jobs()]
    text = told(tmp_path, rows)
    assert "REFUSED: deadlines not after submission" in text
    assert "note: deadlines before the first submission of the trace: 40 of 40 jobs" in text
    assert "if they count from submission, set deadlines: relative" in text


def test_a_date_of_the_end_taken_for_a_duration(tmp_path):
    text = told(tmp_path, [(at, slots, at + ran, "") for at, slots, ran, _ in jobs()])
    assert "mean duration of 55.8 years: 40 of 40 jobs" in text
    assert "a date is no duration: name the columns of start and end instead" in text


def test_hours_read_as_seconds(tmp_path):
    text = told(tmp_path, jobs(ran=1 / 3600 / 24, due=1))
    assert "mean duration of 0.427 s: 40 of 40 jobs" in text
    assert "hours or days need units: {duration: h} or {duration: d}" in text


def test_a_submission_without_a_date(tmp_path):
    rows = [(at, slots, ran, "") for at, slots, ran, _ in jobs()]
    text = told(tmp_path, [(0, 1, 1800, ""), *rows])
    assert "first and last submission are 55.8 years apart: 2 of 41 jobs" in text
    assert ":2: at is 0\n" in text


def test_minutes_of_a_quiet_week_are_not_noted(tmp_path):
    rows = [(60 * number, 8, 300 + number, "") for number in range(100)]
    assert told(tmp_path, rows, units={"arrival": "min", "duration": "min"}) == "nothing to remark"


def started(folder, rows, **options):
    """The notes on a file with these submissions, starts and ends."""
    columns = {"arrival": "at", "slots": "gpus", "start": "from", "end": "to"}
    text = "at,gpus,from,to\n" + "".join(f"{at},1,{begin},{end}\n" for at, begin, end in rows)
    reader = ColumnsReader(str(write(folder, text)), columns=columns, **options)
    return report(reader.parse(), lint(reader.parse()))


def test_starts_on_another_clock_than_submissions(tmp_path):
    rows = [(at, NOW_S + at + 60, NOW_S + at + 7200) for at in range(0, 36000, 600)]
    text = started(tmp_path, rows)
    assert "note: starts more than 10.0 years from submission: 60 of 60 jobs" in text
    assert ":3: at is 600, and the start is 55.8 years later" in text
    assert (
        "check that arrival and start are on one clock; correct units, or leave out start" in text
    )
    text = started(tmp_path, [(NOW_S + at, at + 60, at + 7200) for at, _, _ in rows])
    assert ":3: at is 1760000600, and the start is 55.8 years earlier" in text
    assert "starts before submission" not in text


def test_starts_before_submission(tmp_path):
    hour_s = 3600
    rows = [(at, at + 60 - hour_s, at + 7200) for at in range(0, 36000, 600)]
    text = started(tmp_path, rows)
    assert "note: starts before submission: 60 of 60 jobs" in text
    assert ":3: at is 600, and the start is 59.0 min earlier" in text
    assert (
        "their recorded waits are ignored; check that arrival and start have the same time zone"
        in text
    )
    rows = [(at, at + 60, at + 7200) for at, _, _ in rows]
    assert started(tmp_path, rows) == "nothing to remark"


def test_submissions_in_milliseconds_and_durations_in_seconds(tmp_path):
    rows = [(1000 * 600 * number, 1, 7200 + number, "") for number in range(40)]
    text = told(tmp_path, rows)
    assert "0.0123 jobs at a time, if each runs when it is submitted: 40 of 40 jobs" in text
    assert ":2: ran is 7200: 2.0 h" in text
    assert "check that arrival and duration have the same unit in the file; correct units" in text
    units = {"arrival": "ms"}
    assert told(tmp_path, rows, units=units) == "nothing to remark"
    units["duration"] = "ms"
    rows = [(at, slots, 1000 * ran, "") for at, slots, ran, _ in rows]
    assert told(tmp_path, rows, units=units) == "nothing to remark"


def test_durations_of_zero_are_refused_without_a_warning_of_numpy(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = told(tmp_path, [(0, 1, 0, 5), (0, 1, 0, 0), (1, 1, 30, 90)])
    assert "REFUSED: ran of 0 or less: 2 of 3 jobs" in text


@pytest.mark.long
def test_no_shipped_trace_looks_wrong():
    readers = {}
    for path in sorted(TRACES.glob("*.yaml")):
        reader = yaml.safe_load(path.read_text())["reader"]
        readers.setdefault(json.dumps(reader, sort_keys=True), path.stem)
    assert len(readers) > 30
    for name in readers.values():
        rows = open_trace(name).reader.parse()
        assert [found.kind for found in wrong_units(rows) if len(found.rows)] == [], name

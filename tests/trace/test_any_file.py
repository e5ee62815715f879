"""Files that hypothesis makes: readers and lint refuse them or read what stands in them.

Nothing else may happen: no crash, and no value that is not in the file. What stands in a file is
computed here again, in the simplest way there is, from the standard library alone.
"""

import csv
import io
import json
import math
import os
import re
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.trace.columns import ColumnsReader
from harness.trace.commands.lint import lint, report
from harness.trace.gavel import GavelReader
from harness.trace.itp import ItpReader
from harness.trace.model.trace import TraceError
from harness.trace.openb import OpenbReader
from harness.trace.pai import PaiReader
from harness.trace.philly import PhillyReader
from harness.trace.philly_json import PhillyJsonReader
from tests.examples import examples
from tests.trace.examples import ITP_HEADER, PHILLY_HEADER
from tests.trace.test_other_formats import PODS

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
JUNK = (
    "", " ", "-1", "0", "nan", "inf", "-inf", "1e400", "1e-400", "1_000", "0x1f", "١٢", "１０",
    "1,5", "1.5", "2.0000001", "9007199254740993", "None", "null", "true", "2017-13-01",
    "2017-10-09", "2017-10-09T07:01:55+05:30", "1969-12-31 23:59:59", "\x00", '"', "'", "\t",
    "ünïcödé", "a" * 300, "=1+1", "${HOME}", "1 2", "+7", "1e3", "00012", "-0", ".5", "5.",
)  # fmt: skip
whole = st.integers(0, 40).map(str)
counted = st.integers(1, 16).map(str)
amount = st.one_of(st.integers(1, 10_000).map(str), st.sampled_from(["0.5", "66.25", "1e3", " 7 "]))
moment = st.integers(0, 10_000).map(str)
date = st.datetimes(datetime(2017, 1, 1), datetime(2018, 1, 1)).map(
    lambda at: at.isoformat(" ", "seconds")
)
name = st.sampled_from(["a", "b", "c", "d", "job 1", "x-2"])
FILES = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


EMPTY = ("", "Unknown", "None", "N/A", "null", "<none>", "<unknown>")
"""Cells that say nothing, by the rules for a user's own columns."""


class NotThereError(Exception):
    """The file says nothing that a job could be made of."""


def number(cell):
    cell = cell.strip()
    if not NUMBER.fullmatch(cell) or math.isinf(float(cell)):
        raise NotThereError(cell)
    return float(cell)


def integer(cell):
    value = number(cell)
    if value != int(value):
        raise NotThereError(cell)
    return int(value)


def instant(cell):
    at = datetime.fromisoformat(cell.strip())
    return (at.replace(tzinfo=at.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()


@st.composite
def tables(draw, header, *columns, delimiter=",", quotes=True):
    """The text of a table: most cells are as they should be."""
    rows = draw(
        st.lists(
            st.tuples(*(st.one_of(c, c, c, c, c, c, c, st.sampled_from(JUNK)) for c in columns)),
            max_size=4,
        )
    )
    out = io.StringIO()
    end = draw(st.sampled_from(["\n", "\r\n"]))
    if quotes:
        csv.writer(out, lineterminator=end, delimiter=delimiter).writerows(rows)
        text = out.getvalue()
    else:
        text = "".join(delimiter.join(row) + end for row in rows)
    if header:
        text = header + end + text
    if draw(st.integers(0, 9)) == 0:  # something that is no table any more
        at = draw(st.integers(0, len(text)))
        text = (
            text[:at] + draw(st.sampled_from(['"', "\n", ",", "\t", "\x00", "é", ""])) + text[at:]
        )
    if draw(st.integers(0, 9)) == 0:
        text = text[: draw(st.integers(0, len(text)))]
    return text


def cells(text, header, delimiter=",", quotes=True):
    """The rows of a text as dictionaries, by the standard library."""
    quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    rows = [
        row
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting)
        if any(cell.strip() for cell in row)
    ]
    names = [cell.strip() for cell in (header or rows.pop(0))]
    named = max((at for at, name in enumerate(names, 1) if name), default=0)
    if not any("".join(row[named:]).strip() for row in rows):  # delimiters at the end of lines
        names, rows = names[:named], [row[:named] for row in rows]
    return [dict(zip(names, (cell.strip() for cell in row), strict=True)) for row in rows]


def read(reader):
    """The trace of a file, or None where it is refused; lint must stand it as well."""
    try:
        rows = reader.parse()
    except TraceError:
        return None
    findings = lint(rows)
    assert report(rows, findings)
    try:
        trace = reader.read()
    except TraceError:
        assert any(finding.refused for finding in findings)
        return None
    assert not any(finding.refused for finding in findings)
    return trace


def same(trace, expected):
    """Whether a trace holds what stands in the file: (arrival, slots, work, duration, ...)."""
    first = min(arrival for arrival, *_ in expected)
    wanted = [
        (arrival - first, *rest[:3], None if rest[3] is None else rest[3] - first)
        for arrival, *rest in expected
    ]
    found = [
        (j.arrival_s, j.requested_slots, j.work_samples, j.duration_s, j.deadline_s)
        for j in trace.jobs
    ]
    assert sorted(found, key=_with_unknown) == sorted(wanted, key=_with_unknown)


def _with_unknown(values):
    """For sorting: what is unknown comes first."""
    return [(value is not None, 0.0 if value is None else value) for value in values]


def check_columns(folder, text):
    path = folder / "jobs.csv"
    path.write_text(text, newline="")
    reader = ColumnsReader(
        str(path),
        columns={"arrival": ["at", "when"], "slots": "gpus", "duration": "ran", "work": "n"},
        units={"arrival": "min"},
        scale={"slots": 0.5},
        fractions="round_up",
    )
    trace = read(reader)

    def job(row):
        ran, work = (None if row[key] in EMPTY else number(row[key]) for key in ("ran", "n"))
        slots = math.ceil(number(row["gpus"]) / 2)
        work = ran * slots if work is None else work  # without a program's name: slot-seconds
        return 60.0 * number(row["at"]), slots, work, ran, None

    if trace is not None:
        same(
            trace,
            [job(row) for row in cells(text, None)],
        )


def check_itp(folder, text):
    path = folder / "jobs.csv"
    path.write_text(text, newline="")
    trace = read(ItpReader(str(path)))
    if trace is not None:
        same(
            trace,
            [
                (
                    number(row["submission_time"]),
                    integer(row["num_gpu"]),
                    number(row["num_iteration"]) * integer(row["batch_size"]),
                    number(row["duration"]),
                    number(row["deadline"]) if row["deadline"] else None,
                )
                for row in cells(text, None)
            ],
        )


def check_philly(folder, text):
    path = folder / "jobs.csv"
    path.write_text(text, newline="")
    trace = read(PhillyReader(str(path)))
    if trace is not None:
        same(
            trace,
            [
                (
                    instant(row["timestamp"]),
                    integer(row["num_gpus"]),
                    number(row["duration"]) * integer(row["num_gpus"]),
                    number(row["duration"]),
                    None,
                )
                for row in cells(text, None)
            ],
        )


def check_openb(folder, text):
    path = folder / "jobs.csv"
    path.write_text(text, newline="")
    trace = read(OpenbReader(str(path)))
    if trace is not None:
        expected = []
        for row in cells(text, None):
            if row["num_gpu"] == "0" or not row["scheduled_time"]:
                continue
            slots = math.ceil(integer(row["num_gpu"]) * integer(row["gpu_milli"]) / 1000)
            ran = number(row["deletion_time"]) - number(row["scheduled_time"])
            expected.append((number(row["creation_time"]), slots, ran * slots, ran, None))
        same(trace, expected)


TEN = ["job_type", "command", "folder", "argument", "data", "steps", "gpus", "weight", "slo", "at"]


def check_gavel(folder, text):
    path = folder / "jobs.trace"
    path.write_text(text, newline="")
    trace = read(GavelReader(str(path), slo="seconds"))
    is_other_layout = not text.strip() or len(text.split("\n")[0].split("\t")) != len(TEN)
    if trace is not None and not is_other_layout:
        expected = []
        for row in cells(text, TEN, delimiter="\t", quotes=False):
            batch = re.fullmatch(r".+? \(batch size (\d+)\)", row["job_type"])
            slo = number(row["slo"])
            expected.append(
                (
                    number(row["at"]),
                    integer(row["gpus"]),
                    integer(row["steps"]) * (int(batch[1]) if batch else 1),
                    None,
                    None if slo < 0 else number(row["at"]) + slo,
                )
            )
        same(trace, expected)


job_type = st.sampled_from(["ResNet-18 (batch size 32)", "LM (batch size 5)", "A3C", "X (batch 2)"])
steps = st.integers(1, 1000).map(str)
phase = st.sampled_from(["Running", "Failed", "Pending"])
MAKERS = {
    "columns": (check_columns, tables("at,gpus,ran,n", moment, counted, amount, amount)),
    "itp": (
        check_itp,
        tables(ITP_HEADER, name, moment, amount, name, amount, counted, counted, amount),
    ),
    "philly": (check_philly, tables(PHILLY_HEADER, date, amount, counted, amount, name)),
    "openb": (
        check_openb,
        tables(
            PODS, name, whole, whole, whole, st.sampled_from(["1000", "460", "500"]), st.just(""),
            name, phase, moment, moment, moment,
        ),
    ),
    "gavel": (
        check_gavel,
        tables(
            None, job_type, name, name, name, whole, steps, counted, whole,
            st.sampled_from(["-1", "-1.000", "600"]), moment, delimiter="\t", quotes=False,
        ),
    ),
}  # fmt: skip
PAI_JOBS = tables(None, name, name, name, st.sampled_from(["Terminated", "Failed"]), moment, moment)
PAI_TASKS = tables(
    None, name, name, counted, name, moment, moment, whole, whole,
    st.sampled_from(["", "50", "100"]), name,
)  # fmt: skip
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.sampled_from(JUNK)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(JUNK), inner, max_size=2)
    ),
    max_leaves=5,
)


def mostly(value):
    return st.one_of(value, value, value, value, anything)


attempts = st.fixed_dictionaries(
    {
        "start_time": mostly(date),
        "end_time": mostly(date),
        "detail": mostly(
            st.lists(st.fixed_dictionaries({"gpus": st.lists(name, max_size=3)}), max_size=2)
        ),
    }
)
PHILLY_JOBS = st.lists(
    mostly(
        st.fixed_dictionaries(
            {
                "jobid": mostly(name),
                "submitted_time": mostly(date),
                "attempts": mostly(st.lists(mostly(attempts), max_size=2)),
                "vc": mostly(name),
                "status": mostly(st.sampled_from(["Pass", "Killed"])),
            }
        )
    ),
    max_size=3,
)


def check_pai(folder, texts):
    for file, text in zip(("jobs.csv", "tasks.csv"), texts, strict=True):
        (folder / file).write_text(text, newline="")
    trace = read(PaiReader(str(folder / "jobs.csv"), tasks="tasks.csv"))
    if trace is not None:
        assert all(job.duration_s > 0 and job.requested_slots >= 1 for job in trace.jobs)


def check_json(folder, jobs):
    (folder / "log.json").write_text(json.dumps(jobs))
    trace = read(PhillyJsonReader(str(folder / "log.json")))
    if trace is None:
        return
    expected = []
    for job in jobs:
        ran = [
            (instant(a["end_time"]) - instant(a["start_time"]), gpus)
            for a in job["attempts"]
            if a["start_time"] not in (None, "None", "")
            and a["end_time"] not in (None, "None", "")
            and (gpus := sum(len(host["gpus"] or []) for host in a["detail"] or []))
        ]
        ran = [(seconds, gpus) for seconds, gpus in ran if seconds > 0]
        if ran:
            work, slots = sum(s * g for s, g in ran), max(g for _, g in ran)
            at = instant(job["submitted_time"])
            expected.append((at, slots, work, sum(s for s, _ in ran), None))
    same(trace, expected)


MAKERS["pai"] = (check_pai, st.tuples(PAI_JOBS, PAI_TASKS))
MAKERS["philly_json"] = (check_json, PHILLY_JOBS)
SHARES = {"columns": 0.2, "itp": 0.2, "philly": 0.15, "openb": 0.15, "gavel": 0.15, "pai": 0.05,
          "philly_json": 0.1}  # fmt: skip
FILES_IN_ALL = int(os.environ.get("ELASTRACE_ANY_FILES", "5000"))
"""Of the long test; ELASTRACE_ANY_FILES=100000 makes twenty times as many (about 40 min)."""


@pytest.mark.parametrize("kind", MAKERS)
def test_a_few_files(tmp_path, kind):
    stand(tmp_path, kind, examples(100))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", MAKERS)
def test_many_files(tmp_path, kind):
    stand(tmp_path, kind, round(SHARES[kind] * FILES_IN_ALL))


def stand(folder, kind, count):
    check, made = MAKERS[kind]

    @settings(FILES, max_examples=count)
    @given(made)
    def one(content):
        check(folder, content)

    one()

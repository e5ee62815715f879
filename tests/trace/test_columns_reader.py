from datetime import UTC, datetime

import pytest

from harness.contracts.job import DeadlineKind
from harness.trace.columns import ColumnsReader
from harness.trace.model.trace import TraceError
from tests.trace.examples import write

BASIC = {"arrival": "at", "slots": "gpus", "duration": "ran"}


def read(folder, text, **options):
    return ColumnsReader(str(write(folder, text)), **{"columns": BASIC, **options}).read()


def refused(folder, text, **options):
    with pytest.raises(TraceError) as caught:
        read(folder, text, **options)
    return [str(problem) for problem in caught.value.problems]


def contradictions(**options):
    with pytest.raises(ValueError, match=r".") as caught:
        ColumnsReader("x.csv", **options)
    return str(caught.value).splitlines()


def test_least_that_a_file_must_have(tmp_path):
    first, second = read(tmp_path, "at,gpus,ran\n10,2,30\n5,1,20\n").jobs
    assert (first.arrival_s, first.requested_slots, first.duration_s) == (0.0, 1, 20.0)
    assert (second.arrival_s, second.requested_slots, second.duration_s) == (5.0, 2, 30.0)
    assert (second.workload, second.work_samples, second.global_batch) == ("recorded", 60.0, 2)
    assert second.elastic
    assert (second.owner, second.priority, second.min_slots, second.max_slots) == ("", 0, 1, None)
    assert (first.job_id, second.job_id) == ("0", "1")


@pytest.mark.parametrize(
    ("unit", "seconds"), [("ms", 0.005), ("s", 5), ("min", 300), ("h", 18000), ("d", 432000)]
)
def test_units_of_time(tmp_path, unit, seconds):
    columns = {**BASIC, "deadline": "due"}
    units = {"arrival": unit, "duration": unit, "deadline": unit}
    _, second = read(
        tmp_path, "at,gpus,ran,due\n1,1,5,9\n6,1,5,16\n", columns=columns, units=units
    ).jobs
    assert second.arrival_s == pytest.approx(seconds)
    assert second.duration_s == pytest.approx(seconds)
    assert second.deadline_s == pytest.approx(3 * seconds)


def test_dates_with_zones_and_formats(tmp_path):
    units = {"arrival": "date"}
    iso = "at,gpus,ran\n2020-01-01 00:00:00Z,1,5\n2020-01-01T02:00:00+01:00,1,5\n"
    assert [j.arrival_s for j in read(tmp_path, iso, units=units).jobs] == [0.0, 3600.0]
    own = "at,gpus,ran\n31.12.2019 23:00,1,5\n01.01.2020 00:30,1,5\n"
    jobs = read(tmp_path, own, units=units, date_format="%d.%m.%Y %H:%M").jobs
    assert [j.arrival_s for j in jobs] == [0.0, 5400.0]


def test_deadlines_relative_soft_and_absent(tmp_path):
    jobs = read(
        tmp_path,
        "at,gpus,ran,due\n10,1,5,7\n12,1,5,\n",
        columns={**BASIC, "deadline": "due"},
        deadlines="relative",
        deadline_kind=DeadlineKind.SOFT,
    ).jobs
    assert [j.deadline_s for j in jobs] == [7.0, None]
    assert [j.deadline_kind for j in jobs] == [DeadlineKind.SOFT, DeadlineKind.NONE]


@pytest.mark.parametrize(
    ("options", "samples"),
    [
        ({"work": "samples"}, 3.0),
        ({"work": "iterations"}, 3.0 * 64),
        ({"work": "iterations", "batches": "per_slot"}, 3.0 * 64 * 2),
        ({"work": "epochs", "samples_per_epoch": {"bert": 1000}}, 3000.0),
    ],
)
def test_work(tmp_path, options, samples):
    columns = {"arrival": "at", "slots": "gpus", "work": "n", "workload": "m", "batch": "b"}
    (job,) = read(tmp_path, "at,gpus,n,m,b\n0,2,3,bert,64\n", columns=columns, **options).jobs
    assert job.work_samples == samples
    assert job.duration_s is None
    assert job.global_batch == (128 if "batches" in options else 64)


def test_renames_constants_and_defaults(tmp_path):
    trace = read(
        tmp_path,
        "at,gpus,ran,model,who\n0,1,5,ResNet-50,\n1,1,5,bert,ann\n",
        columns={**BASIC, "workload": "model", "owner": "who"},
        workload_renames={"ResNet-50": "resnet50"},
        workloads=["resnet50", "bert"],
        constants={"batch": {"resnet50": 256, "bert": 64}, "priority": 3, "elastic": False},
        defaults={"owner": "nobody"},
        generated=["workload"],
    )
    first, second = trace.jobs
    assert (first.workload, first.global_batch, first.owner) == ("resnet50", 256, "nobody")
    assert (second.workload, second.global_batch, second.owner) == ("bert", 64, "ann")
    assert (first.priority, first.elastic) == (3, False)
    assert trace.generated == {"workload", "global_batch", "priority", "elastic"}


def test_ids_flags_and_slot_ranges(tmp_path):
    columns = {
        **BASIC,
        "job_id": "id",
        "elastic": "free",
        "min_slots": "low",
        "max_slots": "high",
        "priority": "rank",
        "logical_workers": "parts",
    }
    first, second = read(
        tmp_path,
        "id,at,gpus,ran,free,low,high,rank,parts\nx,0,2,5,Yes,2,4,1,8\ny,0,2,5,0,1,2,-1,2\n",
        columns=columns,
    ).jobs
    assert (first.job_id, first.elastic, first.min_slots, first.max_slots) == ("x", True, 2, 4)
    assert (second.job_id, second.elastic, second.priority) == ("y", False, -1)
    assert (first.logical_workers, second.num_logical_workers) == (8, 2)


def test_rows_kept_by_value_tabs_and_no_header(tmp_path):
    trace = read(
        tmp_path,
        "10\t1\t5\tPass\n3\t1\t0\tFailed\n12\t2\t5\tPass",
        columns=BASIC,
        delimiter="\t",
        header=["at", "gpus", "ran", "state"],
        keep_where={"state": ["Pass"]},
    )
    assert [j.arrival_s for j in trace.jobs] == [0.0, 2.0]
    assert trace.history[0] == "2 of 3 rows, by keep_where and drop_where"


def test_rows_left_out_by_value(tmp_path):
    trace = read(
        tmp_path, "at,gpus,ran\n0,0,5\n1,2,\n2,3,5\n", drop_where={"gpus": [0], "ran": [""]}
    )
    assert [j.requested_slots for j in trace.jobs] == [3]


def test_a_row_without_slots_is_told_once(tmp_path):
    (problem,) = refused(tmp_path, "at,gpus,ran\n0,0,5\n")
    assert ":2: gpus is 0; a job needs at least 1 slot" in problem


@pytest.mark.parametrize(
    ("text", "options", "fact"),
    [
        ("at,gpus\n0,1\n", {}, ":1: there is no column 'ran'; known: at, gpus"),
        ("at,gpus,ran\n0,1,\n", {}, ":2: ran is ''; give it, or a column for work"),
        ("at,gpus,ran\n0,1,5m\n", {}, ":2: ran is '5m'; give a number"),
        ("at,gpus,ran\n0,0.5,5\n", {}, ":2: gpus is '0.5'; give a whole number"),
        (
            "at,gpus,ran\n0,1,5\n",
            {"keep_where": {"gpus": [2]}},
            "keep_where and drop_where leave no row",
        ),
        (
            "at,gpus,ran\n0,1,5\n",
            {"constants": {"batch": {"bert": 1}}},
            "constants.batch has no value for workload 'recorded'; known: bert",
        ),
        (
            "at,gpus,ran\n0,1,5\n",
            {"constants": {"batch": "many"}},
            "constants.batch is 'many'; give a whole number",
        ),
        (
            "at,gpus,ran,m\n0,1,5,vgg\n",
            {"columns": {**BASIC, "workload": "m"}, "workloads": ["vgg16", "bert"]},
            ":2: m is 'vgg'; did you mean 'vgg16'? known: bert, vgg16; or rename it",
        ),
        (
            "at,gpus,ran,e\n0,1,5,maybe\n",
            {"columns": {**BASIC, "elastic": "e"}},
            ":2: e is 'maybe'; give true or false",
        ),
        (
            "at,gpus,ran,low,high\n0,1,5,4,2\n",
            {"columns": {**BASIC, "min_slots": "low", "max_slots": "high"}},
            ":2: low is 4 and high is 2; the lower end must be at least 1",
        ),
        (
            "at,gpus,n,m\n0,1,5,gpt2\n",
            {
                "columns": {"arrival": "at", "slots": "gpus", "work": "n", "workload": "m"},
                "work": "epochs",
                "samples_per_epoch": {"bert": 10},
            },
            ":2: m is 'gpt2'; has no samples_per_epoch; known: bert",
        ),
    ],
)
def test_bad_rows_and_values(tmp_path, text, options, fact):
    (problem,) = refused(tmp_path, text, **options)
    assert fact in problem


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"columns": {"arrival": "at"}}, "field 'slots' has neither a column nor a constant"),
        ({"columns": {**BASIC, "gpu": "g"}}, "unknown field 'gpu' in columns; known: arrival"),
        ({"columns": BASIC, "units": {"arrival": "sec"}}, "unknown unit 'sec' of arrival"),
        ({"columns": BASIC, "units": {"slots": "s"}}, "unknown field 'slots' in units"),
        ({"columns": BASIC, "units": {"duration": "date"}}, "the unit of duration is 'date'"),
        ({"columns": BASIC, "constants": {"slots": 1}}, "'slots' has a column and a constant"),
        ({"columns": BASIC, "defaults": {"batch": 1}}, "'batch' has a default but no column"),
        ({"columns": BASIC, "work": "iterations"}, "work counts iterations but has no column"),
        (
            {"columns": {**BASIC, "work": "n"}, "work": "epochs"},
            "work counts epochs; give samples_per_epoch",
        ),
        (
            {"columns": {**BASIC, "work": "n"}, "work": "slot_seconds"},
            "work in slot_seconds comes from duration x slots",
        ),
        ({"columns": {"arrival": "at", "slots": "n"}}, "neither work nor duration is known"),
        ({"columns": BASIC, "delimiter": "||"}, "give one character"),
        ({"columns": BASIC, "deadline_kind": DeadlineKind.NONE}, "deadline_kind is 'none'"),
        (
            {"columns": BASIC, "constants": {"workload": {"a": "b"}}},
            "constants.workload is a mapping",
        ),
        (
            {
                "columns": {**BASIC, "deadline": "d"},
                "units": {"deadline": "date"},
                "deadlines": "relative",
            },
            "deadline is a date, so it is absolute",
        ),
    ],
)
def test_contradicting_options(options, fact):
    assert any(fact in line for line in contradictions(**options))


@pytest.mark.parametrize(
    ("date_format", "fact"),
    [
        ("%Y-%m-%d %H:%M:%S %Z", "takes a zone's name with %Z and ignores it; use %z"),
        ("%Y-%m-%d %I:%M", "has 12 hours (%I) without %p; add %p, or use %H"),
        ("%Y-%m-%d %H:%M %p", "has %p, which counts only with %I; use %I, or cut %p off"),
        ("%d.%m. %H:%M", "has no year"),
        ("%Y %H:%M", "has no day"),
        ("%m/%Y", "has no day"),
        ("%Y-%Q", "cannot be read: 'Q' is a bad directive"),
        ("%Y-%m-%d %", "cannot be read: "),
        ("%Y-%m-%d %Y", "cannot be read: "),
        ("%%Y-%m-%d", "has no year"),
    ],
)
def test_formats_that_would_lose_a_part_of_the_date(date_format, fact):
    units = {"arrival": "date"}
    (line,) = contradictions(columns=BASIC, units=units, date_format=date_format)
    assert f"date_format {date_format!r} {fact}" in line


@pytest.mark.parametrize(
    ("date_format", "cell"),
    [
        ("%Y-%m-%d %H:%M:%S%z", "2017-10-07 15:03:54+0000"),
        ("%Y-%m-%d %H:%M:%S %z %Z", "2017-10-07 15:03:54 +0000 UTC"),
        ("%d %b %y %I:%M:%S %p", "07 Oct 17 03:03:54 PM"),
        ("%c", "Sat Oct  7 15:03:54 2017"),
        ("%x %X", "10/07/17 15:03:54"),
        ("%Y-%jT%H:%M:%S.%f%%Z", "2017-280T15:03:54.0%Z"),
        ("%G-W%V-%uT%H:%M:%S", "2017-W40-6T15:03:54"),
        ("%Y %U %a %H:%M:%S", "2017 40 Sat 15:03:54"),
    ],
)
def test_formats_that_name_the_whole_date(tmp_path, date_format, cell):
    text = f"at,gpus,ran\n{cell},1,5\n"
    options = {"units": {"arrival": "date"}, "date_format": date_format}
    (at,) = ColumnsReader(str(write(tmp_path, text)), columns=BASIC, **options).parse().arrival_s
    assert at == datetime(2017, 10, 7, 15, 3, 54, tzinfo=UTC).timestamp()


def test_contradictions_come_all_at_once():
    assert len(contradictions(columns={"gpu": "g"}, units={"arrival": "sec"})) == 5

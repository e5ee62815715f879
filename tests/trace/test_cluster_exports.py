"""What Slurm's ``sacct`` and Kubernetes write: durations in parts, no value, zones, line ends."""

import pytest

from harness.trace.columns import ColumnsReader
from harness.trace.commands.lint import lint, report
from harness.trace.parsing.values import parts_s
from tests.trace.examples import write
from tests.trace.test_columns_reader import BASIC, contradictions, read, refused

DATES = {"units": {"arrival": "date"}}


@pytest.mark.parametrize(
    ("cell", "seconds"),
    [
        ("2-01:24:56", 2 * 86400 + 1 * 3600 + 24 * 60 + 56),
        ("01:24:56", 5096),
        ("24:56", 1496),
        ("24:56.250", 1496.25),
        ("00:00:00", 0),
        ("125:30:00", 451800),
        ("90:00", 5400),
        ("2-01", 2 * 86400 + 3600),
        ("2-01:24", 2 * 86400 + 3600 + 24 * 60),
        ("365-23:59:59", 366 * 86400 - 1),
        ("3d4h", 3 * 86400 + 4 * 3600),
        ("1y20d", 385 * 86400),
        ("2h5m", 7500),
        ("45m", 2700),
        ("36s", 36),
        ("1m2.5s", 62.5),
        ("350ms", 0.35),
    ],
)
def test_durations_in_parts(cell, seconds):
    assert parts_s(cell) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "cell",
    ["", "90", "1:2:3:4", "01:60:00", "01:00:60", "1-24:00:00", "-1:00", "1:0", "4h3d", "3 d",
     "1.5d", "d", "1:00:00 ", "١:٠٠", "UNLIMITED"],
)  # fmt: skip
def test_what_is_no_duration_in_parts(tmp_path, cell):
    with pytest.raises(ValueError, match=r"^$"):
        parts_s(cell)
    if cell and cell == cell.strip():
        units = {"duration": "hms"}
        (problem,) = refused(tmp_path, f"at,gpus,ran\n0,1,{cell}\n", units=units)
        assert f"jobs.csv:2: ran is {cell!r}; give a duration like 2-01:24:56" in problem


def test_parts_in_every_field_of_time(tmp_path):
    columns = {"arrival": "at", "slots": "gpus", "start": "a", "end": "b", "deadline": "limit"}
    units = dict.fromkeys(("arrival", "start", "end", "deadline"), "hms")
    text = "at,gpus,a,b,limit\n00:10,1,00:20,01:00:20,1-00:00:00\n00:05,1,00:05,3d4h,\n"
    second, first = read(tmp_path, text, columns=columns, units=units, deadlines="relative").jobs[
        ::-1
    ]
    assert (first.arrival_s, first.duration_s, first.deadline_s) == (0.0, 273595.0, None)
    assert (second.arrival_s, second.duration_s, second.deadline_s) == (5.0, 3600.0, 86405.0)


OPTIONAL = {
    **BASIC, "workload": "m", "batch": "b", "deadline": "d", "best_effort": "be", "job_id": "id",
    "owner": "o", "priority": "p", "elastic": "e", "min_slots": "lo", "max_slots": "hi",
    "logical_workers": "lw",
}  # fmt: skip
ROW = "at,gpus,ran,m,b,d,be,id,o,p,e,lo,hi,lw\n5,2,30" + 11 * ",{}" + "\n"


@pytest.mark.parametrize("cell", ["", "Unknown", "None", "N/A", "null", "<none>", "<unknown>"])
def test_an_optional_cell_without_a_value_is_as_a_column_left_out(tmp_path, cell):
    left_out = read(tmp_path, "at,gpus,ran\n5,2,30\n").jobs
    assert read(tmp_path, ROW.format(*11 * [cell]), columns=OPTIONAL).jobs == left_out


def test_one_row_without_values_next_to_one_with_them(tmp_path):
    row = "7,4,30,bert,64,99,0,a,ann,3,no,2,8,16\n"
    columns = {name: column for name, column in OPTIONAL.items() if name != "batch"}
    bare, full = read(tmp_path, ROW.format(*11 * ["Unknown"]) + row, columns=columns).jobs
    assert (bare.job_id, bare.workload, bare.deadline_s, bare.priority) == (
        "0",
        "recorded",
        None,
        0,
    )
    assert (bare.min_slots, bare.max_slots, bare.num_logical_workers) == (1, None, 2)
    assert (full.job_id, full.workload, full.deadline_s, full.priority) == ("a", "bert", 94.0, 3)
    assert (full.min_slots, full.max_slots, full.num_logical_workers) == (2, 8, 16)
    assert (bare.elastic, full.elastic) == (True, False)


@pytest.mark.parametrize("field", ["arrival", "slots", "duration"])
def test_what_must_be_there_is_refused_with_the_cells_text(tmp_path, field):
    cells = {"arrival": "0", "slots": "1", "duration": "5", field: "Unknown"}
    (problem,) = refused(tmp_path, "at,gpus,ran\n" + ",".join(cells.values()) + "\n")
    assert f"{BASIC[field]} is 'Unknown'" in problem


def test_ones_own_texts_for_no_value_and_defaults(tmp_path):
    text = "at,gpus,ran,who\n0,1,5,-\n1,1,5,None\n"
    columns = {**BASIC, "owner": "who"}
    jobs = read(tmp_path, text, columns=columns, no_value=["-"], defaults={"owner": "None"}).jobs
    assert [job.owner for job in jobs] == ["None", "None"]
    jobs = read(tmp_path, text, columns=columns, no_value=[]).jobs
    assert [job.owner for job in jobs] == ["-", "None"]
    assert "no_value lists an empty text" in contradictions(columns=BASIC, no_value=[""])[0]


def test_a_known_program_without_its_batch_or_work_is_refused(tmp_path):
    """A batch of as many samples as slots, or work in slot-seconds, would be a silent guess."""
    columns = {**BASIC, "workload": "m", "batch": "b"}
    text = "at,gpus,ran,m,b\n0,2,30,bert,\n0,2,30,,\n"
    (problem,) = refused(tmp_path, text, columns=columns)
    assert ":2: b is ''; give the batch of 'bert', or set defaults.batch" in problem
    columns = {**BASIC, "workload": "m", "work": "n"}
    text = "at,gpus,ran,m,n\n0,2,30,bert,\n1,2,30,,7\n2,2,30,recorded,None\n"
    first, second = refused(tmp_path, text, columns=columns)
    assert ":2: n is ''; give it; only with the program 'recorded'" in first
    assert ":3: m is ''; name one, or give it in defaults" in second


def test_a_delimiter_at_the_end_of_every_line(tmp_path):
    text = "at|gpus|ran|\n0|1|5|\n1|2|6|\n"
    jobs = read(tmp_path, text, delimiter="|").jobs
    assert [job.requested_slots for job in jobs] == [1, 2]
    names = ["at", "gpus", "ran"]
    same = read(tmp_path, text.partition("\n")[2], delimiter="|", header=names).jobs
    assert same == jobs == read(tmp_path, text.replace("ran|", "ran"), delimiter="|").jobs
    assert jobs == read(tmp_path, "at,gpus,ran,,\n0,1,5,,\n1,2,6,,\n").jobs


def test_a_quotation_mark_in_a_name_hides_no_jobs(tmp_path):
    columns = {**BASIC, "owner": "name"}
    text = 'name|at|gpus|ran\n"my run|0|1|5\nb|1|2|6\n5" disk|2|3|7\n"|3|4|8\n'
    jobs = read(tmp_path, text, columns=columns, delimiter="|").jobs
    assert [(job.owner, job.requested_slots) for job in jobs] == [
        ('"my run', 1), ("b", 2), ('5" disk', 3), ('"', 4),
    ]  # fmt: skip
    other = text.replace("|", ";")
    assert read(tmp_path, other, columns=columns, delimiter=";", quotes=False).jobs == jobs
    quoted = 'name|at|gpus|ran\n"a|b"|0|1|5\n'
    (job,) = read(tmp_path, quoted, columns=columns, delimiter="|", quotes=True).jobs
    assert job.owner == "a|b"


def test_a_cell_over_several_lines_is_refused_where_it_begins(tmp_path):
    columns = {**BASIC, "owner": "name"}
    text = 'at,gpus,ran,name\n0,1,5,a\n\n1,1,5,"my run\n2,1,5,b\n3,1,5,c"\n4,1,5,"d\n'
    spans, is_open = refused(tmp_path, text, columns=columns)
    assert "jobs.csv:4: a cell in quotes spans lines 4 to 6; correct the quotes, or" in spans
    assert "jobs.csv:7: not a table (unexpected end of data)" in is_open
    assert "set quotes: false" in spans
    assert "set quotes: false" in is_open
    (alone,) = refused(tmp_path, text.partition("4,1")[0], columns=columns)
    assert alone == spans


def test_only_the_row_that_has_a_cell_too_many_is_refused(tmp_path):
    (problem,) = refused(tmp_path, "at|gpus|ran|\n0|1|5|\n1|2|6|x|\n", delimiter="|")
    assert "jobs.csv:3: has 5 cells, the header names 3 (at, gpus, ran)" in problem


def test_an_unnamed_last_column_with_cells_is_a_column(tmp_path):
    assert len(read(tmp_path, "at,gpus,ran,\n0,1,5,x\n1,2,6,\n").jobs) == 2


JOBS = """\
id,at,gpus,ran,state
7,0,1,5,COMPLETED
7.batch,0,1,5,COMPLETED
7.0,0,1,5,COMPLETED
8,1,2,5,CANCELLED by 1007
9,2,2,Unknown,RUNNING
10,3,4,5,FAILED
"""


def test_rows_kept_and_left_out_by_pattern(tmp_path):
    columns = {**BASIC, "job_id": "id"}
    trace = read(
        tmp_path, JOBS, columns=columns,
        keep_matching={"state": "^(COMPLETED|FAILED|CANCELLED)"}, drop_matching={"id": r"\."},
    )  # fmt: skip
    assert [job.job_id for job in trace.jobs] == ["7", "8", "10"]
    assert trace.history[0] == "3 of 6 rows, by keep_matching, drop_matching"
    trace = read(
        tmp_path, JOBS, columns=columns,
        drop_matching={"state": ["^CANCELLED by", "FAIL"], "id": [r"\.batch$", r"\.\d+$"]},
        drop_where={"ran": [""]},
    )  # fmt: skip
    assert [job.job_id for job in trace.jobs] == ["7"]
    (problem,) = refused(tmp_path, JOBS, keep_matching={"state": "^DONE"}, drop_where={"gpus": [1]})
    assert (
        "the last rows are removed by keep_matching.state, whose cells are 'CANCELLED by 1007'"
        in problem
    )
    (problem,) = refused(tmp_path, JOBS, keep_matching={"State": "x"})
    assert "there is no column 'State'; did you mean 'state'?" in problem


def test_slots_out_of_what_slurm_allocated(tmp_path):
    text = (
        "at;tres;ran\n0;billing=8,cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=64G;5\n"
        "1;billing=4,cpu=4,gres/gpu:a100=1,mem=8G;5\n2;cpu=4,mem=8G;5\n3;Unknown;5\n"
    )
    options = {
        "delimiter": ";",
        "columns": {**BASIC, "slots": "tres"},
        "patterns": {"slots": r"gres/gpu(?::[^=,]+)?=(\d+)"},
    }
    trace = read(tmp_path, text, keep_matching={"tres": "gres/gpu"}, **options)
    assert [job.requested_slots for job in trace.jobs] == [2, 1]
    without, unknown = refused(tmp_path, text, **options)
    assert ":4: tres is 'cpu=4,mem=8G', in which patterns.slots" in without
    assert "leave out such rows with keep_matching: {tres: ...}" in without
    assert ":5: tres (slots) is 'Unknown', which means no value; give a whole number" in unknown


def test_dates_of_a_zone(tmp_path):
    text = "at,gpus,ran\n2026-03-28T12:00:00,1,5\n2026-03-29T12:00:00,1,5\n"
    for zone, hours in (("Europe/Berlin", 23), ("UTC", 24), (None, 24), ("Asia/Shanghai", 24)):
        assert read(tmp_path, text, time_zone=zone, **DATES).jobs[1].arrival_s == hours * 3600.0


def test_the_hour_that_clocks_show_twice(tmp_path):
    text = "at,gpus,ran\n2025-10-26T01:00:00,1,5\n2025-10-26T02:30:00,1,5\n"
    zone = {"time_zone": "Europe/Berlin", **DATES}
    (problem,) = refused(tmp_path, text, **zone)
    assert ":3: at is '2025-10-26T02:30:00', which clocks in Europe/Berlin showed twice" in problem
    for choice, hours in (("earlier", 1.5), ("later", 2.5)):
        jobs = read(tmp_path, text, repeated_hour=choice, **zone).jobs
        assert jobs[1].arrival_s == hours * 3600.0


def test_an_hour_that_clocks_never_showed(tmp_path):
    text = "at,gpus,ran\n2026-03-29T02:30:00,1,5\n"
    for choice in ("refuse", "earlier", "later"):
        (problem,) = refused(
            tmp_path, text, time_zone="Europe/Berlin", repeated_hour=choice, **DATES
        )
        assert ":2: at is '2026-03-29T02:30:00', which clocks in Europe/Berlin never" in problem


def test_dates_with_and_without_a_zone(tmp_path):
    text = "at,gpus,ran\n2026-01-01T00:00:00,1,5\n2026-01-01T00:00:00Z,1,5\n"
    for zone in (None, "Europe/Berlin"):
        (problem,) = refused(tmp_path, text, time_zone=zone, **DATES)
        assert ":2: at is '2026-01-01T00:00:00', without a zone, and" in problem
        assert "'2026-01-01T00:00:00Z' at line 3 has one" in problem


def test_columns_with_and_without_a_zone_need_the_zone_of_the_rest(tmp_path):
    text = "at,gpus,from,to\n2026-01-01T00:00:00Z,1,2026-01-01 02:00,2026-01-01 03:00\n"
    columns = {"arrival": "at", "slots": "gpus", "start": "from", "end": "to"}
    options = {"columns": columns, "units": dict.fromkeys(("arrival", "start", "end"), "date")}
    (problem,) = refused(tmp_path, text, **options)
    assert "dates of at ('2026-01-01T00:00:00Z') name a zone, those of " in problem
    (job,) = read(tmp_path, text, time_zone="Europe/Berlin", **options).jobs
    assert job.duration_s == 3600.0


def test_all_problems_of_a_file_at_once_in_its_order(tmp_path):
    text = (
        "at,gpus,ran,due,n\n"
        "2026-01-01,1,00:10,2026-01-02,1\n"
        "yesterday,1,00:10,2026-01-02,2\n"
        "2026-01-01,1,10,2026-01-02,3,4\n"
        "2026-01-01,none,00:10,2026-01-02,5\n"
        "2026-01-03,1,00:10,2026-01-02,6\n"
        "2026-01-01,0,00:10,2026-01-02,7\n"
        "2026-01-01,1,0:00,2026-01-02T00:00Z,8\n"
    )
    problems = refused(
        tmp_path, text, columns={**BASIC, "deadline": "due", "job_id": "n"},
        units={"arrival": "date", "duration": "hms", "deadline": "date"},
    )  # fmt: skip
    assert [problem.partition("jobs.csv:")[2] for problem in problems] == [
        "2: due is '2026-01-02', without a zone, and '2026-01-02T00:00Z' at line 8 has one; write"
        " all of a column with a zone, or all without",
        "3: at is 'yesterday'; give a date like 2017-10-07 01:03:54, or remove the row"
        ' (ColumnsReader: drop_where: {at: ["yesterday"]}, or no_value if the text means that'
        " there is no value)",
        "4: has 6 cells, the header names 5 (at, gpus, ran, due, n); add or remove cells, or set"
        " the delimiter, or export with a delimiter that no cell has (sacct --delimiter)",
        "5: gpus is 'none'; give a whole number, or remove the row"
        ' (ColumnsReader: drop_where: {gpus: ["none"]}, or no_value if the text means that there is'
        " no value)",
        "6: due 2026-01-02 is not after at 2026-01-03; correct the row, or set"
        " reader.impossible_deadlines to drop_deadline or drop_job",
        "7: gpus is 0; a job needs at least 1 slot",
        "8: ran is 0:00; leave out jobs that never ran, or correct the row",
    ]


def test_lint_names_the_cells_text(tmp_path):
    text = "at,gpus,ran,due\n2026-01-02,1,5,-60\n2026-01-01,1,5,0\n"
    reader = ColumnsReader(
        str(write(tmp_path, text)),
        columns={**BASIC, "deadline": "due"}, deadlines="relative", **DATES,
    )  # fmt: skip
    rows = reader.parse()
    told = report(rows, lint(rows))
    assert "due (from arrival) -60 is not after at 2026-01-02" in told
    assert "at is 2026-01-01, 86,400 s earlier than 2026-01-02 in the row before" in told


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"time_zone": "Europe/Berlinn"}, "'Europe/Berlinn'; did you mean 'Europe/Berlin'? name"),
        ({"time_zone": "../etc/passwd"}, "there is no time zone '../etc/passwd'"),
        ({"time_zone": "UTC"}, "time_zone and repeated_hour are for dates; set the unit"),
        ({"repeated_hour": "later"}, "time_zone and repeated_hour are for dates"),
        ({"repeated_hour": "later", **DATES}, "repeated_hour is for dates of a time_zone"),
        ({"keep_matching": {"id": "("}}, "keep_matching.id '(' is no regular expression"),
        ({"drop_matching": {"id": ["x", "["]}}, "drop_matching.id '[' is no regular expression"),
        ({"drop_matching": {"id": []}}, "drop_matching.id is empty; give a regular expression"),
        ({"units": {"duration": "h:m:s"}}, "unknown unit 'h:m:s' of duration"),
        (
            {"columns": {"arrival": "a", "slots": "g"}, "constants": {"duration": "1:00:00"},
             "units": {"duration": "hms"}},
            "constants.duration is one value, of unit hms",
        ),
        (
            {
                "columns": {**BASIC, "deadline": "d"},
                "units": {"arrival": "date", "deadline": "hms"},
            },
            "deadline is a duration, no date; set deadlines: relative",
        ),
    ],
)  # fmt: skip
def test_options_that_contradict(options, fact):
    found = contradictions(**{"columns": BASIC, **options})
    assert any(fact in problem for problem in found), found


def test_ways_out_are_rules_that_leave_the_row_out(tmp_path):
    columns = {**BASIC, "deadline": "limit", "job_id": "id"}
    options = {"columns": columns, "units": {"deadline": "hms"}, "deadlines": "relative"}
    text = "id,at,gpus,ran,limit\n1,0,1,5,01:00\n2,,1,5,02:00\n3,1,1,,03:00\n4,2,2,Unknown,04:00\n"
    text += "5,3,3,5,UNLIMITED\n1,4,4,5,05:00\n"
    problems = refused(tmp_path, text, **options)
    for at, rule in (
        ("3: at", '{at: [""]}'),
        ("4: ran", '{ran: [""]}'),
        ("5: ran", '{ran: ["Unknown"]}'),
        ("6: limit", '{limit: ["UNLIMITED"]}'),
    ):
        (problem,) = (problem for problem in problems if f"jobs.csv:{at} is" in problem)
        assert f"drop_where: {rule}" in problem
        assert ("or no_value if the text means" in problem) == ("UNLIMITED" in problem)
    assert "or leave such rows out with drop_where, or leave job_id out" in problems[-1]
    rules = {"at": [""], "ran": ["", "Unknown"], "limit": ["UNLIMITED"], "gpus": [4]}
    (job,) = read(tmp_path, text, drop_where=rules, **options).jobs
    assert job.job_id == "1"
    no_value = ["Unknown", "UNLIMITED"]
    rules = {"at": [""], "ran": [""], "gpus": [4]}
    jobs = read(tmp_path, text, drop_where=rules, no_value=no_value, **options).jobs
    assert [job.deadline_s for job in jobs] == [60, None]


def test_a_name_with_the_delimiter_in_it_is_told_what_sacct_can_do(tmp_path):
    text = "at|gpus|ran|name\n0|1|5|a|b\n1|1|5\n2|1|5|c\n"
    longer, shorter = refused(tmp_path, text, delimiter="|")
    assert "export with a delimiter that no cell has (sacct --delimiter)" in longer
    assert "sacct" not in shorter

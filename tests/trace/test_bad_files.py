"""Every bad file is refused with path and line, the fact and the way out, all at once."""

import gzip

import pytest

from harness.trace.itp import ItpReader
from harness.trace.model.trace import TraceError
from harness.trace.philly import PhillyReader
from tests.trace.examples import ITP_HEADER, PHILLY_HEADER, write

GOOD = "a,0,10,bert,90,32,1,80"


def refused(reader):
    with pytest.raises(TraceError) as caught:
        reader.read()
    assert len(str(caught.value).splitlines()) <= 13
    return [str(problem) for problem in caught.value.problems]


def itp_problems(tmp_path, *rows, header=ITP_HEADER):
    return refused(ItpReader(str(write(tmp_path, "\n".join([header, *rows]) + "\n"))))


@pytest.mark.parametrize(
    ("row", "fact", "hint"),
    [
        ("b,x,10,bert,90,32,1,80", "submission_time is 'x'", "give a number"),
        ("b,,10,bert,90,32,1,80", "submission_time is empty", "give a number"),
        ("b,0,10,bert,90,32,1.5,80", "num_gpu is '1.5'", "give a whole number"),
        ("b,0,10,bert,90,32,0,80", "num_gpu is 0", "at least 1 slot"),
        ("b,0,10,bert,90,0,1,80", "batch_size is 0", "at least 1 sample"),
        ("b,0,10,bert,90,32,1,0", "duration is 0", "never ran"),
        ("b,0,10,bert,90,32,1,-5", "duration is -5", "never ran"),
        ("b,0,0,bert,90,32,1,80", "num_iteration x batch_size is 0", "needs work"),
        ("b,0,10,bert,90,32,1,nan", "duration is 'nan'", "give a number"),
        ("b,0,10,bert,90,32,1,inf", "duration is 'inf'", "give a number"),
        ("b,0,10,bert,90,32,1", "has 7 cells, the header names 8", "add or remove cells"),
        ("b,0,10,bert,90,32,1,80,9", "has 9 cells, the header names 8", "add or remove cells"),
        ("b,95,10,bert,90,32,1,80", "deadline 90 is not after", "drop_deadline"),
        ("a,5,10,bert,90,32,1,80", "job_id 'a' is also at", "a different id"),
        (",5,10,bert,90,32,1,80", "job_id is empty", "give every job an id"),
    ],
)
def test_bad_rows(tmp_path, row, fact, hint):
    (problem,) = itp_problems(tmp_path, GOOD, row)
    assert "jobs.csv:3: " in problem
    assert fact in problem
    assert hint in problem


def test_all_bad_cells_at_once_with_their_lines(tmp_path):
    problems = itp_problems(tmp_path, "b,x,10,bert,90,32,1,80", "", GOOD, "c,0,y,bert,90,z,1,80")
    assert len(problems) == 3
    assert [p.split("jobs.csv:")[1].split(":")[0] for p in sorted(problems)] == ["2", "5", "5"]


def test_missing_columns_name_those_that_are_there(tmp_path):
    (problem,) = itp_problems(tmp_path, "a,0,10", header="job_id,submission_time,duration")[:1]
    assert "jobs.csv:1: there is no column num_iteration or iteration" in problem
    assert "known: duration, job_id, submission_time" in problem
    path = write(tmp_path, "timestamp,duration\n2017-10-09,1\n", "p.csv")
    assert "there is no column 'num_gpus'" in refused(PhillyReader(str(path)))[0]


def test_one_field_under_two_names(tmp_path):
    problems = itp_problems(tmp_path, GOOD + ",0", header=ITP_HEADER + ",submit_time")
    assert "both submission_time and submit_time are there; keep one" in problems[0]


def test_bad_dates(tmp_path):
    rows = ["2017-13-09 07:01:55,66,1,66,x", "yesterday,66,1,66,x", ",66,1,66,x"]
    path = write(tmp_path, "\n".join([PHILLY_HEADER, *rows]))
    problems = refused(PhillyReader(str(path)))
    assert len(problems) == 3
    assert "jobs.csv:2: timestamp is '2017-13-09 07:01:55'; give a date like" in problems[0]
    assert "jobs.csv:4: timestamp is empty" in problems[2]


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (f"{ITP_HEADER}\n".encode(), "has a header but no rows"),
        (b"a,b,a\n1,2,3\n", "column 'a' occurs twice"),
        (b"job_id\n\xff\xfe\x00", "not UTF-8 text"),
        (f'{ITP_HEADER}\n"a"x,0,10,bert,90,32,1,80\n'.encode(), "not a table"),
    ],
)
def test_files_that_are_no_table(tmp_path, content, fact):
    path = tmp_path / "jobs.csv"
    path.write_bytes(content)
    (problem,) = refused(ItpReader(str(path)))
    assert "jobs.csv" in problem
    assert fact in problem


def test_absent_file_lists_its_neighbours(tmp_path):
    write(tmp_path, "", "other.csv")
    (problem,) = refused(ItpReader(str(tmp_path / "jobs.csv")))
    assert "there is no such file; in" in problem
    assert "other.csv" in problem
    (problem,) = refused(ItpReader(str(tmp_path)))
    assert "is a folder" in problem
    (problem,) = refused(ItpReader(str(tmp_path / "nowhere" / "jobs.csv")))
    assert "empty or absent" in problem


@pytest.mark.parametrize("damage", [lambda data: data[:40], lambda data: b"x" * 40])
def test_damaged_archives(tmp_path, damage):
    path = tmp_path / "jobs.csv.gz"
    path.write_bytes(damage(gzip.compress((ITP_HEADER + "\n" + GOOD).encode())))
    (problem,) = refused(ItpReader(str(path)))
    assert "cannot be read" in problem


def test_a_file_of_nothing_but_mistakes_fits_on_a_screen(tmp_path):
    problems = itp_problems(tmp_path, *[f"{n},x,10,bert,90,32,1,80" for n in range(500)])
    assert len(problems) == 500

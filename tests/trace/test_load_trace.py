import pytest

from harness.trace.build import load_trace
from harness.trace.model.trace import TraceError
from harness.trace.transforms import TransformContext
from tests.trace.examples import ITP_HEADER, write

ITP = "harness.trace.itp.ItpReader"
FIRST = "harness.trace.transforms.FirstJobs"
ROWS = f"{ITP_HEADER}\na,5,10,bert,90,32,1,80\nb,6,10,bert,90,32,1,80\n"


def config(**changes):
    base = {
        "name": "mine",
        "source": "a test,\n  in lines",
        "licence": "none",
        "reader": {"_target_": ITP, "path": "jobs.csv"},
        "transforms": [{"_target_": FIRST, "count": 1}],
    }
    return {**base, **changes}


def refused(tmp_path, **changes):
    write(tmp_path, ROWS)
    with pytest.raises(TraceError) as caught:
        load_trace(config(**changes), TransformContext(), base_dir=tmp_path)
    return [str(problem) for problem in caught.value.problems]


def test_reader_and_transforms_are_built_and_applied(tmp_path):
    write(tmp_path, ROWS)
    trace = load_trace(config(), TransformContext(), base_dir=tmp_path)
    assert (trace.name, trace.source, trace.licence) == ("mine", "a test, in lines", "none")
    assert [j.job_id for j in trace.jobs] == ["a"]
    assert trace.history[-1] == "FirstJobs: 1 of 2 jobs"


def test_absolute_paths_and_no_transforms(tmp_path):
    path = write(tmp_path, ROWS)
    reader = {"_target_": ITP, "path": str(path), "deadline_kind": "soft"}
    trace = load_trace(config(reader=reader, transforms=None), TransformContext())
    assert [j.deadline_kind for j in trace.jobs] == ["soft", "soft"]


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"readers": {}}, "trace: unknown key 'readers'; did you mean 'reader'?"),
        ({"name": ""}, "trace: 'name' is missing"),
        ({"reader": {"path": "jobs.csv"}}, "trace.reader: has no _target_"),
        ({"reader": "jobs.csv"}, "trace.reader: is 'jobs.csv'; give a mapping with _target_"),
        (
            {"reader": {"_target_": "harness.trace.itp.Itp", "path": "x"}},
            "module harness.trace.itp has no class 'Itp'; known: ItpReader",
        ),
        (
            {"reader": {"_target_": "harness.trace.nothing.Reader", "path": "x"}},
            "there is no module 'harness.trace.nothing'",
        ),
        ({"reader": {"_target_": ITP}}, "option 'path' of harness.trace.itp.ItpReader is missing"),
        (
            {"reader": {"_target_": ITP, "path": "jobs.csv", "elastik": True}},
            "unknown option of harness.trace.itp.ItpReader; did you mean 'elastic'?",
        ),
        (
            {"reader": {"_target_": ITP, "path": "jobs.csv", "impossible_deadlines": "keep"}},
            "give one of refuse, drop_deadline, drop_job",
        ),
        ({"reader": {"_target_": FIRST, "count": 1}}, "has no read()"),
        ({"transforms": [{"_target_": FIRST}]}, "trace.transforms.0: option 'count'"),
        ({"transforms": [{"_target_": FIRST, "count": 0}]}, "count is 0; keep at least 1 job"),
        ({"transforms": [{"_target_": FIRST, "count": "2"}]}, "give a whole number"),
        ({"transforms": [{"_target_": ITP, "path": "x"}]}, "has no apply()"),
        ({"transforms": "FirstJobs"}, "trace.transforms: is no list"),
        ({"transforms": ["FirstJobs"]}, "trace.transforms.0: is 'FirstJobs'"),
        (
            {"transforms": [{"_target_": FIRST, "count": 9}]},
            "trace.transforms.0: FirstJobs: skip 0 and count 9 ask for more than the 2 jobs",
        ),
        ({"reader": {"_target_": ITP, "path": "none.csv"}}, "none.csv: there is no such file"),
    ],
)
def test_mistakes(tmp_path, changes, fact):
    (problem,) = refused(tmp_path, **changes)
    assert fact in problem


def test_mistakes_of_all_parts_come_at_once(tmp_path):
    found = refused(
        tmp_path,
        licence="",
        reader={"_target_": ITP, "file": "jobs.csv"},
        transforms=[{"_target_": FIRST}, {"_target_": FIRST, "count": -1}],
    )
    assert len(found) == 5

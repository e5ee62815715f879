"""Rules of ``ColumnsReader`` for files that nobody here has seen: names, patterns, factors."""

import re
from pathlib import Path

import pytest
import yaml

from harness.profiles import load_profile
from harness.trace.build import load_trace
from harness.trace.columns import ColumnsReader
from harness.trace.model.trace import TraceError
from harness.trace.transforms import TransformContext
from tests.trace.examples import write
from tests.trace.test_columns_reader import BASIC, contradictions, read, refused

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "how-to" / "add-a-trace.md"
CURVES = ROOT / "configs" / "profile" / "a100_elasticflow.yaml"


def test_one_of_several_names(tmp_path):
    columns = {**BASIC, "arrival": ["submitted", "at"]}
    (job,) = read(tmp_path, "at,gpus,ran\n0,2,30\n", columns=columns).jobs
    assert job.requested_slots == 2
    (problem,) = refused(tmp_path, "when,gpus,ran\n0,2,30\n", columns=columns)
    assert "jobs.csv:1: there is no column submitted or at" in problem
    (problem,) = refused(tmp_path, "at,submitted,gpus,ran\n0,0,2,30\n", columns=columns)
    assert "both submitted and at are columns for arrival; name one" in problem


def test_recognising_by_any_of_the_names():
    reader = ColumnsReader("x.csv", columns={**BASIC, "arrival": ["submitted", "at"]})
    assert reader.recognises(["submitted", "gpus", "ran"])
    assert not reader.recognises(["gpus", "ran"])


def test_several_fields_out_of_one_column(tmp_path):
    text = 'at,needs,ran\n0,"{""gpu"": 4, ""first"": 2}",30\n5,gpu:1 first:1,30\n'
    columns = {"arrival": "at", "slots": "needs", "min_slots": "needs", "duration": "ran"}
    patterns = {"slots": r"gpu\W+(\d+)", "min_slots": r"first\W+(\d+)"}
    jobs = read(tmp_path, text, columns=columns, patterns=patterns).jobs
    assert [(j.requested_slots, j.min_slots) for j in jobs] == [(4, 2), (1, 1)]
    (problem,) = refused(
        tmp_path, "at,needs,ran\n0,cpu:4 first:1,30\n", columns=columns, patterns=patterns
    )
    assert "jobs.csv:2: needs is 'cpu:4 first:1', in which patterns.slots" in problem
    (problem,) = refused(
        tmp_path, "at,needs,ran\n0,,30\n", columns={**BASIC, "slots": "needs"},
        patterns={"slots": r"(\d+)"},
    )  # fmt: skip
    assert "needs (slots) is empty; give a whole number" in problem


def test_factors_and_parts_of_a_slot(tmp_path):
    text = "at,gpus,ran\n0,3000,30\n5,1100,30\n"
    jobs = read(tmp_path, text, scale={"slots": 0.01}).jobs
    assert [j.requested_slots for j in jobs] == [30, 11]
    (problem,) = refused(tmp_path, text, scale={"slots": 0.001})
    assert "jobs.csv:3: gpus is '1100'; give a whole number" in problem
    trace = read(tmp_path, text, scale={"slots": 0.001}, fractions="round_up")
    assert [j.requested_slots for j in trace.jobs] == [3, 2]
    assert "1 jobs ask for a part of a slot, rounded up" in trace.history
    assert trace.jobs[1].work_samples == 60.0


def test_durations_from_start_and_end(tmp_path):
    columns = {"arrival": "at", "slots": "gpus", "start": "from", "end": "to"}
    text = "at,gpus,from,to\n0,1,10,15\n1,1,20,\n2,1,9,7\n"
    empty, negative = refused(tmp_path, text, columns=columns)
    rule = 'leave such rows out with drop_where: {to: [""]}'
    told = f"3: to is ''; give it, or a column for work; or {rule}"
    assert empty == f"{tmp_path / 'jobs.csv'}:{told}"
    assert "jobs.csv:4: from is 9 and to is 7" in negative
    (problem,) = refused(tmp_path, text.replace("20,\n", "20,21\n"), columns=columns)
    assert "jobs.csv:4: from is 9 and to is 7; leave out jobs that never ran" in problem
    (job,) = read(tmp_path, "at,gpus,from,to\n0,1,10,15\n", columns=columns).jobs
    assert job.duration_s == 5.0


def test_best_effort_jobs_have_no_deadline(tmp_path):
    columns = {**BASIC, "deadline": "due", "best_effort": "free"}
    text = "at,gpus,ran,due,free\n0,1,5,9,1\n0,1,5,9,no\n"
    assert [j.deadline_s for j in read(tmp_path, text, columns=columns).jobs] == [None, 9.0]


@pytest.mark.parametrize("cell", ["1_000", "１０", "0x10", "1e999", "nan", "1,5"])
def test_numbers_that_no_trace_means(tmp_path, cell):
    (problem,) = refused(tmp_path, f'at,gpus,ran\n0,1,"{cell}"\n')
    assert f"ran is '{cell}'; give a number" in problem


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"columns": {**BASIC, "arrival": []}}, "columns.arrival is empty"),
        ({"columns": BASIC, "patterns": {"slots": r"\d+"}}, "patterns.slots has 0 groups"),
        ({"columns": BASIC, "patterns": {"slots": "("}}, "patterns.slots is no regular expression"),
        ({"columns": BASIC, "patterns": {"work": r"(\d+)"}}, "'work' has a pattern but no column"),
        ({"columns": BASIC, "scale": {"slots": 0.0}}, "scale.slots is 0.0; give a number above 0"),
        ({"columns": BASIC, "scale": {"duration": 2.0}}, "unknown field 'duration' in scale"),
        (
            {"columns": {"arrival": "a", "slots": "b", "start": "c"}},
            "start and end make a duration together",
        ),
        (
            {"columns": {**BASIC, "start": "c", "end": "d"}},
            "both the duration and start and end have columns",
        ),
    ],
)
def test_rules_that_contradict(options, text):
    assert any(text in problem for problem in contradictions(**options))


CAMPUS = """\
created_ms,job,kind,resources,wall_ms,must_end_ms
1760000000000,a17,ResNet-50,"{""gpu"": 4, ""mem_gb"": 64}",3600000,1760007200000
1760000060000,a18,bert-base,"{""mem_gb"": 16, ""gpu"": 1}",90000,
1759999990000,a19,ResNet-50,"{""gpu"": 2, ""mem_gb"": 32}",1800000,1760003600000
"""
MILLI = """\
Pod|Submitted|GPU (milli)|Began|Ended|Phase|Class
p-1|03.05.2026 14:00:00|2000|03.05.2026 14:00:30|03.05.2026 15:00:30|Succeeded|gold
p-2|03.05.2026 14:05:00|250|03.05.2026 14:06:00|03.05.2026 14:16:00|Succeeded|
p-3|03.05.2026 14:06:00|1000||| Pending|gold
"""


def examples():
    """The YAML blocks of the documentation that are whole trace files."""
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return {yaml.safe_load(block)["name"]: block for block in blocks if block.startswith("name:")}


def load_documented(folder, name, text):
    block = examples()[name]
    assert len(block.splitlines()) < 30
    config = yaml.safe_load(block)
    write(folder, text, config["reader"]["path"])
    context = TransformContext(profile=load_profile(CURVES))
    return load_trace(config, context, base_dir=folder)


def test_an_invented_format_with_milliseconds_and_nested_resources(tmp_path):
    trace = load_documented(tmp_path, "campus", CAMPUS)
    assert [job.job_id for job in trace.jobs] == ["a19", "a17", "a18"]
    assert [job.arrival_s for job in trace.jobs] == [0.0, 10.0, 70.0]
    assert [job.requested_slots for job in trace.jobs] == [2, 4, 1]
    assert [job.duration_s for job in trace.jobs] == [1800.0, 3600.0, 90.0]
    assert [job.deadline_s for job in trace.jobs] == [3610.0, 7210.0, None]
    assert [job.workload for job in trace.jobs] == ["resnet50", "resnet50", "bert"]
    assert [job.global_batch for job in trace.jobs] == [256, 256, 64]
    curves = load_profile(CURVES)
    assert [job.work_samples for job in trace.jobs] == [
        job.duration_s
        * curves.throughput(job.workload, job.global_batch).samples_per_s(job.requested_slots)
        for job in trace.jobs
    ]
    same = load_documented(tmp_path, "campus", CAMPUS.replace("created_ms", "submit_ms", 1))
    assert same.digest == trace.digest


def test_mistakes_are_told_in_the_order_of_the_file_and_once(tmp_path):
    options = {"columns": {"arrival": "at", "slots": "gpus", "start": "at", "end": "to"}}
    rows = "at,gpus,to\n0,2,30\nx,2,40\n5,many,50\ny,1,late\n"
    problems = refused(tmp_path, rows, **options)
    assert [problem.split(":")[1] for problem in problems] == ["3", "4", "5", "5"]


def test_slot_seconds_are_no_samples_of_a_known_program(tmp_path):
    """An hour on four slots would be 14,400 pictures otherwise, done in seconds."""
    config = yaml.safe_load(examples()["campus"])
    del config["transforms"]
    write(tmp_path, CAMPUS, "campus.csv")
    with pytest.raises(TraceError, match="is to train 'resnet50', but its work is in slot-sec"):
        load_trace(config, TransformContext(), base_dir=tmp_path)
    del config["reader"]["columns"]["workload"]
    del config["reader"]["workload_renames"]
    config["reader"]["constants"] = {"batch": 64}
    assert load_trace(config, TransformContext(), base_dir=tmp_path).work_in_slot_s


def test_an_invented_format_with_thousandths_and_own_dates(tmp_path):
    trace = load_documented(tmp_path, "pods", MILLI)
    assert [job.job_id for job in trace.jobs] == ["p-1", "p-2"]
    assert [job.requested_slots for job in trace.jobs] == [2, 1]
    assert [job.duration_s for job in trace.jobs] == [3600.0, 600.0]
    assert [job.owner for job in trace.jobs] == ["gold", "none"]
    assert "1 jobs ask for a part of a slot, rounded up" in trace.history

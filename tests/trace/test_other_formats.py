"""Formats with readers of their own: Gavel's three layouts, openb, PAI, Philly's JSON."""

import json
import shlex

import pytest

from harness.contracts.job import DeadlineKind
from harness.trace.gavel import GavelReader
from harness.trace.model.trace import TraceError
from harness.trace.openb import OpenbReader
from harness.trace.pai import PaiReader
from harness.trace.philly_json import PhillyJsonReader
from tests.trace.examples import write

COMMAND = 'touch "%s/ran" && python3 train.py'


def refused(reader):
    with pytest.raises(TraceError) as caught:
        reader.read()
    return [str(problem) for problem in caught.value.problems]


def gavel(folder, *lines, **options):
    text = "\n".join("\t".join(map(str, line)) for line in lines)
    return GavelReader(str(write(folder, text, "jobs.trace")), **options)


SEVEN = ("ResNet-18 (batch size 32)", COMMAND, "--num_steps", 1, 1000, 60.5, 2)
TEN = ("LM (batch size 10)", COMMAND, "lm", "--steps", 1, 500, 4, 5, -1, 30)
TWELVE = ("A3C", COMMAND, "rl", "--steps", 0, 70, 1, "gns", 1, 900, 123.5, 10)


def test_gavel_seven_fields(tmp_path):
    (job,) = gavel(tmp_path, SEVEN).read().jobs
    assert (job.workload, job.global_batch, job.requested_slots) == ("resnet18", 32, 2)
    assert job.work_samples == 32_000.0
    assert (job.arrival_s, job.duration_s, job.deadline_s) == (0.0, None, None)


def test_gavel_ten_fields(tmp_path):
    first, second = gavel(tmp_path, TEN, (*TEN[:-2], 600, 40), slo="seconds").read().jobs
    assert (first.workload, first.requested_slots, first.priority) == ("lm", 4, 5)
    assert (first.deadline_s, first.deadline_kind) == (None, DeadlineKind.NONE)
    assert second.deadline_s == 610.0


def test_gavel_twelve_fields_without_a_batch(tmp_path):
    (job,) = gavel(tmp_path, TWELVE, slo="seconds").read().jobs
    assert (job.workload, job.global_batch, job.work_samples) == ("a3c", 1, 70.0)
    assert (job.duration_s, job.deadline_s) == (123.5, 900.0)


def test_gavel_what_an_slo_counts_must_be_said(tmp_path):
    (problem,) = refused(gavel(tmp_path, TWELVE))
    assert "jobs.trace:1: SLO is '900'; set reader.slo to seconds, or to durations" in problem
    (job,) = gavel(tmp_path, (*TWELVE[:9], 2, *TWELVE[10:]), slo="durations").read().jobs
    assert job.deadline_s == 247.0
    without = (*TEN[:-2], 2, 40)
    assert len(refused(gavel(tmp_path, without, slo="durations"))) == 1


def test_gavel_batches_of_each_slot(tmp_path):
    (job,) = gavel(tmp_path, SEVEN, batches="per_slot").read().jobs
    assert (job.global_batch, job.work_samples) == (64, 64_000.0)


def test_gavel_commands_are_never_run(tmp_path):
    marked = (*SEVEN[:1], f"touch {shlex.quote(str(tmp_path))}/ran", *SEVEN[2:])
    trace = gavel(tmp_path, marked).read()
    assert not (tmp_path / "ran").exists()
    assert "touch" not in repr(trace)


def test_gavel_durations_from_speeds(tmp_path):
    write(
        tmp_path,
        "worker_type,job_type,scale_factor,steps_per_second\n"
        "v100,ResNet-18 (batch size 32),2,4\nk80,ResNet-18 (batch size 32),2,1\n"
        "v100,LM (batch size 10),1,5\n",
        "speeds.csv",
    )
    lm = ("LM (batch size 10)", COMMAND, "-n", 1, 100, 70, 4)
    trace = gavel(tmp_path, SEVEN, lm, throughputs="speeds.csv").read()
    assert [job.duration_s for job in trace.jobs] == [250.0, 5.0]
    assert "1 durations from the speed on 1 slot times the slots" in trace.history
    assert "duration_s" in trace.generated
    (slow,) = gavel(tmp_path, SEVEN, throughputs="speeds.csv", worker_type="k80").read().jobs
    assert slow.duration_s == 1000.0
    (problem,) = refused(gavel(tmp_path, (*TWELVE[:9], -1, *TWELVE[10:]), throughputs="speeds.csv"))
    assert "jobs.trace:1: speeds.csv has no speed of 'A3C'" in problem.replace(f"{tmp_path}/", "")
    (problem,) = refused(gavel(tmp_path, SEVEN, throughputs="speeds.csv", worker_type="a100"))
    assert "no speed of worker_type 'a100'" in problem


def test_gavel_bad_files(tmp_path):
    (problem,) = refused(gavel(tmp_path, SEVEN[:-1]))
    assert "jobs.trace:1: has 6 fields between tabs; Gavel's traces have 7, 10, 12" in problem
    ragged = refused(gavel(tmp_path, SEVEN, TEN))
    assert "jobs.trace:2: has 10 cells" in ragged[0]
    bad = refused(
        gavel(
            tmp_path,
            ("ResNet-18 (batch 32)", *SEVEN[1:]),
            (*SEVEN[:4], "many", *SEVEN[5:]),
            (*SEVEN[:6], 0.5),
        )
    )
    assert "jobs.trace:1: job_type is 'ResNet-18 (batch 32)'" in bad[0]
    assert "jobs.trace:3: scale_factor is '0.5'; give a whole number" in bad[1]
    assert "jobs.trace:2: total_steps is 'many'" in bad[2]


PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time"
)


def openb(folder, *rows, **options):
    return OpenbReader(str(write(folder, "\n".join([PODS, *rows]))), **options)


def test_openb_runs_from_scheduling_to_deletion(tmp_path):
    first, second = (
        openb(
            tmp_path,
            "b,1,1,8,1000,,LS,Failed,100,400,150",
            "a,1,1,1,460,,BE,Running,50,150,60",
            "c,1,1,0,0,,LS,Running,10,20,10",
            "d,1,1,1,1000,,LS,Pending,10,20,",
        )
        .read()
        .jobs
    )
    assert (first.job_id, first.requested_slots, first.duration_s) == ("a", 1, 90.0)
    assert (second.job_id, second.requested_slots, second.duration_s) == ("b", 8, 250.0)
    assert (second.owner, second.arrival_s, second.work_samples) == ("LS", 50.0, 2000.0)
    assert not second.elastic


def test_openb_shares_of_a_device(tmp_path):
    row = "a,1,1,1,460,,BE,Running,50,150,60"
    trace = openb(tmp_path, row, slots_per_device=8).read()
    assert trace.jobs[0].requested_slots == 4  # 3.68 eighths
    assert "1 jobs ask for a part of a slot, rounded up" in trace.history[0]
    exact = openb(tmp_path, row, slots_per_device=50).read()
    assert (exact.jobs[0].requested_slots, exact.history) == (
        23,
        ("first submission, at 50 s in the file, becomes 0",),
    )
    with pytest.raises(ValueError, match="at least 1"):
        openb(tmp_path, row, slots_per_device=0)


def test_openb_phases_and_empty_outcomes(tmp_path):
    row = "a,1,1,1,1000,,BE,Failed,50,150,60"
    (problem,) = refused(openb(tmp_path, row, drop_phases=["Failed"]))
    assert "no job is left; 1 pods in a phase of drop_phases left out" in problem
    (problem,) = refused(openb(tmp_path, "a,1,1,1,1000,,BE,Running,50,55,60"))
    assert "deletion_time - scheduled_time is -5" in problem


JOBS = """\
one,i1,u1,Terminated,100,900
two,i2,u2,Failed,110,300
three,i3,u1,Terminated,120,400
four,i4,u3,Terminated,130,
five,i5,u3,Terminated,140,500
"""
TASKS = """\
one,ps,1,Terminated,150,800,600,29,,
one,worker,4,Terminated,160,850,600,29,50,V100
three,worker,1,Terminated,130,400,600,29,,
four,worker,2,Terminated,135,,600,29,100,T4
"""


def pai(folder, jobs=JOBS, tasks=TASKS, **options):
    write(folder, tasks, "tasks.csv")
    return PaiReader(str(write(folder, jobs, "jobs.csv")), tasks="tasks.csv", **options)


def test_pai_sums_over_the_tasks(tmp_path):
    trace = pai(tmp_path).read()
    (job,) = trace.jobs
    assert (job.job_id, job.owner, job.requested_slots) == ("one", "u1", 2)
    assert job.duration_s == 700.0
    assert trace.recorded_wait_s == {"one": 50.0}
    assert {
        "1 jobs of another status left out",
        "2 jobs without a GPU left out",
        "1 jobs that lack a time left out",
    } <= set(trace.history)


def test_pai_shares_of_a_device(tmp_path):
    trace = pai(tmp_path, tasks=TASKS.replace("600,29,50", "600,29,30")).read()
    assert trace.jobs[0].requested_slots == 2
    assert "1 jobs ask for a part of a slot, rounded up" in trace.history


def test_pai_bad_files(tmp_path):
    (problem,) = refused(pai(tmp_path, statuses=["Running"]))
    assert "no job is left" in problem
    (problem,) = refused(pai(tmp_path, tasks=TASKS.replace(",4,", ",four,")))
    assert "tasks.csv:2: inst_num is 'four'" in problem
    with pytest.raises(ValueError, match="at least 1"):
        pai(tmp_path, slots_per_device=0)


def attempt(start, end, *gpus):
    return {"start_time": start, "end_time": end, "detail": [{"ip": "m", "gpus": list(gpus)}]}


def philly(folder, *jobs, **options):
    return PhillyJsonReader(str(write(folder, json.dumps(jobs), "log.json")), **options)


JOB = {
    "status": "Pass",
    "vc": "v",
    "user": "u",
    "jobid": "j1",
    "submitted_time": "2017-10-07 00:00:00",
    "attempts": [
        attempt("2017-10-07 00:00:10", "2017-10-07 00:01:00", "gpu0"),
        attempt("2017-10-07 00:02:00", "2017-10-07 00:02:30", "gpu0", "gpu1"),
        attempt("2017-10-07 00:03:00", "None", "gpu0"),
        attempt(None, None),
        attempt("2017-10-07 00:04:00", "2017-10-07 00:05:00"),
    ],
}


def test_philly_json_counts_what_ran(tmp_path):
    never = {**JOB, "jobid": "j0", "attempts": []}
    trace = philly(tmp_path, JOB, never).read()
    (job,) = trace.jobs
    assert (job.job_id, job.owner, job.requested_slots) == ("j1", "v", 2)
    assert (job.duration_s, job.work_samples) == (80.0, 50.0 + 60.0)
    assert "1 jobs left out: they never had a GPU" in trace.history


def test_philly_json_records_waits_where_nothing_lies_between_the_attempts(tmp_path):
    """The wait of the first job is in two parts, so its end does not follow from one of them."""
    parts = [
        attempt("2017-10-07 00:00:30", "2017-10-07 00:01:00", "gpu0"),
        attempt("2017-10-07 00:01:00", "2017-10-07 00:02:00", "gpu0", "gpu1"),
    ]
    trace = philly(tmp_path, JOB, {**JOB, "jobid": "j2", "attempts": parts}).read()
    assert trace.recorded_wait_s == {"j2": 30.0}


def test_philly_json_selections(tmp_path):
    killed = {**JOB, "jobid": "j2", "status": "Killed", "vc": "w"}
    assert [j.job_id for j in philly(tmp_path, JOB, killed, statuses=["Killed"]).read().jobs] == [
        "j2"
    ]
    assert [j.job_id for j in philly(tmp_path, JOB, killed, clusters=["v"]).read().jobs] == ["j1"]
    with pytest.raises(ValueError, match="unknown status 'pass'; did you mean 'Pass'"):
        philly(tmp_path, JOB, statuses=["pass"])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"submitted_time": None}, "log.json[0]: submitted_time is missing"),
        ({"submitted_time": "yesterday"}, "submitted_time is 'yesterday'; give a date"),
        ({"jobid": 7}, "jobid is 7; give the job's name"),
        ({"attempts": {}}, "attempts is {}; give a list"),
        ({"attempts": [3]}, "attempts[0]: is 3; give an attempt"),
        ({"attempts": [{**attempt("None", "None"), "detail": [1]}]}, "give a list of hosts"),
        ({"attempts": [{**attempt("None", "None"), "detail": [{"ip": "m"}]}]}, "hosts with gpus"),
        ({"attempts": [{"startTime": "None", "detail": []}]}, "no start_time and no end_time"),
        (
            {"attempts": [attempt("2017-10-07 00:01:00", "2017-10-07 00:00:50", "g")]},
            "ends 10 s before it starts",
        ),
    ],
)
def test_philly_json_bad_jobs(tmp_path, change, text):
    (problem,) = refused(philly(tmp_path, {**JOB, **change}))
    assert text in problem


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1", "null", "\x00"])
def test_philly_json_bad_files(tmp_path, text):
    (problem,) = refused(PhillyJsonReader(str(write(tmp_path, text, "log.json"))))
    assert "log.json" in problem

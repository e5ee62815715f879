import gzip

import pytest

from harness.contracts.job import DeadlineKind
from harness.trace.itp import ItpReader
from harness.trace.model.trace import TraceError
from harness.trace.philly import PhillyReader
from tests.trace.examples import ITP_HEADER, PHILLY_HEADER, write

TWO = f"{ITP_HEADER}\nb,3715485,10,bert,3715600,32,2,80\na,3715490,5,vgg16,3715499,64,1,20"


def test_itp_fields(tmp_path):
    first, second = ItpReader(str(write(tmp_path, TWO))).read().jobs
    assert (first.job_id, first.arrival_s, first.deadline_s) == ("b", 0.0, 115.0)
    assert first.work_samples == 320.0
    assert (first.workload, first.global_batch, first.requested_slots) == ("bert", 32, 2)
    assert (first.duration_s, first.deadline_kind) == (80.0, DeadlineKind.HARD)
    assert (second.job_id, second.arrival_s, second.deadline_s) == ("a", 5.0, 14.0)
    assert first.elastic


def test_itp_says_what_was_made_up_and_what_was_moved(tmp_path):
    trace = ItpReader(str(write(tmp_path, TWO))).read()
    assert trace.generated == {"workload", "global_batch", "work_samples", "deadline_s"}
    assert trace.history == ("first submission, at 3715485 s in the file, becomes 0",)


def test_itp_options(tmp_path):
    path = str(write(tmp_path, TWO))
    first = ItpReader(path, deadline_kind=DeadlineKind.SOFT, elastic=False).read().jobs[0]
    assert first.deadline_kind is DeadlineKind.SOFT
    assert not first.elastic
    with pytest.raises(ValueError, match="give hard or soft"):
        ItpReader(path, deadline_kind=DeadlineKind.NONE)


def test_itp_other_spelling_and_best_effort(tmp_path):
    text = (
        "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n"
        "0,0,10,bert,50,32,1,80,1\n1,7,10,bert,57,32,1,80,0\n"
    )
    first, second = ItpReader(str(write(tmp_path, text))).read().jobs
    assert (first.deadline_s, first.deadline_kind) == (None, DeadlineKind.NONE)
    assert (second.deadline_s, second.deadline_kind) == (57.0, DeadlineKind.HARD)


@pytest.mark.parametrize(
    "text",
    [
        TWO,
        TWO + "\n",
        TWO.replace("\n", "\r\n"),
        TWO.replace("\n", "\r\n") + "\r\n\r\n",
        "\ufeff" + TWO,
        TWO.replace(",", ", "),
        TWO.replace("\n", "\n\n"),
    ],
    ids=["no final newline", "newline", "crlf", "crlf blank", "bom", "spaces", "blank lines"],
)
def test_line_ends_blanks_and_marks_make_no_difference(tmp_path, text):
    plain = ItpReader(str(write(tmp_path, TWO, "plain.csv"))).read()
    assert ItpReader(str(write(tmp_path, text))).read().digest == plain.digest


def test_compressed_files_read_the_same(tmp_path):
    plain = ItpReader(str(write(tmp_path, TWO))).read()
    packed = tmp_path / "jobs.csv.gz"
    packed.write_bytes(gzip.compress(TWO.encode()))
    trace = ItpReader(str(packed)).read()
    assert (trace.digest, trace.name) == (plain.digest, "jobs")


LATE = f"""{ITP_HEADER}
a,100,10,bert,100,32,1,80
b,110,10,bert,90,32,1,80
c,120,10,bert,150,32,1,80
"""


def test_impossible_deadlines_are_refused_by_line(tmp_path):
    path = write(tmp_path, LATE)
    with pytest.raises(TraceError) as caught:
        ItpReader(str(path)).read()
    lines = [str(problem) for problem in caught.value.problems]
    assert len(lines) == 2
    assert ":2: deadline 100 is not after submission_time 100" in lines[0]
    assert ":3: deadline 90 is not after submission_time 110" in lines[1]
    assert "drop_deadline" in lines[0]


def test_impossible_deadlines_can_be_dropped(tmp_path):
    path = str(write(tmp_path, LATE))
    kept = ItpReader(path, impossible_deadlines="drop_deadline").read()
    assert [j.deadline_s for j in kept.jobs] == [None, None, 50.0]
    assert kept.history[0] == "2 deadlines left out: not after submission"
    fewer = ItpReader(path, impossible_deadlines="drop_job").read()
    assert [(j.job_id, j.arrival_s, j.deadline_s) for j in fewer.jobs] == [("c", 0.0, 30.0)]
    assert fewer.history[0] == "2 jobs left out: deadline not after submission"


def test_dropping_every_job_is_refused(tmp_path):
    path = str(write(tmp_path, "\n".join(LATE.splitlines()[:3])))
    with pytest.raises(TraceError, match="no job is left"):
        ItpReader(path, impossible_deadlines="drop_job").read()


PHILLY = f"""{PHILLY_HEADER}
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-08 23:59:59,30.0,12,360.0,6214e9
2017-10-09 07:01:55,66.0,1,66.0,11cb48

"""


def test_philly_fields(tmp_path):
    jobs = PhillyReader(str(write(tmp_path, PHILLY))).read().jobs
    assert [j.job_id for j in jobs] == ["0", "1", "2"]
    assert [j.arrival_s for j in jobs] == [0.0, 25316.0, 25316.0]
    assert [j.requested_slots for j in jobs] == [12, 1, 1]
    assert [j.work_samples for j in jobs] == [360.0, 66.0, 66.0]
    assert {j.workload for j in jobs} == {"recorded"}
    assert [j.global_batch for j in jobs] == [12, 1, 1]
    assert [j.owner for j in jobs] == ["6214e9", "11cb48", "11cb48"]
    assert not any(j.elastic for j in jobs)
    assert all(j.deadline_s is None for j in jobs)


def test_made_ids_sort_as_text_in_the_order_of_arrival(tmp_path):
    rows = [f"2017-10-09 07:01:{59 - n // 4:02d},{n + 1}.0,1,1.0,x" for n in range(12)]
    jobs = PhillyReader(str(write(tmp_path, "\n".join([PHILLY_HEADER, *rows])))).read().jobs
    assert [j.job_id for j in jobs] == [f"{n:02d}" for n in range(12)]
    # Rows of one second stay in the order of the file.
    assert [j.duration_s for j in jobs] == [9, 10, 11, 12, 5, 6, 7, 8, 1, 2, 3, 4]


def test_philly_clusters(tmp_path):
    path = str(write(tmp_path, PHILLY))
    trace = PhillyReader(path, clusters=["11cb48"]).read()
    assert [j.owner for j in trace.jobs] == ["11cb48", "11cb48"]
    assert trace.history[0] == "2 of 3 rows, by the option clusters"
    with pytest.raises(TraceError, match="no job of cluster 'abc'; known: 11cb48, 6214e9"):
        PhillyReader(path, clusters=["abc"]).read()


def test_readers_recognise_their_own_columns():
    itp, philly = ItpReader("x"), PhillyReader("x")
    other = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration"
    assert itp.recognises(ITP_HEADER.split(","))
    assert itp.recognises(other.split(","))
    assert not itp.recognises(PHILLY_HEADER.split(","))
    assert philly.recognises(PHILLY_HEADER.split(","))
    assert not philly.recognises(ITP_HEADER.split(","))

"""Files of the user's own on the command line: ``GROUP=FILE.yaml``."""

import pytest

TRACE = """\
name: mine
source: made for a test
licence: none
reader:
  _target_: harness.trace.columns.ColumnsReader
  path: jobs.csv
  columns: {arrival: at, slots: gpus, duration: seconds}
transforms:
  - {_target_: harness.trace.transforms.FirstJobs, count: 2}
  - {_target_: harness.trace.transforms.ReadEvents, path: data/events.csv}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    own = tmp_path / "mine"
    (own / "data").mkdir(parents=True)
    (own / "jobs.csv").write_text("at,gpus,seconds\n0,1,60\n5,1,60\n9,1,60\n")
    (own / "data" / "events.csv").write_text(
        "time_s,event,slots,job_id\n10,slots_down,0,\n20,slots_up,0,\n"
    )
    (own / "trace.yaml").write_text(TRACE)
    monkeypatch.chdir(tmp_path)
    return own


def test_paths_of_reader_and_transforms_start_from_the_traces_folder(command, folder):
    words = ("profile=recorded", "cluster=cpu2", "engine=simulated", "dry=true")
    for path in ("mine/trace.yaml", str(folder / "trace.yaml")):
        answer = command(f"trace={path}", *words)
        assert answer.code == 0, answer.err
    (folder / "data" / "events.csv").unlink()
    answer = command("trace=mine/trace.yaml", *words)
    assert answer.code == 2
    assert str(folder / "data" / "events.csv") in answer.err

"""The figure of the same slots on one host and on several, on jobs worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from sample_runs import write_run

from harness.metrics import compute as metrics
from harness.results.records import GrantRecord, JobRecord, RunRecords
from harness.results.store import RunStore, StoredRun
from reports.figures import FIGURES
from reports.figures.placement_speed import by_hosts, is_one_allocation
from reports.runs.selection import name


def write_alone(root: Path, run_id: str, executed_s: float, *held: tuple[int, ...]) -> StoredRun:
    """800 samples in so long, on these slots of hosts of four, one after the other."""
    like = write_run(root / "like")
    config = {**like.config, "cluster": {"devices_per_host": 4}}
    records = RunRecords(grants=[GrantRecord("0", 0.0, 9.0, slots, 8, None) for slots in held])
    records.jobs.append(
        JobRecord("0", "toy", "", 0.0, 2, 8, 800.0, None, "none", "finished", 0.0, 9.0,
                  800.0, 9.0, executed_s, 0, 0, None, None)
    )  # fmt: skip
    records.facts |= {"num_slots": 8.0}
    with RunStore(root / "runs").create(
        run_id, dict(like.manifest), yaml.safe_dump(config)
    ) as writer:
        return writer.finish(records, metrics.compute(records))


@pytest.fixture
def runs(tmp_path: Path):
    return name(
        [
            write_alone(tmp_path, "together", 4.0, (0, 1)),
            write_alone(tmp_path, "apart", 8.0, (3, 4), (3, 4)),
            write_alone(tmp_path, "moved", 2.0, (0, 4), (0, 1)),
        ]
    )


def test_speeds_are_by_the_number_of_hosts_and_a_job_that_moved_has_none(runs) -> None:
    used = [run for run in runs if is_one_allocation(run)]
    assert [run.run_id for run in used] == ["together", "apart"]
    assert by_hosts(used) == {("toy", 8, 2): {1: [200.0], 2: [100.0]}}


def test_the_figure_says_what_is_left_on_two_hosts_or_that_there_is_nothing_to_say(runs) -> None:
    (drawing,) = FIGURES["placement_speed"].draw(runs)
    assert [row[-2:] for row in drawing.table.rows] == [["200.0", "1.000"], ["100.0", "0.500"]]
    (missing,) = FIGURES["placement_speed"].draw(runs[:1])
    assert "both on one host and, with as many slots, on several" in missing.missing

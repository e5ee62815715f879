"""The figure of sweeps: its axis, its curves and its bound, from the records of stored runs."""

from dataclasses import replace
from types import SimpleNamespace

from reports.figures import sensitivity
from reports.selection import ReportRun, flat_options


def sweep_run(scheduler, load, jct_h, refused=0.0, elastic=True):
    """A run under the names and metrics that the figure asks for."""
    transforms = [{"load": load}, {"elastic": elastic}]
    stored = SimpleNamespace(
        run_id=f"{scheduler}-{load}-{elastic}",
        config={"trace": {"name": "t", "transforms": transforms}, "scheduler": {"x": load}},
        facts={},
        manifest={"trace": {}, "profile": {}, "scheduler": {"checked": "exact"}},
        metrics={
            "jct_mean_s": 3600.0 * jct_h,
            "jct_bound_mean_s": 3600.0 * (1.5 if refused else 1.0),
            "deadline_satisfactory_ratio": 0.5,
            "jobs_refused": refused,
            "jobs_finished": 10.0 - refused,
            "jobs_submitted": 10.0,
        },
    )
    return ReportRun(stored, f"t, load={load}", scheduler, "simulated")


RUNS = [
    sweep_run("afs", 1.5, 4.0),
    sweep_run("afs", 0.5, 2.0),
    sweep_run("choosy", 0.5, 1.2, refused=2.0),
    sweep_run("choosy", 1.5, 1.2),
]


def test_a_number_that_varies_is_the_axis():
    (drawing,) = sensitivity.draw(RUNS)
    assert drawing.title == "Sensitivity to load"
    assert drawing.table is not None
    assert list(drawing.table.header) == ["system", "load 0.5", "load 1.5"]
    rows = {row[0]: list(row[1:]) for row in drawing.table.rows}
    assert rows["afs (exact): mean JCT (h)"] == ["2.0", "4.0"]
    assert rows["bound: mean JCT (h)"] == ["1.0", "1.0"], "of the runs in which all finished"
    assert "choosy (exact): mean JCT (h)" not in rows
    assert rows["choosy (exact): deadlines met (% of jobs)"] == ["50.0", "50.0"]


def test_several_options_that_vary_together_are_places_side_by_side():
    (drawing,) = sensitivity.draw([RUNS[0], sweep_run("afs", 0.5, 3.0, elastic=False)])
    assert drawing.table is not None
    assert list(drawing.table.header)[1:] == ["load, elastic 0.5, False", "load, elastic 1.5, True"]


def test_nothing_varied_is_told():
    (drawing,) = sensitivity.draw([RUNS[0], replace(RUNS[0], system="other")])
    assert drawing.missing == "No option of the selection was varied."


def test_options_of_parts_in_lists_have_names_and_plain_lists_are_values():
    config = {"trace": {"transforms": [{"load": 1.0}], "sizes": [1, 2]}, "seed": 3}
    assert flat_options(config) == {"trace.transforms.0.load": 1.0, "trace.sizes": [1, 2]}

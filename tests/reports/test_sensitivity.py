"""The figure of sweeps: its axis, its curves and its bound, from the records of stored runs."""

from dataclasses import replace
from types import SimpleNamespace

from reports.figures import sensitivity
from reports.runs.selection import ReportRun, flat_options


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


def swept(system, metric_of, **options):
    """A run with these options of its profile, its trace or its seed."""
    run = sweep_run(system, 1.0, 2.0)
    config = {"trace": {"name": "t", "transforms": [options]}, "scheduler": {}}
    stored = SimpleNamespace(
        **{
            **vars(run.stored),
            "run_id": f"{system}-{options}-{metric_of}",
            "config": config,
            "metrics": {**run.stored.metrics, "deadline_satisfactory_ratio": metric_of},
        }
    )
    return replace(run, stored=stored)


def test_options_that_change_together_are_one_axis():
    ranges = [(1.0, 1.5), (0.25, 0.75), (2.0, 2.5)]
    runs = [swept("afs", low / 4, lambda_min=low, lambda_max=high) for low, high in ranges]
    (drawing,) = sensitivity.draw(runs)
    assert drawing.table is not None
    assert drawing.figure is not None
    assert list(drawing.table.header)[1:] == [
        "lambda min, lambda max 0.25, 0.75",
        "lambda min, lambda max 1, 1.5",
        "lambda min, lambda max 2, 2.5",
    ]
    panel = drawing.figure.axes[1]
    (line, *_) = panel.get_lines()
    assert list(line.get_xdata()) == [0.25, 1.0, 2.0], "a scale, not places side by side"
    assert [text.get_text() for text in panel.get_xticklabels()] == [
        "0.25, 0.75",
        "1, 1.5",
        "2, 2.5",
    ]


def test_a_number_beside_another_option_has_a_row_of_panels_for_each_value_of_that():
    runs = [
        swept("afs", 0.1 * place + (0.3 if each == "speed" else 0.0), error=error, each=each)
        for place, error in enumerate([0.0, 0.2, 0.4])
        for each in ("speed", "curve")
    ]
    (drawing,) = sensitivity.draw(runs)
    assert drawing.table is not None
    assert drawing.figure is not None
    assert list(drawing.table.header) == ["system", "error 0", "error 0.2", "error 0.4"]
    rows = {row[0]: list(row[1:]) for row in drawing.table.rows}
    assert rows["afs (exact): each: curve: deadlines met (% of jobs)"] == ["0.0", "10.0", "20.0"]
    assert rows["afs (exact): each: speed: deadlines met (% of jobs)"] == ["30.0", "40.0", "50.0"]
    titles = [axis.get_title("left") or axis.get_title() for axis in drawing.figure.axes]
    assert titles == ["each: curve"] * 2 + ["each: speed"] * 2


def test_five_trials_have_an_interval():
    runs = [swept("afs", met, load=load) for load in (0.5, 1.5) for met in (0.4, 0.5, 0.6, 0.5)]
    (few,) = sensitivity.draw(runs)
    (drawing,) = sensitivity.draw([*runs, swept("afs", 0.55, load=0.5)])
    assert drawing.table is not None
    rows = {row[0]: list(row[1:]) for row in drawing.table.rows}
    # Of 40, 50, 60, 50, 55: deviation 7.416, times 2.776 over the root of 5.
    assert rows["afs (exact): deadlines met (% of jobs)"] == ["51.0 ±9.2", "50.0"]
    assert "±" not in str(few.table)


def test_who_has_jobs_that_fail_has_no_mean_of_the_others():
    runs = [swept("afs", 0.5, load=load) for load in (0.5, 1.5)]
    runs[1].stored.metrics["jobs_failed"] = 1.0
    (drawing,) = sensitivity.draw([*runs, *RUNS[:2]])
    assert drawing.table is not None
    names = [row[0] for row in drawing.table.rows]
    assert "afs (exact): mean JCT (h)" not in names
    assert "afs (exact): deadlines met (% of jobs)" in names


def test_nothing_varied_is_told():
    (drawing,) = sensitivity.draw([RUNS[0], replace(RUNS[0], system="other")])
    assert drawing.missing == "No option of the selection was varied."


def test_options_of_parts_in_lists_have_names_and_plain_lists_are_values():
    config = {"trace": {"transforms": [{"load": 1.0}], "sizes": [1, 2]}, "seed": 3}
    assert flat_options(config) == {"trace.transforms.0.load": 1.0, "trace.sizes": [1, 2]}

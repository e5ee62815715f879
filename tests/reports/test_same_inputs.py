"""Systems input by input: who is better where, and by how much, from the records of stored runs."""

from types import SimpleNamespace

from reports.figures import same_inputs
from reports.runs.selection import ReportRun


def a_run(setting, system, met, jct_min=60.0, refused=0.0):
    """A run under the names and metrics that the figure asks for."""
    stored = SimpleNamespace(
        run_id=f"{system}-{setting}",
        config={},
        facts={},
        manifest={"trace": {}, "profile": {}, "scheduler": {"checked": "exact"}},
        metrics={
            "deadline_satisfactory_ratio": met,
            "jct_mean_s": 60.0 * jct_min,
            "jobs_refused": refused,
        },
    )
    return ReportRun(stored, setting, system, "simulated")


def rows(drawing):
    return {row[0]: list(row[1:]) for row in drawing.table.rows}


def test_every_input_is_shown_and_wins_and_losses_are_counted():
    runs = [a_run(f"input {n}", "ours", met) for n, met in enumerate([0.9, 0.5, 0.7, 0.8, 0.6])]
    runs += [a_run(f"input {n}", "other", met) for n, met in enumerate([0.8, 0.6, 0.7, 0.6, 0.5])]
    met, differences, jct, _ = same_inputs.draw(runs)
    assert rows(met)["input 1"] == ["60.0", "50.0"], "where it loses is in the table too"
    assert rows(met)["mean of the inputs"] == ["64.0", "70.0"]
    # other less ours: -10, 10, 0, -20, -10
    difference, *counts = rows(differences)["other (exact), ours (exact)"]
    assert difference.startswith("-6.0 [-"), "with an interval, as there are five"
    assert counts == ["1", "1", "3"]
    assert rows(jct)["input 0"] == ["60.0", "60.0"]


def test_less_is_better_where_the_metric_is_a_time():
    runs = [a_run("one", "a", 0.5, jct_min=10.0), a_run("one", "b", 0.5, jct_min=12.0)]
    *_, differences = same_inputs.draw(runs)
    assert rows(differences)["a (exact), b (exact)"] == ["-2.0", "1", "0", "0"]


def test_mean_jct_is_left_out_where_jobs_were_refused():
    runs = [a_run("one", "a", 0.5, refused=2.0), a_run("one", "b", 0.5)]
    names = [drawing.name for drawing in same_inputs.draw(runs)]
    assert names == [
        "same_inputs-deadline_satisfactory_ratio",
        "same_inputs-deadline_satisfactory_ratio-differences",
    ]


def test_inputs_that_a_system_lacks_do_not_count():
    runs = [a_run("one", "a", 0.5), a_run("two", "b", 0.5)]
    (drawing,) = same_inputs.draw(runs)
    assert drawing.missing


def drawn_run(seed, system, met, setting="resampled"):
    """A run on the trace that its seed draws."""
    run = a_run(setting, system, met)
    run.stored.run_id = f"{system}-{setting}-{seed}"
    run.stored.manifest = {
        **run.stored.manifest,
        "trace": {"digest": f"{setting}-{seed}"},
        "profile": {},
        "seed": seed,
    }
    return run


def test_where_each_seed_draws_another_trace_each_is_an_input():
    ours, other = [0.9, 0.5, 0.7, 0.8, 0.6], [0.8, 0.6, 0.7, 0.6, 0.5]
    runs = [drawn_run(seed, "ours", met) for seed, met in enumerate(ours)]
    runs += [drawn_run(seed, "other", met) for seed, met in enumerate(other)]
    runs += [a_run("recorded", "ours", 0.9), a_run("recorded", "third", 0.7)]
    drawings = {drawing.name: drawing for drawing in same_inputs.draw(runs)}
    recorded = drawings["same_inputs-deadline_satisfactory_ratio"]
    assert rows(recorded)["recorded"] == ["90.0", "70.0"], "a family of its own"
    found = drawings["same_inputs-deadline_satisfactory_ratio-1"]
    assert found.title.endswith(", resampled")
    assert rows(found)["seed 1"] == ["60.0", "50.0"]
    differences = drawings["same_inputs-deadline_satisfactory_ratio-differences-1"]
    difference, *counts = rows(differences)["other (exact), ours (exact)"]
    assert difference.startswith("-6.0 [-"), "with an interval over the traces"
    assert counts == ["1", "1", "3"]


def test_trials_on_one_trace_are_no_inputs():
    runs = [drawn_run(0, system, met) for system in ("a", "b") for met in (0.4, 0.6)]
    met, *_ = same_inputs.draw(runs)
    assert rows(met)["resampled"] == ["50.0", "50.0"]

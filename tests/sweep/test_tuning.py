"""What a tuning study chooses: from the records of real runs, and where it refuses to choose."""

import pytest
import yaml

from harness import tuning
from harness.cli import main as run_harness
from harness.configuration.compose import CONFIG_DIR
from harness.configuration.study import load_study
from harness.errors import UserError
from harness.sweep.tuned_study import write_into
from harness.tuning import Candidate, choose, num_settings

STUDY = """description: two schedulers with two points each
base: [cluster=dgx8, engine=simulated, tracking=none, progress=false]
grids:
  - trace: [five_jobs]
    seed: [0]
    scheduler: [edf]
    scheduler.elastic: [false, true]
  - trace: [five_jobs]
    seed: [0]
    scheduler: [elastic_tiresias]
    scheduler.compact_above: [0, 10]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study and its finished runs."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "pair.yaml").write_text(STUDY)
    assert run_harness([f"study={folder / 'pair.yaml'}", f"results_dir={folder / 'runs'}"]) == 0
    return folder


@pytest.fixture
def ask(made, capsys):
    """Runs the command; its exit code, what it printed and what it complained of."""

    def call(*words, study=made / "pair.yaml"):
        capsys.readouterr()
        code = tuning.main([f"study={study}", *words, "--results", str(made / "runs")])
        return code, *capsys.readouterr()

    return call


def test_the_choice_is_what_the_records_say(made, ask):
    metric = "jct_mean_s"
    found = tuning.candidates(str(made / "pair.yaml"), [made / "runs"], metric)
    assert [(one.scheduler, one.options) for one in found] == [
        ("edf", ("scheduler.elastic=false",)),
        ("edf", ("scheduler.elastic=true",)),
        ("elastic_tiresias", ("scheduler.compact_above=0",)),
        ("elastic_tiresias", ("scheduler.compact_above=10",)),
    ]
    assert all(list(one.values) == ["five_jobs 0"] for one in found)
    code, printed, _ = ask(f"metric={metric}")
    assert code == 0
    best = min(found[:2], key=lambda one: one.mean)
    assert f"scheduler=edf {best.options[0]}" in printed


def candidate(scheduler, option, *values):
    inputs = {f"input {number}": value for number, value in enumerate(values)}
    return Candidate(scheduler, (option,), inputs)


def test_the_best_mean_wins_and_of_equal_ones_the_first():
    found = [
        candidate("a", "x=1", 0.5, 0.5),
        candidate("a", "x=2", 0.9, 0.3),
        candidate("a", "x=3", 0.6, 0.6),
    ]
    assert choose(found, "deadline_satisfactory_ratio")["a"].options == ("x=2",)
    assert choose(found, "jct_mean_s")["a"].options == ("x=1",)
    assert choose(found[::-1], "deadline_satisfactory_ratio")["a"].options == ("x=3",)


def test_unequal_budgets_and_inputs_are_refused():
    pair = [candidate("a", "x=1", 0.5), candidate("a", "x=2", 0.5)]
    with pytest.raises(UserError, match="different numbers of points: a 2, b 1"):
        choose([*pair, candidate("b", "x=1", 0.5)], "jct_mean_s")
    with pytest.raises(UserError, match="not run on the same inputs"):
        choose([*pair, candidate("a", "x=3", 0.5, 0.5)], "jct_mean_s")


def test_what_cannot_be_chosen_is_told_with_a_way_out(made, ask, tmp_path):
    code, _, told = ask("metric=rescales")
    assert code == 2
    assert "cannot be used for a choice; known: deadline_satisfactory_ratio, jct_mean_s" in told
    assert ask("best=one")[0] == 2
    more = STUDY.replace("seed: [0]", "seed: [0, 2]")
    (tmp_path / "pair.yaml").write_text(more)
    code, _, told = ask("metric=jct_mean_s", study=tmp_path / "pair.yaml")
    assert code == 2
    assert "seed=2 scheduler=edf scheduler.elastic=false: has no finished run; run it" in told


@pytest.mark.long
def test_a_mean_jct_of_other_jobs_decides_nothing(tmp_path, capsys):
    study = tmp_path / "refusing.yaml"
    study.write_text(
        "description: refuses\nbase: [tracking=none, progress=false]\n"
        "grids:\n  - trace: [itp195]\n    scheduler: [edf_admission]\n"
    )
    assert run_harness([f"study={study}", f"results_dir={tmp_path / 'runs'}"]) == 0
    capsys.readouterr()
    words = [f"study={study}", "--results", str(tmp_path / "runs")]
    assert tuning.main([*words, "metric=jct_mean_s"]) == 2
    assert "its mean is over fewer jobs" in capsys.readouterr().err
    assert tuning.main(words) == 0


def test_fewer_points_are_enough_where_there_are_no_more():
    """edf has two switches, fifo one, afs no option at all."""
    assert [num_settings(name) for name in ("edf", "fifo", "afs")] == [4, 2, 1]
    assert [num_settings(name) for name in ("elasticflow", "pollux", "mine")] == [None] * 3
    found = [
        candidate(name, f"x={number}", 0.1 * number)
        for name, count in (("elasticflow", 8), ("edf", 4), ("fifo", 2), ("afs", 1))
        for number in range(count)
    ]
    assert choose(found, "jct_mean_s")["fifo"].options == ("x=0",)
    with pytest.raises(UserError, match="elasticflow 8, edf 3"):
        choose([*found[:11], *found[12:]], "jct_mean_s")


@pytest.mark.parametrize("label", ["tune_jct", "tune_deadlines"])
def test_every_scheduler_has_the_same_budget_on_the_traces_to_tune_on(label):
    """Eight points or all there are; never a trace to test on; the defaults are tried as well."""
    points = load_study(label).points()
    assert {point.axes["trace"] for point in points} == {"itp01", "itp02", "itp03"}
    tried = {}
    for point in points:
        options = {
            axis.removeprefix("scheduler."): yaml.safe_load(text)
            for axis, text in point.axes.items()
            if axis.startswith("scheduler.")
        }
        tried.setdefault(point.axes["scheduler"], {})[str(options)] = options
    for name, own in tried.items():
        assert len(own) == 8 or len(own) == num_settings(name) < 8, name
        usual = yaml.safe_load((CONFIG_DIR / "scheduler" / f"{name}.yaml").read_text())
        assert any(one.items() <= usual.items() for one in own.values()), name
    classes = {
        yaml.safe_load((CONFIG_DIR / "scheduler" / f"{name}.yaml").read_text())["_target_"]
        for name in tried
    }
    every = {
        yaml.safe_load(path.read_text())["_target_"]
        for path in (CONFIG_DIR / "scheduler").glob("*.yaml")
    }
    left = {one.rpartition(".")[2] for one in every - classes}
    assert left == {"HuGreedy", "HuMilp", "YarnCs", "Srtf", "Scripted"}


TESTED = """# What it is for.
description: tests the choice
base: [cluster=dgx8]
grids:
  # From a tuning study.
  - trace: [itp05]
    trace.transforms.1.load: [0.8, 1.6]
    scheduler: [edf]
    scheduler.elastic: [false]
  - trace: [itp05]
    trace.transforms.1.load: [0.8, 1.6]
    scheduler: [srtf]
figures: [comparison]
"""


def test_a_choice_is_written_into_the_study_that_tests_it(tmp_path, ask):
    (tmp_path / "tested.yaml").write_text(TESTED)
    code, printed, _ = ask("metric=jct_mean_s", "--into", str(tmp_path / "tested.yaml"))
    assert code == 0
    assert "Written into" in printed
    text = (tmp_path / "tested.yaml").read_text()
    assert text.startswith(TESTED[: TESTED.index("  - trace")]), "with both comments"
    assert text.endswith("figures: [comparison]\n")
    found = load_study(str(tmp_path / "tested.yaml"))
    assert found.base == ("cluster=dgx8",)
    inputs = {"trace": ("itp05",), "trace.transforms.1.load": (0.8, 1.6)}
    chosen, other, bound = found.grids
    assert chosen in [
        {**inputs, "scheduler": ("edf",), "scheduler.elastic": (elastic,)}
        for elastic in (False, True)
    ]
    assert other["scheduler"] == ("elastic_tiresias",)
    assert other["scheduler.compact_above"] in {(0,), (10,)}
    assert bound == {**inputs, "scheduler": ("srtf",)}


def test_what_is_written_is_what_was_chosen(tmp_path):
    path = tmp_path / "tested.yaml"
    path.write_text(TESTED)
    words = {
        "easyscale_homo": [
            "backend=virtual_thread",
            "+engine.plan_speeds=curve",
            "scheduler.min_share=0.5",
        ],
        "tiresias": ["scheduler.queue_limits_slot_s=[500,10000]", "scheduler.promote_after=null"],
    }
    write_into(str(path), words)
    once = path.read_text()
    points = load_study(str(path)).points()
    for name, own in words.items():
        found = [point.overrides for point in points if point.axes["scheduler"] == name]
        assert len(found) == 2, "one of each input"
        assert all(set(own) <= set(overrides) for overrides in found)
    assert len(points) == 8, "edf and srtf were not chosen, and stay"
    write_into(str(path), words)
    assert sorted(once.splitlines()) == sorted(path.read_text().splitlines())


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("description: d\n", "has no grid"),
        (TESTED.replace("[0.8, 1.6]", "[0.8]", 1), "has grids of different inputs"),
    ],
)
def test_a_study_without_its_inputs_is_not_written_into(tmp_path, text, fact):
    path = tmp_path / "tested.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=fact):
        write_into(str(path), {"edf": []})
    assert path.read_text() == text


def test_runs_on_an_earlier_content_of_a_trace_do_not_count(tmp_path, capsys):
    (tmp_path / "jobs.csv").write_text("at,gpus,seconds\n0,1,60\n5,1,60\n")
    (tmp_path / "lab.yaml").write_text(
        "name: lab\nsource: made for a test\nlicence: none\nreader:\n"
        "  _target_: harness.trace.columns.ColumnsReader\n  path: jobs.csv\n"
        "  columns: {arrival: at, slots: gpus, duration: seconds}\n"
    )
    base = [f"trace={tmp_path / 'lab.yaml'}", "profile=recorded", "cluster=cpu2", "tracking=none"]
    (tmp_path / "one.yaml").write_text(
        yaml.safe_dump({"description": "one", "base": base, "grids": [{"scheduler": ["fifo"]}]})
    )
    results = tmp_path / "runs"
    words = [*base, "scheduler=fifo", "progress=false", f"results_dir={results}"]
    ask = [f"study={tmp_path / 'one.yaml'}", "metric=jct_mean_s", "--results", str(results)]
    assert run_harness(words) == 0
    assert tuning.main(ask) == 0
    (tmp_path / "jobs.csv").write_text("at,gpus,seconds\n0,1,60\n5,1,90\n")
    capsys.readouterr()
    assert tuning.main(ask) == 2
    told = capsys.readouterr().err
    assert "has only runs on other contents of its trace or profile, which do not count" in told
    assert run_harness(words) == 0
    assert tuning.main(ask) == 0

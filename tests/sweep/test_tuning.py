"""What a tuning study chooses: from the records of real runs, and where it refuses to choose."""

import pytest

from harness import tuning
from harness.__main__ import main as run_harness
from harness.problems import UserError
from harness.tuning import Candidate, choose

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
    assert "decides nothing here; known: deadline_satisfactory_ratio, jct_mean_s" in told
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
    assert "its mean is not of the same jobs" in capsys.readouterr().err
    assert tuning.main(words) == 0

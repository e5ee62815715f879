"""Studies: grids, repetitions, and what is refused in their files."""

import re

import pytest

from harness.cli import main
from harness.configuration.compose import options
from harness.configuration.study import Study, load_study, product, read_study, study_name
from harness.errors import UserError
from reports.claims import ledger


def test_a_grid_is_the_product_of_its_axes_and_grids_follow_each_other():
    study = Study(
        "s",
        "d",
        grids=({"scheduler": ("fifo", "edf"), "seed": (0, 1)}, {"engine.pace": (None, "a, b")}),
    )
    assert [point.overrides for point in study.points()] == [
        ("scheduler=fifo", "seed=0"),
        ("scheduler=fifo", "seed=1"),
        ("scheduler=edf", "seed=0"),
        ("scheduler=edf", "seed=1"),
        ("engine.pace=null",),
        ("engine.pace='a, b'",),
    ]


def test_a_study_without_grids_is_one_point():
    assert [point.overrides for point in Study("s", "d").points()] == [()]


def test_equal_points_run_once():
    study = Study("s", "d", grids=({"seed": (0, 1)}, {"seed": (1, 2)}))
    assert [point.axes["seed"] for point in study.points()] == ["0", "1", "2"]


def test_repetitions_are_blocks_each_in_an_order_of_its_own():
    study = Study("s", "d", grids=({"seed": tuple(range(8))},), repetitions=4)
    points = study.points()
    blocks = [points[start : start + 8] for start in range(0, 32, 8)]
    for repetition, block in enumerate(blocks):
        assert {point.axes["repetition"] for point in block} == {str(repetition)}
        assert sorted(int(point.axes["seed"]) for point in block) == list(range(8))
    orders = [tuple(point.axes["seed"] for point in block) for block in blocks]
    assert len(set(orders)) > 1
    assert study.points() == points


def test_a_grid_with_trials_of_its_own_is_in_the_blocks_of_those():
    both = ({"seed": tuple(range(8))}, {"seed": (9,), "repetition": (1, 2, 5)})
    study = Study("s", "d", grids=both, repetitions=2)
    found = [(int(p.axes["repetition"]), int(p.axes["seed"])) for p in study.points()]
    expected = [(trial, seed) for trial in (0, 1) for seed in range(8)] + [(1, 9), (2, 9), (5, 9)]
    assert sorted(found) == sorted(expected)
    assert [trial for trial, _ in found] == sorted(trial for trial, _ in found)
    for point in study.points():
        words = [word for word in point.overrides if word.startswith("repetition=")]
        assert words == [f"repetition={point.axes['repetition']}"]
    plain = Study("s", "d", grids=both[:1], repetitions=2)
    assert [p for p in study.points() if p.axes["seed"] != "9"][:8] == plain.points()[:8]


def test_a_trial_that_two_grids_have_is_listed_once_and_own_trials_are_blocks_too():
    both = ({"seed": (0, 1)}, {"seed": (0, 1), "repetition": (0, 1, 2)})
    for grids, repetitions in ((both, 2), (both[1:], 1)):
        points = Study("s", "d", grids=grids, repetitions=repetitions).points()
        found = [(int(p.axes["repetition"]), int(p.axes["seed"])) for p in points]
        assert sorted(found) == [(trial, seed) for trial in range(3) for seed in (0, 1)]
        assert [trial for trial, _ in found] == [0, 0, 1, 1, 2, 2]


def test_product_of_nothing_is_one_empty_point():
    assert [point.overrides for point in product({})] == [()]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- 1", "is [1]; give the keys description, base,"),
        ("base: [seed=1]", "description: is missing"),
        ("description: d\ngrids: [{repetition: [0, x]}]", "grids.0.repetition: is 'x'; use whole"),
        ("description: d\ngrid: []", "grid: unknown key; did you mean 'grids'?"),
        ("description: d\nbase: seed=1", "base: is 'seed=1'; give a list"),
        ("description: d\ngrids: {seed: [1]}", "grids: is a mapping with seed; give a list"),
        ("description: d\ngrids: [{seed: 1}]", "grids: is [{'seed': 1}]; give a list"),
        ("description: d\ngrids: [{seed: []}]", "grids.0.seed: has no values"),
        ("description: d\nrepetitions: 0", "repetitions: is 0; use 1 or more"),
        ("description: d\nparallel: 0", "parallel: is 0; use 1 or more"),
        ("description: d\nrepetitions: many", "repetitions: is 'many'; give a whole number"),
        ("description: d\nstudies: [saxena_fig55]", "unknown study 'saxena_fig55'; did you mean"),
        ("description: d\nstudies: [main]\nquick: [seed=0]", "is given together with points"),
        ("description: [", "cannot be read"),
        ("description: d\nrepetitions: 5242880", "repetitions: make 5,242,880 points, and a sweep"),
        (
            f"description: d\nrepetitions: 51\ngrids: [{{seed: {list(range(2000))}}}]",
            "make 102,000 points, and a sweep has at most 100,000; give fewer values",
        ),
    ],
)
def test_bad_study_files(tmp_path, text, problem):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_study(str(path))
    (only,) = caught.value.problems
    assert str(path) in str(only)
    assert problem in str(only)


def test_lists_on_the_command_line_do_not_make_more_points_than_a_sweep_may_have(capsys):
    numbers = ",".join(map(str, range(400)))
    words = [f"seed={numbers}", f"repetition={numbers}"]
    assert main(["-m", *words, "dry=true"]) == 2
    assert "seed repetition: make 160,000 points" in capsys.readouterr().err
    few = ",".join(map(str, range(300)))
    words = ["-m", "study=saxena_fig6", f"backend.start_timeout_s={few}", f"max_wall_s={few}"]
    assert main([*words, "dry=true"]) == 2
    told = capsys.readouterr().err
    assert "the study and backend.start_timeout_s max_wall_s: make 3,600,000 points" in told


def test_all_mistakes_of_a_study_at_once(tmp_path):
    with pytest.raises(UserError) as caught:
        read_study(tmp_path, {"figure": [], "base": 1, "repetitions": 0})
    assert len(caught.value.problems) == 4


def planned(capsys, *words):
    assert main([*words, "dry=true", "tracking=none"]) == 0
    return capsys.readouterr().out


def test_a_quick_size_is_a_choice_of_points(capsys):
    whole = planned(capsys, "study=saxena_fig6")
    quick = planned(capsys, "study=saxena_fig6", "size=quick")
    assert quick.count("seed=0") == whole.count("seed=0") == 4
    assert "seed=1" in whole
    assert "seed=1" not in quick
    other = planned(capsys, "study=saxena_fig6", "size=quick", "seed=1")
    assert "seed=0" not in other
    assert "seed=1" in other


def test_a_study_of_studies_runs_each_under_its_own_name(tmp_path, capsys):
    path = tmp_path / "both.yaml"
    path.write_text("description: d\nstudies: [saxena_fig6, easyscale_fig14]\n")
    said = planned(capsys, f"study={path}")
    first, second = said.split("easyscale_fig14")[:2]
    assert "saxena_fig6" in first
    assert "seed=0" in first
    assert "seed=1" not in first
    assert "yarn_cs" in second


def test_an_unknown_size_is_refused(capsys):
    assert main(["study=saxena_fig6", "size=small"]) == 2
    assert "size: is 'small'; give one of quick, full" in capsys.readouterr().err


@pytest.mark.long
def test_a_figure_of_a_paper_is_found_by_its_name_wherever_it_is_measured():
    """``study=edl_fig10`` runs the study that decides the claim on it."""
    shipped = options("study")
    others = [other for name in shipped for other in load_study(name).also]
    assert len({*others, *shipped}) == len(others) + len(shipped)
    looked_up = 0
    for claim in (claim for paper in ledger.load() for claim in paper.claims):
        name = re.match(r"(\w+-(fig|table)\d+[a-z]?)(-|$)", claim.id)
        if name is not None and claim.criteria:
            found = study_name(name[1].replace("-", "_"))
            assert found in {criterion.study for criterion in claim.criteria}, claim.id
            looked_up += 1
    assert looked_up > 50


def test_another_name_of_a_study_is_told(capsys):
    assert main(["study=hu_fig11", "size=quick", "dry=true", "tracking=none"]) == 0
    assert capsys.readouterr().err == "hu_fig11 is measured by study=hu_fig9\n"
    assert study_name("hu_fig99") == "hu_fig99"
    assert study_name("mine/edl_fig10.yaml") == "mine/edl_fig10.yaml"

"""Every configuration file, found by a glob: a new one tests itself."""

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from harness.configuration.compose import (
    CONFIG_DIR,
    compose,
    defaults,
    option_files,
    options,
    parse_overrides,
)
from harness.configuration.instantiate import build, signature_problems
from harness.configuration.schema import GROUPS, PARTS, read_config
from harness.configuration.study import load_study
from harness.errors import UserError
from harness.profiles import load_profile
from harness.run.plan import Library
from harness.run.workload_pool import read_pool
from harness.sweep import runner as sweep
from harness.trace.build import TRACES, build_parts
from harness.tracking.mirror import Target
from reports.figures import FIGURES
from tests.artifact.recorded import RECORDED

FILES = [(group, option) for group in GROUPS for option in options(group)]


def composed(group, option):
    container, problems = compose(parse_overrides([f"{group}={option}"]))
    assert problems == []
    config, problems = read_config(container, defaults()[1])
    assert problems == []
    assert config.choices[group] == option
    return getattr(config, group)


def test_every_folder_is_a_group_and_has_options():
    folders = {path.name for path in CONFIG_DIR.iterdir() if path.is_dir()}
    folders -= {"__pycache__", "bench"}  # bench has settings of commands of their own
    assert folders == {*GROUPS, "study"}
    assert all(options(group) for group in folders)


def test_every_study_is_in_a_folder_and_its_name_is_in_one_alone():
    paths = [*(CONFIG_DIR / "study").rglob("*.yaml")]
    assert all(path.parent.parent == CONFIG_DIR / "study" for path in paths)
    assert sorted(path.stem for path in paths) == options("study")


@pytest.mark.parametrize("name", options("study"))
def test_a_study_is_found_by_its_name(name):
    assert load_study(name) == load_study(str(option_files("study")[name]))


def test_defaults_name_every_group():
    chosen, _ = defaults()
    assert list(chosen) == list(GROUPS)
    assert all(chosen[group] in options(group) for group in GROUPS)


@pytest.mark.parametrize(("group", "option"), FILES)
def test_composes_and_builds(group, option):
    node = composed(group, option)
    if group in PARTS:
        assert build(node, group) is not None
    elif group == "trace":
        reader, _ = build_parts(node, TRACES)
        assert callable(reader.read)
    elif group == "profile":
        assert load_profile(node).workloads
    elif group == "tracking":
        assert signature_problems(Target, node, "tracking")[1] == []
    else:
        for name, spec in read_pool(node).items():
            workload = build({"_target_": spec.target, **spec.options}, name, "workload")
            assert workload.num_samples > 0


@pytest.mark.parametrize(("group", "option"), [*FILES, *(("study", s) for s in options("study"))])
def test_begins_with_a_comment_for_the_help(group, option):
    text = option_files(group)[option].read_text(encoding="utf-8")
    assert text.startswith("# ")


@pytest.mark.parametrize("name", options("study"))
def test_figures_that_a_study_names_exist(name):
    assert set(load_study(name).figures) <= set(FIGURES)


@pytest.fixture(scope="module")
def library():
    """Shared by all studies: most have the same traces, profile and workloads, and to see
    whether the workloads can be built takes a process that loads every training library."""
    return Library()


def plan_points(name, folder, library, most, **how):
    """Plan up to ``most`` points of a study, from all over it."""
    study = load_study(name)
    points = [p for p in study.points() if p.axes.get("repetition", "0") == "0"]
    points = points[:: -(-len(points) // most)]
    words = [*study.base, f"results_dir={folder}"]
    try:
        entries = sweep.plan_sweep(sweep.Sweep(study.name, words, points), library, **how)
    except UserError as error:
        if all("package" in str(each) and "not installed" in str(each) for each in error.problems):
            pytest.skip(str(error))  # a study of an optional package
        raise
    assert len({entry.planned.run_id for entry in entries}) == len(points)
    assert all(entry.status == "to run" for entry in entries)


# Without building workloads, for seconds a study, and without those on the whole of Philly: long
# tests do all.
@pytest.mark.parametrize(
    "name", [n for n in options("study") if n not in ("bench_elasticflow", "bench_philly")]
)
def test_points_of_every_study_can_be_planned(name, tmp_path, library):
    plan_points(name, tmp_path, library, most=2, check_workloads=False)


# Those on record are planned where their runs are looked up: tests/artifact.
@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in options("study") if n not in RECORDED])
def test_every_point_of_every_study_can_be_planned(name, tmp_path, library):
    plan_points(name, tmp_path, library, most=10**6)


@pytest.mark.parametrize(("group", "option"), [*FILES])
def test_no_option_reaches_out_of_its_group(group, option):
    """So that options which were composed in other company can be put together."""
    text = (CONFIG_DIR / group / f"{option}.yaml").read_text(encoding="utf-8")
    assert "@package" not in text
    assert set(yaml.safe_load(text).get("defaults", [])) <= {*options(group), "_self_"}


@pytest.mark.parametrize(
    "words",
    [
        ["engine=live", "scheduler=tiresias", "engine.steady_steps=12"],
        ["++scheduler.more={a: 1}", "~backend.start", "trace=itp195", "seed=7"],
        ["scheduler=elasticflow", "profile=a100_edl_costs"],
        ["scheduler=elasticflow", "engine=live"],  # each seen before, but not together
    ],
)
def test_a_configuration_is_what_hydra_composes(words):
    """Options are composed once and values set on copies: nothing may differ from one go."""
    for _ in range(2):  # the second time from what was kept
        container, problems = compose(parse_overrides(words))
        assert problems == []
        assert container.pop("choices")
        chosen = [f"{group}={option}" for group, option in defaults()[0].items()]
        GlobalHydra.instance().clear()
        with initialize_config_dir(version_base="1.3", config_dir=str(CONFIG_DIR)):
            whole = hydra_compose("config", [*chosen, *words])
        assert container == OmegaConf.to_container(whole, resolve=True)

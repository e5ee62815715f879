"""A profile of the user's own extends a shipped one, or another of theirs, from any folder."""

import pytest

from harness.configuration.compose import compose, parse_overrides
from harness.profiles import ProfileError, load_profile
from harness.profiles.read import SHIPPED

COSTS = """\
rescale_costs:
  - {preparation_s: 0.0, pause_s: 12.5, remark: measured in our lab}
"""


def written(folder, name, text):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("folder", ["mine", "Jörgs Läufe (neu)", "中文"])
@pytest.mark.parametrize("shipped", ["t4_elasticflow", "v100_p100_t4", "published_mixed_warm"])
def test_a_shipped_profile_is_extended_from_any_folder(tmp_path, folder, shipped):
    path = written(
        tmp_path / folder, "lab.yaml", f"defaults: [{shipped}, _self_]\nname: lab\n{COSTS}"
    )
    base, own = load_profile(SHIPPED / f"{shipped}.yaml"), load_profile(path)
    assert own.name == "lab"
    assert own.device_types == base.device_types
    for workload in base.families.keys() - {"recorded"}:
        batch = base.families[workload].batches[0]
        for slots in (1, 2, 4):
            assert own.throughput(workload, batch).samples_per_s(slots) == base.throughput(
                workload, batch
            ).samples_per_s(slots)


def test_own_costs_count_and_own_files_start_from_their_folder(tmp_path):
    base = written(
        tmp_path / "a", "base.yaml",
        "defaults: [t4_elasticflow]\nname: base\nthroughput:\n"
        "  own: {file: own.csv, unit: samples_per_s, device: lab}\n" + COSTS,
    )  # fmt: skip
    (base.parent / "own.csv").write_text("global_batch_size,1,2\n32,100,190\n")
    path = written(tmp_path / "b", "top.yaml", "defaults: [../a/base.yaml]\nname: top\n")
    profile = load_profile(path)
    assert profile.throughput("own", 32).samples_per_s(2) == 190
    assert {cell.cost.pause_s for cell in profile.cost_cells} == {12.5}


def test_a_run_takes_such_a_profile(tmp_path):
    path = written(tmp_path / "größer", "lab.yaml", "defaults: [a100_elasticflow]\nname: lab\n")
    container, problems = compose(parse_overrides([f"profile={path}"]))
    assert problems == []
    assert load_profile(container["profile"]).name == "lab"


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("defaults: [t4_elasticflw]\n", "there is no profile 't4_elasticflw'; did you mean 't4_el"),
        ("defaults: [../no.yaml]\n", "there is no profile '../no.yaml'"),
        ("defaults: [{profile: t4}]\n", "defaults is no list of names"),
        ("defaults: t4_elasticflow\n", "defaults is no list of names"),
        ("defaults: [lab]\n", "lab.yaml extends "),
        ("defaults: [two]\n", "two.yaml extends "),
        ("defaults: [broken]\n", "broken.yaml: cannot be read"),
    ],
)
def test_what_cannot_be_extended_is_refused(tmp_path, text, fact):
    written(tmp_path, "two.yaml", "defaults: [lab]\n")
    written(tmp_path, "broken.yaml", "a: [\n")
    with pytest.raises(ProfileError) as caught:
        load_profile(written(tmp_path, "lab.yaml", text + "name: lab\n"))
    (problem,) = caught.value.problems
    assert fact in problem

"""Profiles with a speed for each device type."""

import pytest

from harness.profiles import ProfileError, load_profile
from harness.profiles.read import SHIPPED

MIXED = SHIPPED / "v100_p100_t4.yaml"


def test_each_device_type_has_the_curves_of_its_own_profile():
    mixed = load_profile(MIXED)
    assert mixed.device_types == ("p100", "t4")
    for name, device_type in (
        ("v100_gavel", None),
        ("v100_gavel", "v100"),
        ("p100_gavel", "p100"),
        ("t4_elasticflow", "t4"),
    ):
        alone = load_profile(SHIPPED / f"{name}.yaml")
        for batch in (64, 128, 4096):
            for slots in (1, 3, 8):
                asked = mixed.throughput("resnet18", 64).samples_per_s(slots, batch, device_type)
                assert asked == alone.throughput("resnet18", batch).samples_per_s(slots)
    far = mixed.across_hosts("resnet18", "p100")
    alone = load_profile(SHIPPED / "p100_gavel.yaml").across_hosts("resnet18")
    assert far.curve(64).samples_per_s(4) == alone.curve(64).samples_per_s(4)
    assert mixed.across_hosts("resnet18", "t4") is None
    assert mixed.across_hosts("absent", "t4") is None


def test_without_devices_the_type_makes_no_difference():
    plain = load_profile(SHIPPED / "v100_gavel.yaml")
    curve = plain.throughput("resnet50", 64)
    assert curve.samples_per_s(2, None, "t4") == curve.samples_per_s(2)
    assert plain.curve_problems(["resnet50"], ("t4", "a100")) == []
    assert plain.digest != load_profile(MIXED).digest


def test_a_workload_whose_speed_on_a_type_is_not_known_is_told():
    mixed = load_profile(MIXED)
    assert mixed.curve_problems(["resnet18"], ("p100", "t4", "v100")) == []
    assert mixed.curve_problems(["recorded"], ("t4",)) == []
    (problem,) = mixed.curve_problems(["lm"], ("p100", "t4", "v100"))
    assert "no throughput curve for workload 'lm' on device type 't4'" in problem
    assert "known: p100, v100" in problem


@pytest.mark.parametrize(
    ("value", "fact"),
    [("[p100]", "give device type → profile file"), ("{t4: absent.yaml}", "absent.yaml")],
)
def test_wrong_devices_are_told_with_their_place(tmp_path, value, fact):
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"name: mine\nthroughput: {{}}\nrescale_costs: []\ndevices: {value}\n"
        "provenance: {hardware: a, versions: b, source: c, licence: d, trials: e, spread: f,"
        " rescale_costs: g, measured_here: false}\n"
    )
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert any("devices" in problem and fact in problem for problem in caught.value.problems)

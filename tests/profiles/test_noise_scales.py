"""Gradient noise scales in profiles: read, refused, and part of what a profile is."""

import pytest

from harness.profiles import ProfileError, load_profile
from tests.replay.worlds import profile


def config(noise_scale):
    true = profile()
    return {
        "name": "test",
        "provenance": {k: v for k, v in true.provenance.items() if k not in ("digest", "curves")},
        "throughput": {"net": {"device": "none", "samples_per_s": {8: {1: 1.0}}}},
        "rescale_costs": [{"preparation_s": 0.0, "pause_s": 0.0}],
        "noise_scale": noise_scale,
    }


def test_a_profile_knows_the_noise_that_it_states():
    known = load_profile(config({"net": 500}))
    assert known.noise_scale == {"net": 500.0}
    assert known.provenance["noise_scale"] == {"net": 500.0}
    without, more = load_profile(config(None)), load_profile(config({"net": 501}))
    assert without.noise_scale == {}
    assert "noise_scale" not in without.provenance
    assert len({known.digest, without.digest, more.digest}) == 3


@pytest.mark.parametrize(
    ("noise_scale", "fact"),
    [
        ({"bet": 500}, "noise_scale.bet: there is no curve of 'bet'; known: net"),
        ({"net": -1}, "noise_scale.net: is -1; give samples, at least 0"),
        ({"net": 10**400}, "noise_scale.net: is 10+; give samples, at least 0"),
        ({"net": "large"}, "noise_scale.net: is 'large'; give samples"),
        (500, "noise_scale: is 500; give workload: samples"),
    ],
)
def test_impossible_noise_is_refused(noise_scale, fact):
    with pytest.raises(ProfileError, match=fact):
        load_profile(config(noise_scale))


def test_the_shipped_noise_is_beside_curves_that_stay():
    noisy = load_profile({"path": "t4_pollux_noise.yaml"})
    plain = load_profile({"path": "t4_elasticflow.yaml"})
    assert set(noisy.noise_scale) == {*noisy.workloads} - {"recorded"}
    assert noisy.workloads == plain.workloads
    for name in plain.workloads:
        assert noisy.throughput(name, 64).samples_per_s(4) == plain.throughput(
            name, 64
        ).samples_per_s(4)

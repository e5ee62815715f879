"""Every shipped profile loads, and says what its source says."""

import csv
from pathlib import Path

import numpy as np
import pytest
import yaml
from hydra import compose, initialize_config_dir

from harness.contracts.change import ChangeKind
from harness.contracts.process import Warmth
from harness.profiles import ProfileError, load_profile
from harness.profiles.read import SHIPPED
from harness.trace.commands.catalog import open_profile

NAMES = sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def shipped(name):
    with initialize_config_dir(str(SHIPPED), version_base="1.3"):
        return load_profile(compose(name))


@pytest.mark.parametrize("name", NAMES)
def test_shipped_profile_loads_with_provenance_and_positive_curves(name):
    profile = shipped(name)
    assert profile.name == name
    assert "recorded" in profile.workloads
    assert set(profile.provenance["curves"]) == set(profile.workloads)
    for workload in profile.workloads:
        curve = profile.throughput(workload, 64)
        assert all(curve.samples_per_s(slots) > 0 for slots in (1, 2, 3, 8, 64, 500))


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_profile_is_the_same_by_name_and_as_a_file(name):
    by_file = load_profile({"path": str(SHIPPED / f"{name}.yaml")})
    assert by_file.digest == shipped(name).digest == open_profile(name).digest
    assert by_file.name == name


def test_a_defaults_list_that_names_nothing_is_told_with_its_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("defaults: [absent, _self_]\nname: mine\n")
    with pytest.raises(ProfileError, match=r"mine\.yaml: .*absent.*correct its defaults list"):
        load_profile(path)


def tables():
    """Every table that a shipped profile names: profile, workload, across hosts?, file."""
    for name in NAMES:
        entries = yaml.safe_load((SHIPPED / f"{name}.yaml").read_text()).get("throughput") or {}
        for workload, entry in entries.items():
            for is_across, table in ((False, entry), (True, entry.get("across_hosts") or {})):
                if "file" in table:
                    yield name, workload, is_across, SHIPPED / table["file"]


TABLES = list(tables())


def test_every_table_is_named_by_a_profile():
    assert {path for *_, path in TABLES} == set((SHIPPED / "data").rglob("*.csv"))


@pytest.mark.parametrize(
    ("name", "workload", "is_across", "path"),
    TABLES,
    ids=[f"{name}-{path.stem}" for name, _, _, path in TABLES],
)
def test_measured_cells_are_iterations_times_batch(name, workload, is_across, path):
    profile = shipped(name)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    checked = 0
    for row in rows:
        batch = int(row.pop("global_batch_size"))
        for slots, value in row.items():
            if value and float(value) > 0:
                family = profile.families[workload]
                curve = (family.across if is_across else family).curve(batch)
                assert curve.samples_per_s(int(slots)) == pytest.approx(float(value) * batch)
                checked += 1
    assert checked >= 5


def test_gpus_across_hosts_are_slower_where_the_network_is_the_limit():
    """P100, Transformer at batch 16 on 8 GPUs: 29.0 steps a second on one host, 21.1 across."""
    profile = shipped("p100_gavel")
    own = profile.throughput("transformer", 16).samples_per_s(8)
    across = profile.across_hosts("transformer").curve(16).samples_per_s(8)
    assert (own / 16, across / 16) == pytest.approx((29.02, 21.11), abs=0.01)
    assert shipped("a100_elasticflow").across_hosts("bert") is None


def test_how_much_faster_a_v100_is_depends_on_the_model():
    """EasyScale, section 3.4: 2.45 (ResNet50) and 1.55 (BERT) times a T4; never whole. Others'
    measurements, of other versions, so the numbers are not those."""
    profile, batch = shipped("v100_p100_t4"), 256

    def gain(workload, over):
        curve = profile.throughput(workload, batch)
        fast = curve.samples_per_s(1, device_type="v100")
        return fast / curve.samples_per_s(1, device_type=over)

    over_t4 = [gain(name, "t4") for name in ("resnet18", "resnet50")]
    over_p100 = [gain(name, "p100") for name in ("resnet18", "resnet50", "lm")]
    for gains in (over_t4, over_p100):
        assert min(gains) > 1.2
        assert max(gains) > 1.1 * min(gains)
        assert all(abs(found - round(found)) > 0.1 for found in gains)


def test_vgg16_scaling_agrees_with_the_paper():
    """ElasticFlow, section 2.1: VGG16 at batch 256 on 8 GPUs reaches 76.07% of linear."""
    curve = shipped("a100_elasticflow").throughput("vgg16", 256)
    assert curve.samples_per_s(8) / (8 * curve.samples_per_s(1)) == pytest.approx(0.7607, abs=1e-3)


@pytest.mark.parametrize(
    ("workload", "batches"),
    [
        ("resnet50", (64, 128, 256)),
        ("vgg16", (64, 128, 256)),
        ("inception3", (64, 128)),
        ("bert", (64, 128)),
        ("gpt2", (128, 256)),
        ("deepspeech2", (64,)),
    ],
)
def test_scaling_curves_are_concave_where_measured(workload, batches):
    """ElasticFlow, figure 2(a), on the authors' own measurements: below linear, less a GPU with
    every doubling, and concave but for 1.5% by which three plateaus undulate."""
    sizes = (1, 2, 4, 8, 16, 32, 64)
    for batch in batches:
        curve = shipped("a100_elasticflow").throughput(workload, batch)
        speeds = [curve.samples_per_s(size) for size in sizes]
        per_gpu = [speed / size for speed, size in zip(speeds, sizes, strict=True)]
        assert per_gpu == sorted(per_gpu, reverse=True)
        assert max(per_gpu[1:]) < per_gpu[0]
        for at in range(1, len(sizes) - 1):
            around = [at - 1, at + 1]
            chord = np.interp(sizes[at], np.take(sizes, around), np.take(speeds, around))
            assert speeds[at] > 0.985 * chord


def test_cells_not_measured_are_not_zero_speed():
    profile = shipped("a100_elasticflow")
    assert profile.throughput("resnet50_cifar10", 64).samples_per_s(64) > 1000
    deepspeech = profile.throughput("deepspeech2", 32)
    assert deepspeech.samples_per_s(64) == deepspeech.samples_per_s(32)


def test_published_profiles_state_that_costs_are_assumed():
    published = ("k80_gavel", "p100_gavel", "t4_elasticflow", "v100_gavel")
    for name in ("a100_elasticflow", "published_mixed", *published):
        profile = shipped(name)
        assert "zero assumed" in profile.provenance["rescale_costs"]
        assert profile.rescale_cost("any", "bert", ChangeKind.RESCALE, 4, 8).pause_s == 0.0


def test_assumed_stop_resume_cost_is_charged_to_stop_resume_only():
    profile = shipped("a100_stop_resume_30s")
    assert "assumed" in profile.provenance["rescale_costs"]
    assert profile.rescale_cost("stop_resume", "bert", ChangeKind.RESCALE, 4, 8).pause_s == 30.0
    assert profile.rescale_cost("stop_free", "bert", ChangeKind.RESCALE, 4, 8).pause_s == 0.0


def test_every_tiny_workload_was_measured_with_its_costs():
    pool = yaml.safe_load((SHIPPED.parent / "workload" / "tiny.yaml").read_text())["pool"]
    profile = shipped("cpu2_catalogue")
    assert profile.provenance["measured_here"]
    for workload in pool:
        assert profile.families[workload].measured_slots(32) == (1, 2)
        for kind, sizes in ((ChangeKind.RESCALE, (1, 2)), (ChangeKind.RESUME, (0, 2))):
            asked = ("stop_resume", workload, kind, *sizes, Warmth.PREIMPORTED)
            assert set(profile.rescale_cost(*asked).phases_s) >= {"spawn", "load", "first_step"}


def test_unknown_workload_lists_the_known_ones():
    with pytest.raises(ProfileError, match=r"'alexnet'; known: bert, deepspeech2, gpt2"):
        shipped("a100_elasticflow").throughput("alexnet", 64)


def test_digest_follows_the_numbers_and_not_the_name():
    first, second = shipped("a100_elasticflow"), shipped("a100_stop_resume_30s")
    assert first.digest != second.digest
    assert first.digest == shipped("a100_elasticflow").digest
    assert first.digest == load_profile(Path(SHIPPED) / "a100_elasticflow.yaml").digest

"""Whole jobs with the ordered reduction: their bits do not show what happened to them."""

import pytest

from harness.contracts.change import ChangeKind
from systems.backends.static import Static
from systems.backends.stop_resume import StopResume
from systems.runtime.wire.step_log import read_lines
from tests.backends.world import World

DIGESTS = ("digest_parameters", "digest_buffers", "digest_optimizer")
STEPS, SEED = 30, 11


@pytest.fixture
def worlds(launcher, tmp_path):
    """Makes worlds by name and closes them."""
    opened = []

    def open_world(backend, name):
        world = World(backend, launcher, tmp_path / name)
        opened.append(world)
        return world

    yield open_world
    for world in opened:
        world.backend.close()


def outcome(world, results):
    """What a run is compared by."""
    lines = {line["step"]: line["loss"] for line in read_lines(world.job_dir() / "steps.jsonl")}
    losses = [lines[step] for step in sorted(lines)]
    return {"losses": losses, **{name: results[name] for name in DIGESTS}}


def uninterrupted(world, num_workers, **options):
    world.start(tuple(range(num_workers)), STEPS, seed=SEED, **options)
    return outcome(world, world.until_end().results)


@pytest.mark.parametrize(
    ("num_workers", "expected", "more"),
    [
        # Up to two workers the layout of buckets does not show in the bits.
        pytest.param(1, {"reduction": "ddp"}, {}, marks=pytest.mark.long),
        (2, {"reduction": "ddp"}, {}),
        pytest.param(3, {"reduction": "ordered"}, {}, marks=pytest.mark.long),
        (3, {"reduction": "ordered"}, {"data_order": "blocks", "block_samples": 10}),
    ],
)
def test_restarts_at_the_same_size_do_not_show(worlds, num_workers, expected, more):
    options = {"batch": 14, "width": 512, "optimizer": "adamw"}
    static = worlds(Static(start="preimported", **expected, **more), "static")
    wanted = uninterrupted(static, num_workers, **options)
    backend = StopResume(start="preimported", reduction="ordered", **more)
    world = worlds(backend, "stop_resume")
    slots = tuple(range(num_workers))
    world.until_change(world.start(slots, STEPS, seed=SEED, step_s=0.01, **options))
    world.do(ChangeKind.RESCALE, slots, batch=14)
    world.do(ChangeKind.SUSPEND)
    world.do(ChangeKind.RESUME, slots, batch=14)
    assert outcome(world, world.until_end().results) == wanted
    resumed = [line["resumed_at"] for line in read_lines(world.job_dir() / "generations.jsonl")]
    assert len(resumed) == 3
    assert 0 == resumed[0] < resumed[1] < resumed[2] < STEPS


def test_a_checkpoint_of_another_data_order_is_refused_in_words(worlds, launcher):
    world = worlds(StopResume(start="preimported"), "positions")
    world.until_change(world.start((0,), step_s=0.01))
    world.do(ChangeKind.SUSPEND)
    for manifest in (world.job_dir() / "checkpoints").glob("*.json"):
        text = manifest.read_text()
        manifest.write_text(text.replace('"order": "positions"', '"order": "blocks"'))
    change = world.ask(ChangeKind.RESUME, (0,))
    failed = world.until(lambda report: report.change_id == change and report.reason)
    assert "set data_order=blocks to go on from it" in failed.reason


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"reduction": "sum"}, "reduction is 'sum'; known: ddp, ordered"),
        ({"data_order": "random"}, "data_order is 'random'; known: positions, blocks"),
        ({"block_samples": 0}, "block_samples is 0; it must be >= 1"),
    ],
)
@pytest.mark.parametrize("backend", [Static, StopResume])
def test_options_out_of_range_are_refused(backend, options, fact):
    with pytest.raises(ValueError, match=fact):
        backend(**options)

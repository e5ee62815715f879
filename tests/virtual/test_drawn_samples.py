"""Samples that are drawn from random states are those of a DataLoader for every virtual worker,
whatever was fetched in advance when its slots changed."""

import random

import pytest
import torch

from harness.consistency.__main__ import main
from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.contracts.evidence import Evidence
from harness.contracts.workload import WorkloadSpec
from systems.backends.virtual_thread import VirtualThread
from systems.runtime.data.drawing import draw, first_states
from systems.runtime.data.fetching import Fetchers
from systems.runtime.data.loader import LoaderProcess
from systems.runtime.data.make_order import data_order
from systems.runtime.data.random_states import ProcessRandom
from systems.runtime.data.step_seed import step_seed
from systems.runtime.wire.data_order import epochs_of
from systems.virtual.contexts import StreamContexts
from systems.virtual.drawn_samples import DrawnSamples
from systems.virtual.loader_states import LoaderStates
from tests.backends.world import workers
from tests.virtual.drawing_workload import Drawing
from tests.virtual.worlds import SEED, check_same_bits, reference, virtual

TARGET = "tests.virtual.drawing_workload.Drawing"
CPU = torch.device("cpu")
NUM_WORKERS, NUM_LOADERS, DEPTH, BATCH = 3, 2, 3, 10
AHEAD = {"prefetch_steps": DEPTH, "loader_processes": NUM_LOADERS}
OPTIONS = {"fetch_s": 0.01, "step_s": 0.01}


class Samples(torch.utils.data.Dataset):
    """The workload's batches, as the items of a data set."""

    def __init__(self):
        self.workload = Drawing()

    def __getitem__(self, ids):
        return self.workload.samples(ids)


@pytest.fixture(autouse=True)
def own_states():
    """Other tests' random states stay what they are."""
    process = ProcessRandom(CPU)
    before = process.read()
    yield
    process.write(before)


def test_the_states_are_those_of_a_dataloader():
    ids = [[n, n + 1, n + 2] for n in range(6)]
    generator = torch.Generator().manual_seed(11)
    stock = torch.utils.data.DataLoader(
        Samples(), sampler=ids, batch_size=None, num_workers=NUM_LOADERS, generator=generator
    )
    process, workload = ProcessRandom(CPU), Drawing()
    before = process.read().to_bytes()
    states = first_states(process, 11, NUM_LOADERS)
    assert process.read().to_bytes() == before
    for number, theirs in enumerate(stock):
        loader = number % NUM_LOADERS
        mine, states[loader] = draw(workload, process, ids[number], [0] * 3, states[loader])
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


class Slot:
    """What one slot fetches with, and what it knows."""

    def __init__(self, workload, order, *, num_processes=NUM_LOADERS):
        self.states = LoaderStates(SEED, NUM_WORKERS, NUM_LOADERS)
        loaders = [LoaderProcess(TARGET, {"fetch_s": 0.002}) for _ in range(num_processes)]
        for loader in loaders:
            loader.wait_ready()
        self.fetchers = Fetchers(DEPTH if loaders else 0, loaders)
        self.samples = DrawnSamples(workload, order, self.fetchers, self.states)


def alone(workload, order, num_steps):
    """Every worker's batches of every step, drawn one after the other by processes of its own."""
    process = ProcessRandom(CPU)
    own = [
        first_states(process, step_seed(SEED, 0, worker), NUM_LOADERS)
        for worker in range(NUM_WORKERS)
    ]
    found, state = [], order.initial()
    for step in range(num_steps):
        plan = order.plan(state, NUM_WORKERS, BATCH)
        loader, batches = step % NUM_LOADERS, []
        for worker, ranges in enumerate(plan.parts):
            ids, epochs = order.ids(ranges), epochs_of(ranges)
            batch, own[worker][loader] = draw(workload, process, ids, epochs, own[worker][loader])
            batches.append(batch)
        found.append(batches)
        state = plan.after
    return found


def test_batches_fetched_in_advance_are_those_of_workers_alone():
    """Two slots, one of which fetches in this process, share the workers by turns; steps are made
    again; and what a slot knows goes to the other by way of a checkpoint."""
    workload, order = Drawing(), data_order("positions", SEED, 97, 1)
    slots = [Slot(workload, order), Slot(workload, order, num_processes=0)]
    rng, wanted, state = random.Random(3), alone(workload, order, 60), order.initial()
    cut = 1
    for step, expected in enumerate(wanted):
        if rng.random() < 0.3:
            cut = rng.randint(0, NUM_WORKERS)
        plan = order.plan(state, NUM_WORKERS, BATCH)
        parts = range(cut), range(cut, NUM_WORKERS)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):  # lost with a worker, and made again
            after = {}
            for slot, local in zip(slots, parts, strict=True):
                slot.states.undo()
                if local:
                    found = slot.samples.batches(plan, local, BATCH, step)
                    after |= slot.states._next
                    for worker, batch in found.items():
                        assert all(torch.equal(batch[n], expected[worker][n]) for n in batch)
        for slot in slots:
            slot.states.drew(step, after)  # as the gathering of a real step has it
            slot.states.commit()
        if rng.random() < 0.2:
            giver, taker = rng.sample(slots, 2)
            taker.states.adopt(giver.states.values())
        state = plan.after
    for slot in slots:
        slot.fetchers.close()


def test_a_checkpoint_of_other_loaders_is_refused():
    contexts = StreamContexts(SEED, 2, CPU, LoaderStates(SEED, 2, 3))
    values = contexts.values()
    contexts.adopt(values)
    assert contexts.values() == values
    for other in (None, LoaderStates(SEED, 2, 2)):
        with pytest.raises(ValueError, match="drawn_samples, loader_processes"):
            StreamContexts(SEED, 2, CPU, other).adopt(values)


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"random_states": "per_step"}, "drawn again in every step"),
        ({"prefetch_steps": 2}, "a thread would draw from the random states"),
    ],
)
def test_what_cannot_be_exact_is_refused(options, fact):
    with pytest.raises(ValueError, match=fact):
        VirtualThread(drawn_samples=True, **options)


def trained(launcher, folder, plan, backend, during=lambda world: None):
    """A job of drawn samples on the slots of ``plan``, and its end."""
    world = virtual(launcher, folder, drawn_samples=True, **backend)
    workload = WorkloadSpec("drawing", TARGET, OPTIONS)
    details = {"seed": SEED, "logical_workers": NUM_WORKERS, "batch": BATCH}
    try:
        step = world.until_change(world.start(plan[0], workload=workload, **details)).step
        for slots in plan[1:]:
            world.until_step(step + 5)
            step = world.do(ChangeKind.RESCALE, slots, batch=BATCH).step
        during(world)
        world.until_step(world.reports[-1].step + 5)
        world.backend.set_target_step("job", 0)
        return world, world.until_end()
    finally:
        world.backend.close()


def held_to_stock(launcher, folder, plan, backend, **details):
    world, end = trained(launcher, folder, plan, backend, **details)
    script = ("--loaders", str(backend.get("loader_processes", 0)))
    check_same_bits(
        world, folder, end, NUM_WORKERS, BATCH, workload=TARGET, script=script, **OPTIONS
    )


PLAN = [(0, 1), (0,), (1, 2, 3)]


@pytest.mark.long
@pytest.mark.parametrize(
    "reconfigure", ["stop_free", pytest.param("checkpoint", marks=pytest.mark.soak)]
)
def test_slots_change_in_the_middle_of_prefetching(launcher, tmp_path, reconfigure):
    held_to_stock(launcher, tmp_path, PLAN, {"reconfigure": reconfigure, **AHEAD})


@pytest.mark.long
@pytest.mark.parametrize("num_loaders", [pytest.param(1, marks=pytest.mark.soak), 5])
def test_any_number_of_loader_processes(launcher, tmp_path, num_loaders):
    """Fewer and more than there are steps in advance."""
    backend = {"prefetch_steps": DEPTH, "loader_processes": num_loaders}
    held_to_stock(launcher, tmp_path, PLAN[:2], backend)


@pytest.mark.long
@pytest.mark.parametrize("reconfigure", ["stop_free", "checkpoint"])
def test_samples_drawn_by_the_worker_itself(launcher, tmp_path, reconfigure):
    """Beside a script that has no loader processes: samples and dropout draw in turn."""
    held_to_stock(launcher, tmp_path, PLAN, {"reconfigure": reconfigure})


@pytest.mark.long
def test_a_killed_slot_leaves_no_trace_in_the_samples(launcher, tmp_path):
    def kill(world):
        for _ in range(2):
            world.until_step(world.reports[-1].step + 4)
            slots = [
                process
                for process in workers()
                if "systems.runtime.data.loader" not in process.cmdline()
            ]
            random.Random(world.reports[-1].step).choice(slots).kill()
            world.until(lambda report: report.kind is ReportKind.SHRUNK)

    held_to_stock(launcher, tmp_path, [(0, 1, 2)], AHEAD, during=kill)


@pytest.mark.long
def test_without_them_the_comparison_names_them(launcher, tmp_path, capsys):
    """The samples depend on what is carried, and are not taken for others in another order."""
    workload = WorkloadSpec("drawing", TARGET, OPTIONS)
    world = virtual(launcher, tmp_path, **AHEAD)
    try:
        details = {"workload": workload, "logical_workers": NUM_WORKERS, "seed": SEED}
        world.start((0,), 8, batch=BATCH, evidence=Evidence(1, 8), **details)
        world.until_end()
    finally:
        world.backend.close()
    script = ("--loaders", str(NUM_LOADERS), "--evidence", "digests", "--evidence-steps", "1", "8")
    folder = tmp_path / "stock"
    folder.mkdir()
    reference(folder, NUM_WORKERS, 8, BATCH, workload=TARGET, script=script, **OPTIONS)
    assert main([str(folder / "reference.jsonl"), str(world.job_dir())]) == 1
    text = capsys.readouterr().out
    assert text.startswith("different from step 1 on"), text
    assert "points to: random state of the samples" in text, text

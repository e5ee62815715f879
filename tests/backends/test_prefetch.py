"""Batches fetched in advance are the batches that would have been fetched."""

import os
import signal
import subprocess
import sys
import threading

import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.engines.live.consumed_samples import count_samples
from systems.backends.stop_free import StopFree
from systems.backends.stop_resume import StopResume
from systems.backends.virtual_thread import VirtualThread
from systems.runtime.data.loader import LoaderError, LoaderKilledError, LoaderProcess
from systems.runtime.data.make_order import data_order
from systems.runtime.data.prefetch import Prefetcher
from systems.runtime.data.step_seed import step_seed
from systems.runtime.wire.control import TOKEN_VARIABLE
from systems.runtime.wire.options import RuntimeOptions
from tests.backends.picture_workload import Pictures
from tests.backends.tiny_workload import Tiny
from tests.backends.world import ENDS, World, consumed_ids, descendants, warm_launcher
from tests.examples import examples

PICTURES = "tests.backends.picture_workload.Pictures"
KINDS = ["positions", "blocks"]


def assert_same(left, right):
    assert list(left) == list(right)
    for name, value in left.items():
        other = right[name]
        assert (value.dtype, value.shape) == (other.dtype, other.shape), name
        assert value.stride() == other.stride() or 0 in other.stride(), name
        assert torch.equal(value, other), name


def ready(target):
    """A process that has its data, so that it is really asked for samples."""
    loader = LoaderProcess(target, {})
    loader.wait_ready()
    return loader


def stored(workload, order, ranges):
    """Piece by piece, as the definition of a range has it."""
    pieces = [(order.ids([piece]), piece.epoch) for piece in ranges]
    ids = [one for ids, _ in pieces for one in ids]
    epochs = [epoch for ids, epoch in pieces for _ in ids]
    return workload.samples(ids, epochs)


def assert_same_through_changes(workload, order, prefetcher, history):
    """Every worker's batches, the membership and the batch changing on the way."""
    state = order.initial()
    for rank, num_workers, batch, num_steps in history:
        for _ in range(num_steps):
            plan = order.plan(state, num_workers, batch)
            found = prefetcher.batch(plan, (rank,), batch)
            assert_same(found, stored(workload, order, plan.parts[rank]))
            state = plan.after


HISTORY = [(0, 2, 8, 6), (1, 2, 8, 2), (1, 3, 8, 5), (0, 1, 8, 1), (0, 1, 30, 6), (0, 2, 8, 4)]


def test_a_process_gives_the_same_bits_in_the_same_layout():
    workload, loader = Pictures(), LoaderProcess(PICTURES, {})
    loader.wait_ready()
    for ids in ([3], [0, 49, 3, 3], list(range(50))):
        epochs = [index // 3 for index in range(len(ids))]
        assert_same(loader.samples(ids, epochs), workload.samples(ids, epochs))
    with pytest.raises(LoaderError, match="IndexError"):
        loader.samples([50], [0])
    assert_same(loader.samples([7], [2]), workload.samples([7], [2]))
    loader.close()


@pytest.mark.parametrize(("kind", "num_loaders"), [("positions", 0), ("blocks", 0), ("blocks", 2)])
def test_batches_are_the_same_through_changes(kind, num_loaders):
    workload, order = Pictures(), data_order(kind, 1, 50, 7)
    processes = [ready(PICTURES) for _ in range(num_loaders)]
    prefetcher = Prefetcher(workload, order, 3, processes)
    assert_same_through_changes(workload, order, prefetcher, HISTORY * 10)
    prefetcher.close()


@settings(max_examples=examples(50))
@given(
    kind=st.sampled_from(KINDS),
    depth=st.integers(0, 5),
    history=st.lists(
        st.integers(1, 4).flatmap(
            lambda workers: st.tuples(
                st.integers(0, workers - 1), st.just(workers), st.integers(4, 40), st.integers(1, 5)
            )
        ),
        max_size=6,
    ),
)
def test_any_history_gives_the_same_batches(kind, depth, history):
    workload, order = Tiny(num_samples=31), data_order(kind, 1, 31, 4)
    prefetcher = Prefetcher(workload, order, depth)
    assert_same_through_changes(workload, order, prefetcher, history)
    prefetcher.close()


def test_a_step_that_is_done_again_gets_its_samples():
    workload, order = Tiny(), data_order("blocks", 1, 97, 8)
    prefetcher = Prefetcher(workload, order, 2)
    first = order.plan(order.initial(), 2, 12)
    second = order.plan(first.after, 2, 12)
    for plan in (first, second, second, first, second):
        found = prefetcher.batch(plan, (1,), 12)
        assert_same(found, workload.samples(order.ids(plan.parts[1])))
    prefetcher.close()


class Gated(Tiny):
    """Fetches only when let through, but in the main thread at once."""

    def __init__(self):
        super().__init__()
        self.begun, self.gate = threading.Event(), threading.Event()
        self.fetched_in = []

    def samples(self, ids, epochs=None):
        self.fetched_in.append(threading.current_thread())
        if threading.current_thread() is not threading.main_thread():
            self.begun.set()
            assert self.gate.wait(30)
        return super().samples(ids, epochs)


def test_what_was_fetched_for_the_old_membership_keeps_nobody_waiting():
    workload, order = Gated(), data_order("blocks", 1, 97, 8)
    prefetcher = Prefetcher(workload, order, 4)
    plan = order.plan(order.initial(), 2, 12)
    prefetcher.batch(plan, (0,), 12)
    assert workload.begun.wait(30)
    changed = order.plan(plan.after, 3, 12)
    prefetcher.batch(changed, (0,), 12)  # would hang if it waited for what is under way
    nobody_began = order.plan(changed.after, 3, 12)
    prefetcher.batch(nobody_began, (0,), 12)  # and this if it waited for who is busy
    assert len(workload.fetched_in) == 4
    workload.gate.set()
    prefetcher.close()


def test_the_next_batch_is_fetched_in_advance():
    workload, order = Gated(), data_order("blocks", 1, 97, 8)
    workload.gate.set()
    prefetcher = Prefetcher(workload, order, 1)
    state = order.initial()
    for _ in range(10):
        plan = order.plan(state, 2, 12)
        prefetcher.batch(plan, (0,), 12)
        assert workload.begun.wait(30)  # by then somebody has begun to fetch the next
        workload.begun.clear()
        state = plan.after
    prefetcher.close()
    mine = [thread for thread in workload.fetched_in if thread is threading.main_thread()]
    assert len(mine) == 1


def train(depth, loaders=()):
    """Parameters after some steps with dropout, on a rank that changes."""
    workload, order = Tiny(), data_order("blocks", 3, 97, 8)
    prefetcher = Prefetcher(workload, order, depth, loaders)
    model = workload.build_model(3)
    optimizer = workload.build_optimizer(model)
    state = order.initial()
    for step in range(40):
        num_workers = 1 + step // 5 % 3
        rank = step // 3 % num_workers
        plan = order.plan(state, num_workers, 12)
        torch.manual_seed(step_seed(3, step, rank))
        optimizer.zero_grad()
        workload.loss(model, prefetcher.batch(plan, (rank,), 12)).backward()
        workload.update(optimizer, 12, step)
        state = plan.after
    prefetcher.close()
    return model.state_dict()


def test_training_has_the_same_bits():
    plain = train(0)
    assert_same(plain, train(2))
    assert_same(plain, train(3, [ready("tests.backends.tiny_workload.Tiny")]))


def read_on(order, prefetcher):
    """Ask for batches until something goes wrong."""
    state = order.initial()
    while True:
        plan = order.plan(state, 1, 10)
        prefetcher.batch(plan, (0,), 10)
        state = plan.after


def test_errors_come_out_where_the_batch_is_asked_for():
    workload, order = Pictures(fail_on=23), data_order("blocks", 1, 50, 7)
    prefetcher = Prefetcher(workload, order, 2)
    with pytest.raises(LookupError, match="no sample 23"):
        read_on(order, prefetcher)
    prefetcher.close()


def test_a_process_that_cannot_build_its_workload_says_why():
    loader = LoaderProcess(PICTURES, {"fail_build": True})
    with pytest.raises(LoaderError, match="ValueError: this workload was told to fail"):
        loader.wait_ready()
    loader.close()


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_process_that_was_killed_is_an_error(is_ready):
    workload, order = Pictures(), data_order("blocks", 1, 50, 7)
    loader = ready(PICTURES) if is_ready else LoaderProcess(PICTURES, {})
    prefetcher = Prefetcher(workload, order, 2, [loader])
    process = psutil.Process(loader.pid)
    process.kill()
    with pytest.raises(LoaderKilledError, match=r"(ended|gone).* \(signal 9\)"):
        read_on(order, prefetcher)
    prefetcher.close()
    assert not process.is_running()


WORKER = """
import signal, socket, sys
from systems.runtime.data.loader import LoaderProcess
control = socket.create_server(("127.0.0.1", 0))
control.set_inheritable(True)
first = LoaderProcess(sys.argv[1], {})
first.wait_ready()
print(first.pid, LoaderProcess(sys.argv[1], {}).pid, flush=True)
signal.pause()
"""


def test_processes_die_with_their_worker_and_inherit_nothing_of_it():
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, PICTURES],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, TOKEN_VARIABLE: "secret"},
    ) as worker:
        serving, starting = (psutil.Process(int(pid)) for pid in worker.stdout.readline().split())
        assert TOKEN_VARIABLE not in serving.environ()
        assert not serving.net_connections("tcp")
        assert len(serving.net_connections("unix")) == 1
        os.kill(worker.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs([serving, starting], timeout=10)
        # Whoever adopts them may take its time to bury them.
        assert all(process.status() == psutil.STATUS_ZOMBIE for process in alive)


def test_closing_leaves_no_thread_and_no_process():
    before = threading.active_count()
    workload, order = Pictures(), data_order("blocks", 1, 50, 7)
    loader = LoaderProcess(PICTURES, {})
    process = psutil.Process(loader.pid)
    prefetcher = Prefetcher(workload, order, 2, [loader])
    prefetcher.batch(order.plan(order.initial(), 1, 10), (0,), 10)
    prefetcher.close()
    prefetcher.close()
    assert threading.active_count() == before
    assert not process.is_running()


def test_wrong_options_are_refused_in_words():
    with pytest.raises(ValueError, match="prefetch_steps is -1") as caught:
        RuntimeOptions(prefetch_steps=-1, loader_processes=-1)
    assert len(str(caught.value).splitlines()) == 2
    with pytest.raises(ValueError, match="prefetch_steps=0 gives them nothing to do"):
        RuntimeOptions(loader_processes=1)


@pytest.mark.parametrize(
    ("backend", "kind"),
    [
        (StopFree, ReportKind.SHRUNK),
        (VirtualThread, ReportKind.SHRUNK),
        (StopResume, ReportKind.LOST),
    ],
)
def test_a_loader_process_that_is_killed_is_its_worker_s_death(tmp_path, backend, kind):
    """And no failure of the program, which would end the job for good."""
    launcher, options = warm_launcher(), {"prefetch_steps": 2, "loader_processes": 1}
    world = World(backend(start="preimported", **options), launcher, tmp_path)
    world.until_change(world.start((0, 1), step_s=0.02))
    loaders = [one for one in descendants() if "systems.runtime.data.loader" in one.cmdline()]
    assert len(loaders) == 2
    loaders[1].kill()
    lost = world.until(lambda report: report.kind in (ReportKind.SHRUNK, *ENDS))
    assert lost.kind is kind, lost
    assert "loader process has ended" in lost.reason
    if kind is ReportKind.SHRUNK:
        world.until_step(lost.step + 3)
    else:
        world.until_change(world.ask(ChangeKind.RESUME, (0,)))
    world.backend.close()
    assert descendants() == []
    launcher.close()


def test_a_job_that_fetches_in_advance_has_the_same_bits(tmp_path):
    """With real workers, whose processes end with them."""
    launcher, ends = warm_launcher(), []
    for name, fetching in (("plain", {}), ("ahead", {"prefetch_steps": 2, "loader_processes": 1})):
        backend = StopResume(start="preimported", data_order="blocks", block_samples=8, **fetching)
        world = World(backend, launcher, tmp_path / name)
        world.until_change(world.start((0, 1), 60, step_s=0.02))
        ends.append(world.until_end())
        ids = consumed_ids(world, 97, kind="blocks", block_samples=8)
        assert len(ids) == 60 * 12
        assert count_samples(world.job_dir(), 60) == (0, 0)
        world.backend.close()
        assert descendants() == []
    launcher.close()
    assert ends[0].results == ends[1].results

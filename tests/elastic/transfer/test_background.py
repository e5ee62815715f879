"""A state that moves while it is being trained: after the log, every tensor is equal."""

import copy
import threading

import pytest
import torch

from systems.elastic.transfer.training_state import is_elementwise
from tests.elastic.transfer.jobs import OPTIMIZERS, HeldDonor, Job, PacedDonor, join, pieces_left

ELEMENTWISE = [name for name in OPTIMIZERS if name != "adafactor"]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    """Whatever became of the joiners, a donor's thread ends by itself."""
    yield
    for thread in threading.enumerate():
        if thread.name == "state-donor":
            thread.join(20)
            assert not thread.is_alive()


def serve(job, ports, **options):
    """Train until all have caught up, some steps more, and finish."""
    donor = job.donor(ports, **options)
    while not donor.caught_up:
        job.train_beside(donor)
        assert donor.failed is None
    for _ in range(3):
        job.train_step([donor])
    donor.finish(job.step, {"consumed": job.step * 8, "text": "æ"})
    digests = job.digests()
    # The next forward and backward go on at once and must not reach the joiner.
    gradients = job.gradients()
    donor.wait_sent()
    job.backward(gradients)
    assert donor.join(20)
    assert donor.failed is None
    assert donor.finished
    return digests


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_tensor_is_equal_whatever_races(spawn, answer, name):
    _, pipe = spawn(join, name, 2, {}, {"share_memory": name != "adam"})
    job = Job(name)
    job.train(3)
    num_bytes = sum(value.numel() * value.element_size() for value in job.state.tensors)
    digests = serve(job, [answer(pipe)], kind=PacedDonor, piece_bytes=num_bytes // 100)
    received, found, applied, pulls = answer(pipe)
    assert found == digests
    assert received.step == job.step
    assert received.values == {"consumed": job.step * 8, "text": "æ"}
    assert applied[0] >= 5, "too few updates between the pieces to show anything"
    assert pulls == (name != "adam")


@pytest.mark.parametrize("name", ["momentum", "adam", "sgd"])
@pytest.mark.parametrize(("before", "there"), [(0, 0), (0, 2), (3, 0)])
def test_optimizer_state_that_one_side_does_not_have_yet(spawn, answer, name, before, there):
    _, pipe = spawn(join, name, there, {}, {})
    job = Job(name)
    job.train(before)
    digests = serve(job, [answer(pipe)], piece_bytes=8192)
    assert answer(pipe)[1] == digests


@pytest.mark.parametrize("name", ["momentum", "adam", "sgd"])
def test_a_second_transfer_gives_what_there_is_by_then(spawn, answer, name):
    """Between two transfers some tensors come to lie elsewhere, as with a checkpoint that is
    loaded; what the first one listed is used for the others."""
    job = Job(name)
    for _ in range(3):
        _, pipe = spawn(join, name, 1, {}, {})
        digests = serve(job, [answer(pipe)], piece_bytes=1 << 15)
        assert answer(pipe)[1] == digests
        job.optimizer.load_state_dict(copy.deepcopy(job.optimizer.state_dict()))
        job.state.parameters[1].data = job.state.parameters[1].data.clone()


@pytest.mark.parametrize("share", [False, True])
def test_buffers_that_lie_in_one_piece_travel_as_one(spawn, answer, share):
    _, pipe = spawn(join, "adam", 1, {"is_flat": True}, {"share_memory": share})
    job = Job("adam", is_flat=True)
    digests = serve(job, [answer(pipe)], piece_bytes=8192)
    assert len(job.state.named_buffers) == 3
    assert len(job.state.buffer_memory) == 1
    assert answer(pipe)[1] == digests


def test_a_joiner_whose_buffers_lie_otherwise_is_refused(spawn, answer):
    _, pipe = spawn(join, "adam", 1, {}, {})
    donor = Job("adam", is_flat=True).donor([answer(pipe)])
    assert answer(pipe) == ("StateMismatch", "1 flat_buffers there and 0 here")
    assert donor.join(20)
    assert donor.failed is not None


def test_an_update_before_the_end_was_read_fails(spawn, answer):
    _, pipe = spawn(join, "adam", 1, {}, {})
    job = Job("adam")
    donor = job.donor([answer(pipe)], kind=HeldDonor)
    while not donor.caught_up:
        job.train_beside(donor)
    donor.finish(job.step, {})
    job.train_step([donor])
    assert "before its state" in str(donor.failed)
    donor.may_end.set()


def test_two_joiners_get_one_stream(spawn, answer):
    pipes = [spawn(join, "adamw", 1, {}, {"share_memory": share})[1] for share in (False, True)]
    job = Job("adamw")
    digests = serve(job, [answer(pipe) for pipe in pipes], piece_bytes=8192)
    assert [answer(pipe)[1] for pipe in pipes] == [digests] * 2


def test_one_joiner_dies_and_the_other_arrives(spawn, answer):
    victim, doomed = spawn(join, "adamw", 1, {}, {})
    _, pipe = spawn(join, "adamw", 1, {}, {})
    job = Job("adamw")
    ports = [answer(doomed), answer(pipe)]
    donor = job.donor(ports, piece_bytes=8192)
    total = None
    while not donor.caught_up:
        job.train_beside(donor)
        left = pieces_left(donor)
        if total is None:
            total = left
        elif left is not None and left < total // 2 and victim.is_alive():
            victim.kill()
            victim.join()
    donor.finish(job.step, {})
    digests = job.digests()
    assert donor.join(20)
    assert list(donor.failures) == [("127.0.0.1", ports[0])]
    assert donor.failed is not None
    assert donor.finished
    assert answer(pipe)[1] == digests


def test_the_last_pieces_may_follow_the_finish(spawn, answer):
    _, pipe = spawn(join, "adam", 1, {}, {})
    job = Job("adam")
    donor = job.donor([answer(pipe)], piece_bytes=2048)
    while pieces_left(donor) is None:
        job.train_step([donor])
    donor.finish(job.step, {})
    digests = job.digests()
    assert donor.join(20)
    assert answer(pipe)[1] == digests


def test_an_update_that_changes_gradients_is_noticed(spawn, answer):
    _, pipe = spawn(join, "sgd", 0, {"clips": True}, {})
    job = Job("sgd", clips=True)
    donor = job.donor([answer(pipe)], piece_bytes=2048)
    while not donor.failed:
        job.train_step([donor])
    assert "keeps_gradients" in str(donor.failed)
    assert answer(pipe)[0] == "PeerLost"


def test_clipped_gradients_go_as_copies(spawn, answer):
    _, pipe = spawn(join, "momentum", 1, {"clips": True}, {})
    job = Job("momentum", clips=True)
    digests = serve(job, [answer(pipe)], piece_bytes=8192, keeps_gradients=False)
    assert answer(pipe)[1] == digests


@pytest.mark.parametrize("name", ["momentum", "adamw"])
def test_learning_rates_that_are_set_between_updates_go_with_the_gradients(spawn, answer, name):
    _, pipe = spawn(join, name, 1, {"is_scheduled": True}, {})
    job = Job(name, is_scheduled=True)
    job.train(3)
    digests = serve(job, [answer(pipe)], piece_bytes=8192)
    assert answer(pipe)[1] == digests


def test_log_order_is_not_left_to_chance():
    job = Job("sgd")
    donor = job.donor([9], timeout_s=0.2)
    with pytest.raises(RuntimeError, match="lock"):
        donor.reduced(0, 8, 0, job.buckets)
    donor.cancel()
    assert donor.join(10)


def test_which_optimizers_may_be_replayed():
    class Own(torch.optim.SGD):
        pass

    for name in OPTIMIZERS:
        assert is_elementwise(Job(name).optimizer) == (name != "adafactor"), name
    assert not is_elementwise(Own([torch.zeros(1)]))

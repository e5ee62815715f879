"""What is kept of a listed state, and when it is listed anew."""

import pytest
import torch

from systems.elastic.transfer.listing import Listing
from tests.elastic.transfer.jobs import Job, join

PIECE_BYTES = 1 << 15


def frames(job):
    return [piece.frame() for piece in job.listing(PIECE_BYTES).pieces()]


def assert_same(kept, found):
    assert len(kept) > 3
    assert all(one is other for one, other in zip(kept, found, strict=True))


def test_frames_are_made_once_however_often_the_state_changes():
    job = Job("adam")
    job.train(1)
    kept = frames(job)
    encoded = [frame.pulled for frame in kept]
    job.train(3)
    assert_same(kept, frames(job))
    assert [frame.pulled for frame in frames(job)] == encoded


def replace_a_moment(job):
    state = job.optimizer.state[job.state.parameters[2]]
    state["exp_avg"] = state["exp_avg"].clone()


def move_a_parameter(job):
    job.state.parameters[2].data = job.state.parameters[2].data.clone()


def keep_one_tensor_more(job):
    job.optimizer.state[job.state.parameters[2]]["more"] = torch.zeros(())


@pytest.mark.parametrize("change", [replace_a_moment, move_a_parameter, keep_one_tensor_more])
def test_a_piece_whose_tensors_lie_elsewhere_is_listed_anew(change):
    job = Job("adam")
    job.train(1)
    kept = frames(job)
    change(job)
    found = frames(job)
    fresh = [piece.frame() for piece in Listing(job.state, job.layout, PIECE_BYTES).pieces()]
    assert [frame.pulled for frame in found] == [frame.pulled for frame in fresh]
    assert any(frame.pulled not in {one.pulled for one in kept} for frame in found)


def test_plain_values_are_never_taken_from_before():
    job = Job("momentum")
    job.train(1)
    job.optimizer.state[job.state.parameters[2]]["count"] = 1
    (before,) = [f for f in frames(job) if any(e[4] for e in f.header["parts"] if e[1] == 0)]
    job.optimizer.state[job.state.parameters[2]]["count"] = 2
    (after,) = [f for f in frames(job) if any(e[4] for e in f.header["parts"] if e[1] == 0)]
    values = [[entry[4] for entry in f.header["parts"] if entry[4]] for f in (before, after)]
    assert values == [[{"count": 1}], [{"count": 2}]]


def test_pieces_are_cut_anew_once_the_optimizer_has_made_its_state():
    job = Job("adam")
    before = len(frames(job))
    job.train(1)
    assert len(frames(job)) > before


def test_a_state_that_cannot_be_given_fails_no_training(spawn, answer):
    """Only the transfer of it does, and says why."""
    job = Job("momentum")
    job.train(1)
    state = job.optimizer.state[job.model.convolution.weight]  # which is channels_last
    state["momentum_buffer"] = state["momentum_buffer"].contiguous()
    job.listing(PIECE_BYTES).make()
    _, pipe = spawn(join, "momentum", 1, {}, {})
    donor = job.donor([answer(pipe)], piece_bytes=PIECE_BYTES)
    assert donor.join(20)
    assert "strides" in str(donor.failed)

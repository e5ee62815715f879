"""What is kept of a listed state, and when it is listed anew."""

import copy
import weakref

import pytest
import torch

from systems.elastic.transfer.listing import Listing
from systems.elastic.transfer.pieces import Limits
from tests.elastic.transfer.jobs import Job, join

PIECE_BYTES = 1 << 15


def frames(job):
    return [piece.frame() for piece in job.listing(PIECE_BYTES).pieces(in_place=True)]


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


def keep_it_under_another_name(job):
    state = job.optimizer.state[job.state.parameters[2]]
    state["average"] = state.pop("exp_avg_sq")  # the last one


@pytest.mark.parametrize("change", [replace_a_moment, move_a_parameter, keep_it_under_another_name])
def test_a_piece_whose_tensors_lie_elsewhere_is_listed_anew(change):
    job = Job("adam")
    job.train(1)
    kept = frames(job)
    change(job)
    found = frames(job)
    fresh = Listing(job.state, job.layout, Limits(PIECE_BYTES, 48)).pieces(in_place=True)
    assert [frame.pulled for frame in found] == [piece.frame().pulled for piece in fresh]
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
    listing = job.listing(PIECE_BYTES)
    listing.make()
    _, pipe = spawn(join, "momentum", 1, {}, {})
    donor = job.donor([answer(pipe)], piece_bytes=PIECE_BYTES)
    assert donor.join(20)
    assert "strides" in str(donor.failed)


def test_a_form_tells_the_order_of_elements_as_it_is_by_then():
    job = Job("sgd")
    form = job.listing().form()
    assert job.listing().form() is form
    job.train(2)
    assert job.listing().form() is form
    job.model.to(memory_format=torch.contiguous_format)
    told = job.listing().form().header["description"]
    assert told["parameters"] == job.state.describe()["parameters"]
    assert told["parameters"] != form.header["description"]["parameters"]


def test_a_listing_keeps_no_tensor_alive():
    """Else those that a checkpoint replaces would stay beside the new ones."""
    job = Job("momentum")
    job.train(1)
    job.listing().make()
    weight = job.model.wide.weight
    kept = weakref.ref(job.optimizer.state[weight]["momentum_buffer"])
    assert kept() is not None
    job.optimizer.load_state_dict(copy.deepcopy(job.optimizer.state_dict()))
    assert kept() is None


class Strange(torch.Tensor):
    """One that says nothing of where it lies."""

    def data_ptr(self):
        raise NotImplementedError


def test_whatever_cannot_be_listed_beforehand_disturbs_no_training():
    job = Job("sgd")
    job.state.parameters[1] = torch.zeros(3).as_subclass(Strange)
    with pytest.raises(NotImplementedError):
        job.listing().form()
    job.listing().make()

"""The choice of batch and learning rate: its estimates, its optimum, and who makes it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.contracts.training_order import AdaptiveBatch
from systems.runtime.worker.adaptive_batch import BatchAdapter

INITIAL = 32


def adapter(**changes):
    options = {
        "initial": INITIAL,
        "largest": 1_000,
        "target_samples": 10**9,
        "step_cost_samples": 32.0,
        "every": 10,
        "smoothing": 0.9,
    }
    return BatchAdapter(AdaptiveBatch(**(options | changes)))


def told(phi, workers=1, **changes):
    """One that has found this noise scale, samples."""
    found = adapter(**changes)
    found.adopt({"square": 1.0, "variance": phi / INITIAL, "weight": 1.0})
    found.enter(workers)
    return found


def test_the_noise_of_drawn_gradients_is_found():
    """Each sample's gradient is drawn around the mean, so that everything is known."""
    generator = torch.Generator().manual_seed(3)
    size, deviation, batch = 4_000, 0.5, 64
    mean = torch.full((size,), 0.05)
    found = adapter(smoothing=0.99)
    found.enter(1)
    for _ in range(200):
        noise = torch.randn(size, generator=generator) * deviation / math.sqrt(batch)
        parameter = torch.nn.Parameter(torch.zeros(size))
        parameter.grad = mean + noise
        found.observe([parameter], batch)
    phi = deviation**2 * size / float(mean @ mean)  # of one sample: variance over squared mean
    assert found.noise_samples == pytest.approx(phi, rel=0.05)


@given(
    phi=st.floats(1.0, 1e5),
    workers=st.integers(1, 16),
    cost=st.floats(1.0, 500.0),
)
def test_no_batch_has_much_more_goodput_than_the_chosen(phi, workers, cost):
    chosen = told(phi, workers, step_cost_samples=cost).batch(0, 0)

    def goodput(batch):
        seconds = cost + batch / workers
        return batch / seconds * (phi + INITIAL) / (phi + batch)

    least = max(INITIAL, workers)
    best = max(goodput(batch) for batch in range(least, 1_001))
    assert least <= chosen <= 1_000
    assert goodput(chosen) * 1.06 >= best  # 1.05 is what a change has to bring


@given(phi=st.floats(0.01, 1e6), batch=st.integers(INITIAL, 1_000))
def test_gain_and_efficiency_are_one_thing(phi, batch):
    gain = told(phi).rate_batch(batch) / INITIAL
    assert 1.0 <= gain <= batch / INITIAL * (1 + 1e-12)
    assert gain * INITIAL / batch == pytest.approx((phi + INITIAL) / (phi + batch))


def test_without_an_estimate_nothing_changes_and_with_noise_alone_the_rate_is_linear():
    fresh = adapter()
    fresh.enter(2)
    assert fresh.batch(0, 0) == INITIAL
    assert fresh.rate_batch(INITIAL) == INITIAL
    lost = adapter()
    lost.adopt({"square": -1.0, "variance": 2.0, "weight": 1.0})
    lost.enter(2)
    assert lost.batch(0, 0) == 1_000
    assert lost.rate_batch(1_000) == pytest.approx(1_000)


def test_a_batch_is_kept_between_choices_and_the_last_is_what_is_left():
    found = told(1_000.0, target_samples=500)
    large = found.batch(3, 0)
    assert large > INITIAL
    found.adopt({"square": 1.0, "variance": 0.0, "weight": 1.0})
    assert found.batch(4, 0) == large
    assert (found.batch(5, 480), found.is_done(480), found.is_done(500)) == (20, False, True)
    found.enter(4)
    assert found.batch(6, 498) == 4  # nobody goes without a sample


def test_steps_of_other_batches_and_other_workers_are_not_compared():
    found = adapter()
    found.enter(1)
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    found.observe([parameter], 32)
    found.observe([parameter], 64)
    assert found.noise_samples is None
    found.enter(2)
    found.observe([parameter], 64)
    assert found.noise_samples is None
    found.observe([parameter], 64)
    assert found.noise_samples == 0.0

"""EasyScale's equations 1a to 1e: numbers worked by hand, and perf = maxP / f_overload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems.schedulers.easyscale_plans.model import Device, evaluate


def test_a_perfect_match_wastes_nothing():
    # f = max(2/2, 1/1) = 1 s; capacity 2*2 + 1*1 = 5.
    one = evaluate((Device(2.0), Device(1.0)), (2, 1), (1, 1), (2, 1), 5)
    assert (one.waste, one.waste_percent, one.perf) == (0.0, 0.0, 5.0)


def test_waste_of_every_device_counts():
    # f = max(2/2, 2/1) = 2; capacity 6; 2*(2 - 2/2) + 1*(1 - 2/2) + (6 - 5)/2 = 2.5 of 5.
    one = evaluate((Device(2.0), Device(1.0)), (2, 1), (1, 1), (2, 2), 5)
    assert (one.waste, one.waste_percent, one.perf) == (2.5, 50.0, 2.5)
    # As printed, without N_i: 1 + 0 + 0.5 = 1.5, and perf 3.5 is not 5 / f.
    assert one.perf != 5.0 - ((2.0 - 1.0) + (1.0 - 1.0) + 0.5)


def test_resnet50_on_a_v100_and_a_t4():
    # The paper's 2.45 times: 6 and 2 of 8; f = 6/2.45 s, and the T4 idles 1 - 2/f.
    one = evaluate((Device(2.45), Device(1.0)), (1, 1), (1, 1), (6, 2), 8)
    assert one.waste == pytest.approx(1 - 2 * 2.45 / 6)
    assert one.perf == pytest.approx(8 * 2.45 / 6)


def test_several_executors():
    # MC = 2*2*0.75 = 3, MA = 2*1: f = 2/3 s; with one executor of two workers f = 2/2 s.
    device = Device(2.0, interference=(1.0, 0.75), max_executors=2)
    assert evaluate((device,), (1,), (2,), (1,), 2).perf == pytest.approx(3.0)
    assert evaluate((device,), (1,), (1,), (2,), 2).perf == pytest.approx(2.0)
    assert list(device.executors) == [1, 2]
    assert list(Device(2.0, (1.0, 0.9, 0.8), max_executors=2).executors) == [1, 2]


def test_more_executors_pay_where_they_leave_each_other_room():
    """Section 3.4.1, <1x2> against <2x1>: m * I above 1 for models that leave the device idle for
    most of the time, and not for those that saturate it."""

    def perf(interference, executors, threads):
        device = Device(2.0, interference=(1.0, interference), max_executors=2)
        return evaluate((device,), (1,), (executors,), (threads,), 2).perf

    assert perf(0.9, 2, 1) == pytest.approx(1.8 * perf(0.9, 1, 2))
    assert perf(0.5, 2, 1) == pytest.approx(perf(0.5, 1, 2))
    assert perf(0.4, 2, 1) < perf(0.4, 1, 2)


@pytest.mark.parametrize(
    ("nums", "threads"),
    [((1, 1), (2, 1)), ((0, 0), (5, 5)), ((1, 1), (5, 0)), ((0, 1), (0, 9))],
    ids=["they do not fit", "no devices", "an idle device", "a device that cannot run it"],
)
def test_what_is_no_configuration(nums, threads):
    assert evaluate((Device(2.0), Device(0.0)), nums, (1, 1), threads, 4) is None


@pytest.mark.parametrize("factors", [(), (1.0, 0.0), (1.5,)])
def test_impossible_devices_are_refused(factors):
    with pytest.raises(ValueError, match="interference is"):
        Device(1.0, factors)
    with pytest.raises(ValueError, match="capability is -1"):
        Device(-1.0)


capabilities = st.floats(0.01, 100.0)
counts = st.integers(0, 6)


@given(
    st.lists(st.tuples(capabilities, counts, st.integers(1, 3), st.integers(1, 9)), max_size=4),
    st.integers(1, 40),
)
def test_perf_is_max_p_over_the_overload(types, max_p):
    devices = tuple(Device(c, (1.0, 0.8, 0.6), 3) for c, *_ in types)
    nums = tuple(n for _, n, *_ in types)
    executors = tuple(m for *_, m, _ in types)
    threads = tuple(a for *_, a in types)
    one = evaluate(devices, nums, executors, threads, max_p)
    used = [i for i, n in enumerate(nums) if n]
    if sum(nums[i] * executors[i] * threads[i] for i in used) < max_p:
        assert one is None
        return
    factors = {1: 1.0, 2: 0.8, 3: 0.6}
    overload = max(
        executors[i] * threads[i] / (executors[i] * types[i][0] * factors[executors[i]])
        for i in used
    )
    assert one.perf == pytest.approx(max_p / overload)
    assert one.waste >= -1e-9 * one.perf
    assert 0 <= one.waste_percent + 1e-9 < 100 + 2e-9

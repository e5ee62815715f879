"""The state that a script keeps travels as JSON, and comes back with its types."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from systems.script.errors import ScriptError
from systems.script.plain_state import MAX_TENSOR_BYTES, decode, encode

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.integers() | st.text() | st.tuples(st.integers()), inner)
    ),
    max_leaves=10,
)


@given(PLAIN)
def test_a_state_comes_back_with_its_types(value):
    found = decode(json.loads(json.dumps(encode(value, "it"))))
    assert found == value
    assert repr(found) == repr(value)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_small_tensors_come_back_too(dtype):
    for shape in ((), (3, 2), (0, 4)):
        value = torch.ones(shape).to(dtype)
        found = decode(encode({"t": value}, "it"))["t"]
        assert torch.equal(found, value)
        assert found.dtype is dtype
    with pytest.raises(ScriptError, match="make it a buffer"):
        encode(torch.zeros(MAX_TENSOR_BYTES + 1, dtype=torch.uint8), "it")


def all_schedulers():
    """Every scheduler of torch, one instance each."""
    from torch.optim import lr_scheduler as torch_schedulers

    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    steps = torch_schedulers.StepLR(optimizer, 3)
    options = {
        "LambdaLR": {"lr_lambda": lambda epoch: 0.9**epoch},
        "MultiplicativeLR": {"lr_lambda": lambda epoch: 0.9},
        "StepLR": {"step_size": 2},
        "MultiStepLR": {"milestones": [1, 3, 3]},
        "ExponentialLR": {"gamma": 0.9},
        "CosineAnnealingLR": {"T_max": 5},
        "CyclicLR": {"base_lr": 0.1, "max_lr": 1.0},
        "CosineAnnealingWarmRestarts": {"T_0": 3},
        "OneCycleLR": {"max_lr": 1.0, "total_steps": 9},
        "SequentialLR": {"schedulers": [steps, steps], "milestones": [2]},
        "ChainedScheduler": {"schedulers": [steps]},
    }
    for name in torch_schedulers.__all__:
        kind = getattr(torch_schedulers, name)
        if name == "LRScheduler":
            continue
        if name == "ChainedScheduler":
            yield name, optimizer, kind(**options[name])
        else:
            yield name, optimizer, kind(optimizer, **options.get(name, {}))


def test_the_state_of_every_scheduler_of_torch_travels():
    names = []
    for (name, of_one, one), (_, of_other, other) in zip(
        all_schedulers(), all_schedulers(), strict=True
    ):
        names.append(name)
        arguments = (1.0,) if name == "ReduceLROnPlateau" else ()
        for _ in range(2):
            of_one.step()
            one.step(*arguments)
        other.load_state_dict(decode(encode(one.state_dict(), name)))
        for mine, theirs in zip(of_other.param_groups, of_one.param_groups, strict=True):
            mine.update({key: value for key, value in theirs.items() if key != "params"})
        for _ in range(3):
            for optimizer, scheduler in ((of_one, one), (of_other, other)):
                optimizer.step()
                scheduler.step(*arguments)
        assert of_one.param_groups[0]["lr"] == of_other.param_groups[0]["lr"], name
    assert {"MultiStepLR", "ReduceLROnPlateau", "OneCycleLR"} < set(names)

"""The scan that says which operators level D2 would make slow."""

from __future__ import annotations

import pytest

from harness.contracts.workload import WorkloadSpec
from harness.errors import UserError
from systems.virtual.scan import Operator, ScanError, find, main, report, scan

CONVOLUTION = Operator("convolution", 3, 0.010, 0.030, ("stem", "body.0", "body.1"))
PRODUCT = Operator("addmm", 1, 0.005, 0.006, ("head",))


def test_an_operator_that_the_vendor_tunes_is_named_with_its_modules_and_what_it_costs():
    text = report("tiny/some", [CONVOLUTION, PRODUCT], 8, 1)
    assert "15.0 ms of the CPU, and 36.0 ms with kernels" in text
    assert "2.40 times as long" in text
    assert "*convolution" in text
    assert "stem, body.0 and 1 more" in text
    assert "stays on slots of one type (backend.level=D1)" in text


def test_a_model_without_such_operators_may_use_all_slots():
    text = report("tiny/some", [PRODUCT], 8, 2)
    assert "2 threads" in text
    assert "backend.level=D2 lets the job use slots of all types" in text
    assert "*" not in text


def test_workloads_are_found_by_pool_and_name():
    assert find("tiny/resnet50").target == "workloads.vision.ResNet50"
    for wrong, fact in (("tiny/resnet5", "has no workload"), ("tin/bert", "no pool 'tin'")):
        with pytest.raises(UserError, match=fact):
            find(wrong)


def test_wrong_words_are_refused(capsys):
    assert main(["tiny/none"]) == 2
    assert "known: alexnet" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["tiny/bert", "--steps", "0"])
    assert end.value.code == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "tuned"), [("resnet18", True), pytest.param("ncf", False, marks=pytest.mark.soak)]
)
def test_a_real_step_is_watched(name, tuned):
    found = {op.name: op for op in scan(find(f"tiny/{name}"), batch=4, steps=1, num_threads=1)}
    assert any(op.is_tuned for op in found.values()) == tuned
    assert all(op.best_s > 0 or op.common_s > 0 for op in found.values())
    if tuned:
        assert "conv1" in found["convolution"].modules
        assert found["convolution"].calls == found["convolution_backward"].calls


@pytest.mark.long
def test_a_step_that_fails_is_told():
    spec = WorkloadSpec("tiny", "tests.backends.tiny_workload.Tiny", {"fail_build": True})
    with pytest.raises(ScanError, match="this workload was told to fail"):
        scan(spec, batch=4, steps=1, num_threads=1)

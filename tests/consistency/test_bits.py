"""The code does what ``docs/reference/bits.md`` and its test vectors say of a job's bits."""

import hashlib
import json
import re
import zlib
from math import ceil, isclose
from types import SimpleNamespace

import numpy
import pytest
import torch

from harness.machine.gloo_ring import ring_chunks
from harness.results.store import load_run, run_paths
from systems.runtime.tensors.state import digest, optimizer_state
from tests.consistency.run_bits import (
    PAGE,
    RUNS,
    SHOWN,
    VECTORS,
    derived,
    example,
    jobs_of_trace,
    made_with,
    trained,
)

DEPENDENT = ("samples", "digests_before")
"""What floating-point kernels make; it holds on the machine of the vectors alone."""
SAME_LOSS = 1e-3
"""Relative: losses of three steps elsewhere. Other processors round otherwise, by some 1e-6."""


@pytest.fixture(scope="module")
def vectors():
    return json.loads(VECTORS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def is_same_machine(vectors):
    return vectors["made_with"] == made_with()


@pytest.mark.parametrize("job_id", jobs_of_trace())
def test_what_a_job_follows_from(vectors, is_same_machine, job_id):
    then = {name: value for name, value in vectors["jobs"][job_id].items() if name != "runs"}
    now = json.loads(json.dumps(derived(job_id)))
    for name in DEPENDENT if not is_same_machine else ():
        del then[name], now[name]
    assert now == then


def test_the_page_shows_the_vectors(vectors):
    assert f"```text\n{example(vectors)}\n```" in PAGE.read_text(encoding="utf-8")


def test_the_page_names_every_key_and_job(vectors):
    page = PAGE.read_text(encoding="utf-8")
    keys = {key for job in vectors["jobs"].values() for key in job} - {"runs"}
    keys |= {f"runs.{backend}" for backend in RUNS} | set(vectors["jobs"])
    assert {key for key in keys if f"`{key}`" not in page} == set()


def test_the_functions_on_the_page_are_those_of_the_code(vectors):
    """What the page gives as Python is run: seeds, digests, the permutation, chunks of the ring."""
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = {"hashlib": hashlib, "json": json, "torch": torch, "zlib": zlib, "numpy": numpy}
    seeds, _, order, chunks, digests = code
    exec(seeds + digests, names)
    for job in vectors["jobs"].values():
        for step, of_step in enumerate(job["step_seeds"]):
            own = [names["step_seed"](job["job_seed"], step, r) for r in range(len(of_step))]
            assert own == of_step
        for epoch, ids in job["permutations"].items():
            workload = SimpleNamespace(num_samples=job["num_samples"])
            here = {**names, "job_seed": job["job_seed"], "e": int(epoch), "w": workload}
            exec(order, here)
            assert here["permutation"][: len(ids)].tolist() == ids
    sizes = [(3, 8, 3), (3, 8, 5), (262_145, 4, 3), (786_433, 4, 7), (1, 4, 2)]
    for numel, width, workers in sizes:
        here = {"numel": numel, "width": width, "N": workers, "ceil": ceil}
        exec(chunks, here)
        found = ring_chunks(numel, width, workers)
        for chunk in found:
            index, rest = divmod(chunk.start, here["per_chunk"])
            assert rest == 0
            assert chunk.stop == min(numel, chunk.start + here["per_chunk"])
            assert chunk.order == tuple((index - 1 - hop) % workers for hop in range(workers))
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 3)).square().sum().backward()
    optimizer.step()
    state = optimizer_state(optimizer)
    for tensors, values in [
        (dict(model.named_parameters()), None),
        (dict(model.named_buffers()), None),
        (state.tensors, [state.values, state.groups]),
    ]:
        assert names["digest"](tensors, values) == digest(tensors, values)


def test_losses_are_summed_as_the_page_says(vectors):
    """A job that draws nothing has the same workers' losses in both runs."""
    job = vectors["jobs"][SHOWN]
    batch, count = job["global_batch"], job["num_workers"]
    sizes = [sum(stop - start for _, start, stop in part) for part in job["ranges"][0]]
    static, virtual = job["runs"]["static"], job["runs"]["virtual_thread"]
    assert static["digests"] == virtual["digests"]
    for step, losses in enumerate(virtual["losses"]):
        pairs = list(zip(sizes, map(float.fromhex, losses), strict=True))
        mean = sum(size * loss for size, loss in pairs) / batch
        assert isclose(mean, float.fromhex(virtual["loss"][step]), rel_tol=1e-15)
        terms = [loss * (size / batch) for size, loss in pairs]
        mean = terms[0]
        for rank in range(count - 1, 0, -1):
            mean += terms[rank]
        assert mean.hex() == static["loss"][step]


@pytest.mark.soak  # the long test of the script by stock torch makes these runs as well
@pytest.mark.parametrize("backend", RUNS)
def test_live_runs_record_the_vectors(vectors, is_same_machine, backend, tmp_path):
    """On another machine than theirs bits are held to stock training there."""
    check = [] if is_same_machine else ["engine.check_reference=true"]
    found = trained(tmp_path, backend, *check)
    assert set(found) == set(vectors["jobs"])
    for job_id, job in vectors["jobs"].items():
        now, then = found[job_id], job["runs"][backend]
        assert now.pop("ranges") == job["ranges"]
        if is_same_machine:
            assert now == then
        else:
            pairs = zip(now["loss"], then["loss"], strict=True)
            assert all(isclose(*map(float.fromhex, pair), rel_tol=SAME_LOSS) for pair in pairs), (
                job_id
            )
    if not is_same_machine:
        (path,) = run_paths(tmp_path)
        assert load_run(path).metrics["bitwise_equal"] == 1


def test_the_page_has_the_workers_and_batches_of_the_trace():
    page = PAGE.read_text(encoding="utf-8")
    for job_id, row in jobs_of_trace().items():
        assert re.search(rf"`{job_id}` \|.*\| {row['slots']} \| {row['batch']} \|", page), job_id

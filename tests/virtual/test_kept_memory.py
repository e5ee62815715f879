"""What is kept from turn to turn lies where it does not cut up malloc's heap."""

import psutil
import torch

from systems.virtual.contexts import StreamContexts
from systems.virtual.mapped_memory import ALIGNMENT_BYTES, mapped_tensors

NUM_WORKERS = 3
MAPPED_BYTES = 64_000_000


def test_mapped_tensors_are_aligned_zero_and_apart():
    kinds = [((3, 5), torch.float32), ((0, 7), torch.float64), ((9,), torch.bfloat16)]
    tensors = mapped_tensors(kinds)
    assert [(tuple(one.shape), one.dtype) for one in tensors] == kinds
    assert not any(one.count_nonzero() for one in tensors)
    assert not any(one.data_ptr() % ALIGNMENT_BYTES for one in tensors)
    tensors[0].fill_(1.0)
    assert not tensors[2].count_nonzero()


def test_a_mapping_goes_with_its_last_tensor():
    process = psutil.Process()
    before = process.memory_info().rss
    tensors = mapped_tensors([((MAPPED_BYTES // 8,), torch.float32)] * 2)
    for one in tensors:
        one.fill_(1.0)
    del tensors[1], one
    assert process.memory_info().rss > before + 0.9 * MAPPED_BYTES
    tensors.clear()
    assert process.memory_info().rss < before + 0.1 * MAPPED_BYTES


def test_nothing_can_be_mapped_to_nothing():
    (empty,) = mapped_tensors([((0, 4), torch.float32)])
    assert empty.shape == (0, 4)


def test_random_states_go_back_and_forth_between_two_places():
    """And a step that does not count leaves those before it as they were."""
    states = torch.get_rng_state()
    try:
        contexts = StreamContexts(7, NUM_WORKERS, torch.device("cpu"))
        contexts.assign(range(NUM_WORKERS))
        places, drawn = set(), []
        for step, counts in enumerate((True, False, True, False, True)):
            drawn.append([])
            for worker in range(NUM_WORKERS):
                contexts.enter(worker, step)
                drawn[-1].append(float(torch.rand(())))
                contexts.leave(worker)
                places.add(contexts._next[worker].torch_cpu.data_ptr())
            (contexts.commit if counts else contexts.undo)()
        assert drawn[1] == drawn[2]
        assert drawn[3] == drawn[4]
        assert drawn[0] != drawn[1] != drawn[3]
        assert len(places) <= 2 * NUM_WORKERS
    finally:
        torch.set_rng_state(states)

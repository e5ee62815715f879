"""A training as torchft's rule has it, in one process and without torchft."""

import torch

from systems.runtime.data.step_seed import step_seed
from systems.runtime.wire.data_order import share
from systems.runtime.worker.trainer import seed_all
from tests.backends.tiny_workload import Tiny
from tests.backends.world import expected_ids

NUM_SAMPLES = 97
CPU = torch.device("cpu")


def losses(steps, seed=7):
    """Mean losses of steps, each given by its number of replicas and its global batch.

    All replicas have the same parameters. Each computes its share of the batch, and all take the
    mean of their gradients, weighted by their shares. Sums of two replicas do not depend on the
    order; more than two would.
    """
    workload = Tiny()
    model = workload.build_model(seed)
    optimizer = workload.build_optimizer(model)
    parameters = list(model.parameters())
    ids, position, found = expected_ids(sum(batch for _, batch in steps), NUM_SAMPLES, seed), 0, []
    for step, (num_replicas, batch) in enumerate(steps):
        sums, loss = [torch.zeros_like(p) for p in parameters], 0.0
        for rank in range(num_replicas):
            start, stop = share(batch, num_replicas, rank)
            seed_all(step_seed(seed, step, rank), CPU)
            optimizer.zero_grad()
            own = workload.loss(model, workload.samples(ids[position + start : position + stop]))
            weight = (stop - start) * num_replicas / batch
            (own if weight == 1.0 else own * weight).backward()
            loss += own.item() * ((stop - start) / batch)
            for total, parameter in zip(sums, parameters, strict=True):
                total += parameter.grad
        for total, parameter in zip(sums, parameters, strict=True):
            parameter.grad = total / num_replicas
        workload.update(optimizer, batch, step)
        position += batch
        found.append(loss)
    return found

"""Plain data-parallel training, as one would write it by hand: the reference.

Imports nothing of the project but the tiny workload. One process per rank:
RANK WORLD STORE_FILE OUTPUT STEPS BATCH SEED OPTIMIZER.
"""

import hashlib
import json
import random
import sys
import zlib

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.backends.tiny_workload import Tiny


def digest(tensors, values=None):
    state = hashlib.blake2b(digest_size=32)
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        state.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    if values is not None:
        state.update(json.dumps(values, sort_keys=True).encode())
    return state.hexdigest()


def main():
    rank, world = int(sys.argv[1]), int(sys.argv[2])
    store, output = sys.argv[3:5]
    steps, batch, seed = map(int, sys.argv[5:8])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    words = dist.new_group(backend="gloo")
    workload = Tiny(optimizer=sys.argv[8])
    model = workload.build_model(seed)
    optimizer = workload.build_optimizer(model)
    parallel = DistributedDataParallel(model)
    count = workload.num_samples
    sequence = np.concatenate(
        [
            np.random.default_rng([seed, zlib.crc32(b"data order"), epoch]).permutation(count)
            for epoch in range(steps * batch // count + 1)
        ]
    )
    losses = []
    for step in range(steps):
        mine = np.array_split(sequence[step * batch : (step + 1) * batch], world)[rank]
        name = f"step/{seed}/{step}/{rank}".encode()
        number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1
        torch.manual_seed(number)
        np.random.seed(number & 0xFFFFFFFF)
        random.seed(number)
        optimizer.zero_grad()
        loss = workload.loss(parallel, workload.samples(mine.tolist()))
        (loss * (len(mine) * world / batch)).backward()
        workload.update(optimizer, batch, step)
        total = torch.tensor([0, 0, loss.item() * (len(mine) / batch)], dtype=torch.float64)
        if world > 1:
            dist.all_reduce(total, group=words)
        losses.append(total[2].item().hex())
    if rank == 0:
        tensors, values = {}, {}
        for index, parameter in enumerate(model.parameters()):
            for key, value in optimizer.state[parameter].items():
                if isinstance(value, torch.Tensor):
                    tensors[f"{index}/{key}"] = value
                else:
                    values.setdefault(str(index), {})[key] = value
        groups = [
            {key: value for key, value in group.items() if key != "params"}
            for group in optimizer.param_groups
        ]
        with open(output, "w") as file:
            json.dump(
                {
                    "digest_parameters": digest(dict(model.named_parameters())),
                    "digest_buffers": digest(dict(model.named_buffers())),
                    "digest_optimizer": digest(tensors, [values, groups]),
                    "losses": losses,
                },
                file,
            )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

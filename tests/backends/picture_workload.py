"""A workload whose samples have everything that may go wrong on the way from another process."""

import torch

from tests.backends.tiny_workload import Tiny


class Pictures(Tiny):
    """Pictures in channels-last layout, flags, short floats, and something without elements.

    Only its samples are ever asked for.
    """

    name = "pictures"
    size = "tiny"

    def __init__(self, num_samples=50, fail_build=False, fail_on=None):
        if fail_build:
            raise ValueError("this workload was told to fail")
        self.num_samples = num_samples
        self._fail_on = fail_on
        rng = torch.Generator().manual_seed(3)
        pictures = torch.randn(num_samples, 3, 4, 4, generator=rng)
        self._pictures = pictures.to(memory_format=torch.channels_last)

    def samples(self, ids, epochs=None):
        if self._fail_on in ids:
            raise LookupError(f"no sample {self._fail_on}")
        ids = torch.as_tensor(ids)
        return {
            "picture": self._pictures[ids].to(memory_format=torch.channels_last),
            "transposed": self._pictures[ids][:, 0].transpose(1, 2),
            "shared": ids[:, None].expand(-1, 3),
            "flag": ids % 2 == 0,
            "half": self._pictures[ids].mean(dim=(1, 2, 3)).to(torch.bfloat16),
            "epoch": torch.as_tensor([0] * len(ids) if epochs is None else epochs),
            "nothing": torch.empty(len(ids), 0),
        }

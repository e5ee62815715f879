"""The tiny workload, in workers whose gradients lie in other buckets."""

from functools import partial
from pathlib import Path

from torch.nn.parallel import DistributedDataParallel

from systems.runtime.reduction import ordered as reduction
from tests.backends.tiny_workload import Tiny


class OtherBuckets(Tiny):
    """Processes that begin once the file ``marker`` is there have more and smaller buckets."""

    def __init__(self, marker, **options):
        if Path(marker).exists():
            reduction.DistributedDataParallel = partial(DistributedDataParallel, bucket_cap_mb=1e-3)
        super().__init__(**options)

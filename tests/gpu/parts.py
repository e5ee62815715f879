"""The parts of the GPU set: what can be said on one CUDA device that several slots share.

Whether state arrives and bits stay, and what changes cost. Never how fast more slots are: they
take turns on the same device.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Part:
    """Something that is measured in a process of its own."""

    name: str
    call: str
    """``module:function``; called with the device, a folder and the options, returns numbers."""
    options: dict = field(default_factory=dict)


def _bits(name, **options):
    return Part(f"bits/{name}", "tests.gpu.jobs:same_bits", options)


PARTS = (
    *(_bits(name, transfer=name) for name in ("background", "peer", "broadcast")),
    _bits("checkpoint", reconfigure="checkpoint"),
    Part("bits/death", "tests.gpu.jobs:same_bits_after_a_death"),
    *(_bits(model, model=model) for model in ("resnet50", "vgg16", "bert", "transformer")),
    *(
        Part(f"changes/{name}", "tests.gpu.jobs:changes", {"backend": name})
        for name in ("stop_resume", "warm_restart", "stop_free", "virtual_thread")
    ),
    *(
        Part(f"state/{name}", "tests.gpu.jobs:state_moved", {"backend": name})
        for name in ("stop_resume", "warm_restart")
    ),
    *(
        Part(
            f"state/{name}",
            "tests.gpu.jobs:state_moved",
            {"backend": "stop_free", "transfer": name},
        )
        for name in ("background", "peer", "broadcast")
    ),
    *(
        Part(f"start/{warmth}", "tests.gpu.jobs:starts", {"warmth": warmth})
        for warmth in ("cold", "preimported")
    ),
    *(
        Part(f"turns/{model}", "tests.gpu.one_slot:turns", {"model": model})
        for model in ("resnet50", "vgg16", "bert", "transformer")
    ),
    *(
        Part(
            f"turns/{model}-paper",
            "tests.gpu.one_slot:turns",
            {"model": model, "pool": "paper", "steps": 10},
        )
        for model in ("resnet50", "vgg16", "bert", "transformer")
    ),
    *(
        Part(f"packing/{model}", "tests.gpu.packing:packing", {"model": model})
        for model in ("resnet50", "shufflenetv2")
    ),
    *(
        Part(f"memory/{model}", "tests.gpu.one_slot:memory", {"model": model})
        for model in ("resnet50", "vgg16", "bert", "transformer")
    ),
)
"""``bits``: virtual workers against stock DistributedDataParallel, whatever became of their slots;
``changes``: every backend changes slots; ``state``: how long a change takes by the bytes of state;
``start``: from the request to the first step; ``turns``: a step of virtual workers that take turns,
over one that accumulates, also with models as large as in their papers; ``packing``: virtual
workers beside as many processes; ``memory``: of each virtual worker."""

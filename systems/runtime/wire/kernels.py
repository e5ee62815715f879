"""Kernels that the operators of a slot's workers may use. The module does not import torch.

Libraries choose kernels by the CPU's abilities, and other kernels give sums other last bits. So a
CPU slot with its own instruction set really is a device of another type. Environment variables, set
before a library is imported, keep its workers from newer kernels.

Source of the common kernels: EasyScale (Li et al., SC '23), section 3.3, level D2: kernels that do
not depend on the type of the device, and no kernels that the vendor tunes for each type. Differs:
on CPUs. There MKL promises the same bits on all CPUs for a named code branch (``MKL_CBWR``) and a
number of threads. Torch's own kernels follow from ``ATEN_CPU_CAPABILITY``. oneDNN and NNPACK, which
also depend on cache sizes, are disabled (``determinism.use_common_kernels``), as the paper disables
cuDNN's convolutions.

On CPUs of AMD, MKL keeps its own choice if it is told an instruction set. There a slot's type
changes only the other kernels. Equal bits of MKL on AMD and Intel were not checked.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.cluster import Cluster, Slot, is_cpu
from harness.contracts.process import Warmth
from harness.machine.instruction_sets import InstructionSet
from systems.runtime.wire.options import RuntimeOptions

NEWEST_COMMON = InstructionSet.AVX2
"""Instruction set of common kernels, if no slot of the cluster has an older one. Every x86 CPU used
for training has it, so bits are the same on other clusters too."""


@dataclass(frozen=True, slots=True)
class _Names:
    """Libraries' names for an instruction set."""

    aten: str
    onednn: str
    mkl: str
    mkl_branch: str


_NAMES = {
    InstructionSet.SSE41: _Names("default", "SSE41", "SSE4_2", "COMPATIBLE"),
    InstructionSet.AVX2: _Names("avx2", "AVX2", "AVX2", "AVX2"),
    InstructionSet.AVX512: _Names("avx512", "AVX512_CORE", "AVX512", "AVX512"),
}


@dataclass(frozen=True, slots=True)
class Kernels:
    """Settings that the last bits of a worker's operators depend on, besides the machine."""

    num_threads: int
    """Number of threads for the operators of one worker."""
    instruction_set: InstructionSet | None = None
    """Newest instruction set that may be used; None: whatever the machine has."""
    are_common: bool = False
    """True if the kernels are the same on all types of slots."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that must be set before a library is imported."""
        if self.instruction_set is None:
            return {}
        names = _NAMES[self.instruction_set]
        env = {
            "ATEN_CPU_CAPABILITY": names.aten,
            "ONEDNN_MAX_CPU_ISA": names.onednn,
            "MKL_ENABLE_INSTRUCTIONS": names.mkl,
        }
        return env | {"MKL_CBWR": names.mkl_branch} if self.are_common else env


def kernels_of(slot: Slot) -> Kernels:
    """Return the best kernels of a slot, with one thread for each of its cores."""
    return Kernels(max(1, len(slot.cores)), slot.instruction_set)


def common_kernels(cluster: Cluster) -> Kernels:
    """Return the kernels that all slots have: the fewest threads, the oldest instruction set."""
    sets = [slot.instruction_set for slot in cluster.slots if slot.instruction_set is not None]
    oldest = min([NEWEST_COMMON, *sets], key=lambda name: name.age)
    threads = min(kernels_of(slot).num_threads for slot in cluster.slots)
    return Kernels(threads, oldest, are_common=True)


def kernels_on(slot: Slot, cluster: Cluster, *, common: bool) -> Kernels:
    """Return the kernels of a slot's workers: common ones, or the slot's best."""
    return common_kernels(cluster) if common else kernels_of(slot)


def slot_types(cluster: Cluster, options: RuntimeOptions) -> list[str]:
    """Return the types of slots whose last bits may differ, each as a name for people.

    With common kernels there is only one type.
    """
    if options.common_kernels:
        return ["all"]
    found: dict[object, str] = {}
    for slot in cluster.slots:
        kernels = kernels_of(slot)
        own_kind = options.device != "cpu" and not is_cpu(slot.device_type)
        threads = f"{kernels.num_threads} thread{'s' if kernels.num_threads > 1 else ''}"
        words = [slot.device_type, *([kernels.instruction_set] if kernels.instruction_set else [])]
        kind = kernels, slot.device_type if own_kind else None
        found.setdefault(kind, f"{' with '.join(words)} and {threads}")
    return list(found.values())


def warmth_problems(warmth: Warmth, cluster: Cluster, *, common: bool) -> list[str]:
    """Return why workers may not import a library before they know their kernels; empty if they
    may."""
    if warmth is Warmth.COLD:
        return []
    why = None
    if common:
        why = "level asks for common kernels (D2)"
    elif any(slot.instruction_set is not None for slot in cluster.slots):
        why = f"slots of cluster {cluster.name!r} have instruction sets of their own"
    if why is None:
        return []
    return [
        f"start is {warmth.value!r}, but {why}, which has to be known before a library is imported;"
        " set backend.start=cold"
    ]

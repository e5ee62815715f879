"""Instruction sets of CPUs, by which slots of one machine can be devices of different types.

A worker on a slot with an instruction set uses no newer one, whatever the CPU has. So its kernels
are those that an older CPU would choose. Torch-free.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


class InstructionSet(StrEnum):
    """Instruction sets for which libraries have separate kernels; each includes those before it."""

    SSE41 = "sse41"
    AVX2 = "avx2"
    AVX512 = "avx512"

    @property
    def age(self) -> int:
        """Position in the order of the sets, the oldest first."""
        return list(InstructionSet).index(self)


_FLAGS = {
    InstructionSet.SSE41: {"sse4_1", "sse4_2"},
    InstructionSet.AVX2: {"avx2", "fma"},
    InstructionSet.AVX512: {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
}
"""CPU flags, as Linux names them, that the libraries' kernels need."""


def sets_of_this_machine(cpuinfo: Path = _CPUINFO) -> frozenset[InstructionSet]:
    """Return the sets that the CPU has; an empty tuple on other CPUs than x86, or without Linux's
    list of flags."""
    flags = _flags(cpuinfo)
    return frozenset(name for name, needed in _FLAGS.items() if needed <= flags)


@cache
def _flags(cpuinfo: Path) -> frozenset[str]:
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())

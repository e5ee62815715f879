"""What a worker's process does so that two runs give the same bits.

Source: EasyScale (Li et al., SC '23), section 3.3: level D0 takes deterministic kernels and no
search for the fastest, D2 kernels that do not depend on the type of the device.
"""

from __future__ import annotations

import os

import torch


def make_deterministic(device: torch.device, num_threads: int, *, is_strict: bool = False) -> None:
    """Let two runs give the same bits, where one thread of a CPU would not do so anyway.

    On CUDA none of this has been tried. Kernels there are chosen without a search for the fastest,
    and TF32 is off, since operators that use it round otherwise than those that do not.

    Args:
        device: that the worker trains on.
        num_threads: of its operators.
        is_strict: whether an operator that has no deterministic kernel is an error, which names it;
            else it warns.
    """
    if device.type == "cuda" or num_threads > 1:
        torch.use_deterministic_algorithms(True, warn_only=not is_strict)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False


def use_common_kernels(device: torch.device) -> None:
    """From now on, no kernels that a library chooses by the type of the device.

    On a CPU ``kernels`` has named the instruction set before; here oneDNN and NNPACK are left out.
    On CUDA nothing of this has been tried: cuDNN is left out, and so are sums of reduced precision
    and fused attention. What cuBLAS chooses by the device cannot be forbidden there.
    """
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    torch.backends.nnpack.set_flags(False)  # type: ignore[no-untyped-call]
    if device.type == "cuda":
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.enabled = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)


def check_kernels() -> None:
    """Whether torch keeps to the instruction set that the environment names.

    Raises:
        RuntimeError: it was imported before that was set, or does not know it.
    """
    wanted = os.environ.get("ATEN_CPU_CAPABILITY")
    found = torch.backends.cpu.get_cpu_capability()
    if wanted is not None and found.lower().replace("no avx", "default") != wanted.lower():
        raise RuntimeError(
            f"torch uses kernels for {found}, but this slot's workers may only use {wanted}"
            " (ATEN_CPU_CAPABILITY); start workers cold, on a CPU that has that instruction set"
        )

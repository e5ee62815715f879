"""Settings of a worker's process that make two runs give the same bits.

Source: EasyScale (Li et al., SC '23), section 3.3: level D0 takes deterministic kernels and no
search for the fastest. D2 takes kernels that are the same on all types of devices.
"""

from __future__ import annotations

import os

import torch


def make_deterministic(device: torch.device, num_threads: int, *, is_strict: bool = False) -> None:
    """Make two runs give the same bits on CUDA, and on a CPU with several threads.

    One CPU thread gives the same bits anyway. On CUDA this was checked on one NVIDIA H200 only
    (``docs/how-to/cuda.md``). There kernels are chosen without a search for the fastest. TF32 is
    off, since operators that use it round differently from those that do not.

    Args:
        device: device that the worker trains on.
        num_threads: number of threads of its operators.
        is_strict: if true, an operator without a deterministic kernel is an error that names it;
            otherwise it warns.
    """
    if device.type == "cuda" or num_threads > 1:
        torch.use_deterministic_algorithms(True, warn_only=not is_strict)
        # Filling costs time, and only helps programs that read memory before they write it (torch's
        # documentation).
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False


def use_common_kernels(device: torch.device) -> None:
    """Use no kernels that a library chooses by the type of the device, from now on.

    On a CPU ``kernels`` has set the instruction set before; here oneDNN and NNPACK are disabled. On
    CUDA nothing of this has been tried. There cuDNN is disabled, and so are sums of reduced
    precision and fused attention. What cuBLAS chooses by the device cannot be disabled.
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
    """Check that torch uses the instruction set that the environment names.

    Raises:
        RuntimeError: torch was imported before the variable was set, or does not know its value.
    """
    wanted = os.environ.get("ATEN_CPU_CAPABILITY")
    found = torch.backends.cpu.get_cpu_capability()
    if wanted is not None and found.lower().replace("no avx", "default") != wanted.lower():
        raise RuntimeError(
            f"torch uses kernels for {found}, but this slot's workers may only use {wanted}"
            " (ATEN_CPU_CAPABILITY); start workers cold, on a CPU that has that instruction set"
        )

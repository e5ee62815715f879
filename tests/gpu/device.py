"""What a part was measured on."""

import platform
import shutil
import subprocess

import torch

from harness.machine.manifest import hardware


def describe(device, folder):
    """Device, driver and libraries; on a CPU those that there are."""
    found = {"python": platform.python_version(), "torch": torch.__version__}
    if device == "cpu":
        return {"device": hardware()["cpu"], "num_devices": 0, **found}
    if not torch.cuda.is_available():
        raise RuntimeError(
            f"torch {torch.__version__} sees no CUDA device, though the driver shows one; install"
            " a build of torch for CUDA that this driver can run"
        )
    return {
        "device": torch.cuda.get_device_name(0),
        "num_devices": torch.cuda.device_count(),
        "device_memory_bytes": torch.cuda.get_device_properties(0).total_memory,
        "driver": driver_version(),
        "cuda": torch.version.cuda,
        **found,
    }


def driver_version():
    """As nvidia-smi says it; None where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    words = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.split()
    return lines[0] if done.returncode == 0 and lines else None

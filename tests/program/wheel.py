"""The wheel of this checkout, and an environment in which it alone is installed."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("configs", "harness", "reports", "systems", "workloads")
ABOUT = ("pyproject.toml", "README.md", "LICENSE", "DATA_LICENSES.md", "licenses")

LISTENER = """\
import os, sys

def _hear(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str):
        path = os.path.abspath(arguments[0])
        if path.startswith(CHECKOUT + os.sep) and not path.startswith(ENVIRONMENT + os.sep):
            with os.fdopen(os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a") as file:
                file.write(f"{event} {path}\\n")

sys.addaudithook(_hear)
"""


def sources():
    """Files of the packages, in git or new, as paths from the root."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *PACKAGES]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


def build(folder):
    """Build the wheel from a copy of the sources, without a network; return its path.

    Of the checkout itself, ``build/`` may hold files that are there no more.
    """
    copy = folder / "sources"
    for name in sources():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    for name in ABOUT:
        one = ROOT / name
        (shutil.copytree if one.is_dir() else shutil.copy)(one, copy / name)
    words = ["wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(copy)]
    _pip(*words)
    (path,) = folder.glob("*.whl")
    return path


def install(wheel, folder):
    """Install a wheel alone into a new environment; return its programs and a log.

    Libraries come from this environment, whose editable Elastrace is left out: only the folder is
    added, and none of its ``.pth`` files. The log gets a line for each file or folder of the
    checkout that any process of the new environment opens.
    """
    venv.create(folder)
    python = folder / "bin" / "python"
    _pip("--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel))
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    log = folder / "opened.txt"
    names = {"CHECKOUT": str(ROOT), "ENVIRONMENT": sys.prefix, "LOG": str(log)}
    head = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    (packages / "sitecustomize.py").write_text(head + LISTENER)
    return folder / "bin", log


def call(programs, folder, *words, timeout_s=1500):
    """Give a command of the environment in a folder."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [programs / words[0], *words[1:]], cwd=folder, env=kept, capture_output=True, text=True,
        timeout=timeout_s,
    )  # fmt: skip


def _pip(*words):
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True)

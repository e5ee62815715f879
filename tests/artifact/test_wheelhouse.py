"""Installing without a network: what make would run."""

import shutil
import subprocess

import pytest

from tests.artifact.shown import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def would_run(*words):
    """The commands of a target as if nothing had been made; none of them is run."""
    done = subprocess.run(
        ["make", "-n", "-B", *words], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("\\\n", " ").splitlines()


def test_from_a_wheelhouse_pip_looks_nowhere_else():
    installs = [line for line in would_run("env", "WHEELHOUSE=wheels") if " pip install " in line]
    assert len(installs) == 2
    for line in installs:
        assert "--isolated --no-index --find-links wheels" in line


def test_without_one_pip_asks_its_index():
    installs = [line for line in would_run("env") if " pip install " in line]
    assert len(installs) == 2
    assert not [line for line in installs if "--no-index" in line or "--find-links" in line]


def test_the_wheelhouse_is_filled_with_what_the_lock_names_and_git_ignores_it():
    (line,) = [line for line in would_run("wheelhouse") if " pip wheel " in line]
    words = line.split()
    assert words[words.index("-r") + 1] == "requirements.lock"
    folder = words[words.index("-w") + 1]
    assert f"/{folder}/" in (ROOT / ".gitignore").read_text().splitlines()
    assert not [text for text in would_run("wheelhouse") if " pip install " in text]

"""The program ``elastrace``: its words, its answers, and what it leaves unloaded."""

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from harness import command_names
from harness.command_names import commands, spelt
from tests.test_interrupts import SWALLOWS, outcome

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("elastrace")


def call(*words, folder=None, **how):
    return subprocess.run(
        [PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=300, **how
    )


def test_version_is_the_installed_one():
    found = version("elastrace")
    assert call("--version").stdout == f"elastrace {found}\n"
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {found}\n" in citation
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{found}"\n' in project


def test_help_names_every_command_and_loads_no_library():
    code = (
        "import sys; sys.argv = ['/bin/elastrace', '--help'];"
        "import atexit; from harness.program.main import main;"
        "atexit.register(lambda: print(sorted({'torch', 'mlflow', 'numpy', 'hydra', 'pandas'}"
        " & set(sys.modules)), file=sys.stderr)); main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert all(f"\n  {name} " in done.stdout for name in commands())
    assert done.stderr == "[]\n"


def test_no_word_gives_the_help():
    assert call().stdout == call("-h").stdout


@pytest.mark.parametrize("words", [("--help",), ("run", "--help")])
def test_help_into_a_reader_that_stops_is_quiet(words):
    command = f"set -o pipefail; {PROGRAM} {' '.join(words)} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert len(done.stdout.splitlines()) == 1


def test_an_unknown_command_is_told_with_the_nearest():
    done = call("stduy")
    assert done.returncode == 2
    assert "elastrace stduy: unknown command; did you mean 'study'?" in done.stderr


def helped(monkeypatch, capsys, name, *words):
    """Return the help text of a command, called in this process."""
    monkeypatch.setattr(sys, "argv", [str(PROGRAM), name, *words, "--help"])
    command = commands()[name]
    try:
        code = command.load()(command.words([*words, "--help"]))
    except SystemExit as end:
        code = end.code
    said = capsys.readouterr()
    assert (code, said.err) == (0, "")
    assert "python -m" not in said.out
    return said.out


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help_that_names_itself(monkeypatch, capsys, name):
    text = helped(monkeypatch, capsys, name)
    starts = {"run": "  elastrace run", "sweep": "  elastrace run", "study": "  elastrace study"}
    assert starts.get(name, f"Usage: elastrace {name}") in text


@pytest.mark.parametrize(
    ("name", "part"), [(name, part) for name, each in commands().items() for part in each.parts]
)
def test_every_part_of_a_command_has_help(monkeypatch, capsys, name, part):
    assert f"Usage: elastrace {name}" in helped(monkeypatch, capsys, name, part)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("run", ["scheduler=fifo"], ["scheduler=fifo"]),
        ("sweep", ["seed=0,1"], ["-m", "seed=0,1"]),
        ("study", ["main", "dry=true"], ["study=main", "dry=true"]),
        ("study", ["study=main"], ["study=main"]),
        ("study", ["mine/own.yaml"], ["study=mine/own.yaml"]),
        ("report", [], []),
        ("report", ["main", "--formats", "svg"], ["study=main", "--formats", "svg"]),
        ("report", ["--results", "a"], ["--results", "a"]),
        ("ui", ["--port", "5001"], ["ui", "--port", "5001"]),
    ],
)
def test_words_for_the_module(name, given, words):
    assert commands()[name].words(given) == words


@pytest.mark.parametrize(
    ("words", "module", "program"),
    [
        (["harness", "seed=1"], "python -m harness seed=1", "elastrace run seed=1"),
        (
            ["harness", "seed=0,1", "-m"],
            "python -m harness seed=0,1 -m",
            "elastrace sweep seed=0,1",
        ),
        (["harness", "study=main"], "python -m harness study=main", "elastrace study main"),
        (["reports", "study=main"], "python -m reports study=main", "elastrace report main"),
        (["reports"], "python -m reports", "elastrace report"),
        (["harness.tracking", "ui"], "python -m harness.tracking ui", "elastrace ui"),
        (["harness.tuning"], "python -m harness.tuning", "python -m harness.tuning"),
    ],
)
def test_texts_name_the_form_that_was_typed(monkeypatch, words, module, program):
    assert spelt(*words) == module
    monkeypatch.setattr(command_names, "is_program", lambda: True)
    assert spelt(*words) == program


def test_a_study_needs_a_name():
    done = call("study")
    assert done.returncode == 2
    assert "elastrace study: names no study" in done.stderr
    assert "main" in done.stderr


@pytest.mark.parametrize(
    ("word", "module"),
    [("report", "yaml"), ("report", "reports.drawing.figure"), ("--help", "harness.errors")],
)
def test_ctrl_c_ends_it_in_silence_while_it_imports(tmp_path, word, module):
    (tmp_path / "sitecustomize.py").write_text(SWALLOWS)
    command = subprocess.Popen(
        [PROGRAM, word],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "SWALLOWED_AT": module},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert outcome(command) == ("was asked to stop\n", "")
    assert command.returncode == -signal.SIGINT


def test_a_folder_named_like_a_package_or_a_library_hides_nothing(tmp_path):
    for name in ("harness", "reports", "yaml", "random"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(7)")
    words = ("trace=five_jobs", "cluster=dgx8", "tracking=none", "progress=false")
    done = call("sweep", *words, "scheduler=fifo,edf", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "results" / "runs").iterdir())) == 2

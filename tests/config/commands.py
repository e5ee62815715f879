"""Runs ``python -m harness`` inside the test's own process."""

from dataclasses import dataclass

import pytest

from harness.cli import main


@dataclass(frozen=True)
class Answer:
    """What a command answered."""

    code: int
    out: str
    err: str

    def lines_about(self, place):
        """Problems whose place starts like this."""
        lines = [line.strip() for line in self.err.splitlines()]
        return [line for line in lines if line.startswith(place)]


class Command:
    """Calls ``main`` with results in a folder of the test and without tracking."""

    def __init__(self, folder, capsys):
        self.results = folder / "results" / "runs"
        self._capsys = capsys

    def __call__(self, *words, tracked=False):
        base = [f"results_dir={self.results}", "progress=false"]
        code = main([*base, *([] if tracked else ["tracking=none"]), *words])
        captured = self._capsys.readouterr()
        return Answer(code, captured.out, captured.err)


@pytest.fixture
def command(tmp_path, capsys):
    return Command(tmp_path, capsys)


def assert_refused(answer, *facts):
    """Exit code 2, one screen, nothing of a traceback, every fact there."""
    assert answer.code == 2
    assert len(answer.err.splitlines()) <= 30
    assert "Traceback" not in answer.err
    assert answer.out == ""
    for fact in facts:
        assert fact in answer.err

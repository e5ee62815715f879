"""Tutorials: what they tell a reader to write and to do is written and done here, line by line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.results.store import iter_runs
from tests.artifact.shown import ROOT

TUTORIALS = ROOT / "docs" / "tutorials"
PAGES = sorted(path.stem for path in TUTORIALS.glob("*.md"))
ELSEWHERE = {"from-sacct-to-a-comparison"}
"""Tutorials whose commands another test runs (test_from_sacct.py)."""

pytestmark = pytest.mark.timeout(1500)

BASH = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)


def text(page):
    return (TUTORIALS / f"{page}.md").read_text(encoding="utf-8")


def files(page):
    """Files that the page has its reader write: a name in backquotes, then the next block."""
    found = {}
    for block in re.finditer(r"^```(python|yaml)\n(.*?)^```", text(page), re.M | re.S):
        names = re.findall(r"`([\w.-]+\.(?:py|yaml))`", text(page)[: block.start()])
        found[names[-1]] = block.group(2)
    return found


def shell(command, folder, seconds=1200):
    paths = (Path(sys.executable).parent, os.environ["PATH"])
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        timeout=seconds,
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folders in which the pages' files were written and their commands were run, by page."""
    folders = {}

    def run(page):
        if page not in folders:
            folder = tmp_path_factory.mktemp(page)
            (folder / "docs").symlink_to(ROOT / "docs")
            for name, content in files(page).items():
                (folder / name).write_text(content, encoding="utf-8")
            commands = "".join(BASH.findall(text(page)))
            # The reader waits until the job trains; so does this shell.
            if "digits.pt &" in commands:
                waits = "until grep -q . jobs/digits/steps.jsonl; do sleep 0.2; done 2>/dev/null\n"
                commands = commands.replace("digits.pt &\n", f"digits.pt &\n{waits}")
            folders[page] = folder, shell(commands, folder)
        return folders[page]

    return run


def hours(value):
    return f"{value / 3600:.1f} h"


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_every_command_of_a_tutorial_works(done, page):
    _, process = done(page)
    assert process.returncode == 0, process.stdout + process.stderr


def test_files_of_examples_are_shown_as_they_are():
    for name, content in files("is-elasticity-worth-it").items():
        assert (ROOT / "docs" / "examples" / name).read_text(encoding="utf-8") == content


@pytest.mark.long
def test_numbers_of_the_first_replay_are_those_of_its_runs(done):
    folder, _ = done("first-replay")
    page = text("first-replay")
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| ([\d,]+) \| ([\d.]+) % \| ([\d,]+) \|$", page, re.M)
    shown = {row[0]: row[1:] for row in rows}
    assert set(shown) == {"fifo", "tiresias", "afs"}
    for run in iter_runs(folder / "results" / "runs"):
        name, metrics = run.run_id.split("-")[1], run.metrics
        if "30s" in str(run.config["profile"].get("name", "")):
            assert name != "afs" or f"{metrics['jct_mean_s']:,.0f} s" in page
            continue
        assert shown[name] == (
            f"{metrics['jobs_finished']:.0f}",
            f"{metrics['jct_mean_s']:,.0f}",
            f"{100 * metrics['slot_utilization_mean']:.1f}",
            f"{metrics['rescales']:,.0f}",
        )


@pytest.mark.long
def test_numbers_of_the_question_are_those_of_its_runs(done):
    folder, _ = done("is-elasticity-worth-it")
    page = text("is-elasticity-worth-it")
    means = {}
    for run in iter_runs(folder / "results" / "worth" / "runs"):
        _, scheduler, backend = run.run_id.split("-")[:3]
        factor = run.config["engine"]["rescale_cost_factor"]
        means[scheduler, backend, factor] = run.metrics["jct_mean_s"]
    for scheduler in ("fifo", "tiresias", "elastic_tiresias", "afs"):
        row = [hours(means[scheduler, backend, 1.0]) for backend in ("stop_resume", "stop_free")]
        assert f"| `{scheduler}` | {' | '.join(row)} |" in page
    for scheduler in ("tiresias", "elastic_tiresias", "afs"):
        row = [hours(means[scheduler, "stop_resume", factor]) for factor in (1.0, 10.0, 60.0)]
        assert f"| `{scheduler}` | {' | '.join(row)} |\n" in page

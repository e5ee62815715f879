"""Every command in a block of a document is run by a test, or is on a list with its reason."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.artifact.shown import DOCUMENTS, PLACEHOLDER, ROOT, read

pytestmark = pytest.mark.timeout(1500)

ELSEWHERE = {
    "docs/tutorials/": "test_tutorials.py and test_from_sacct.py run the pages",
    "docs/how-to/your-own-folder.md": "tests/program/test_wheel.py runs the page",
    "docs/how-to/elastic-script.md": "test_tutorials.py runs the same commands on two slots",
    "docs/how-to/add-a-workload.md": "names a class of the reader's; test_tutorials.py runs one",
    "docs/how-to/several-hosts.md": "needs hosts; tests/hosts runs the same words on fake ones",
    "docs/how-to/submitting.md": "names a study of the reader's; tests/sweep runs such studies",
}
"""Documents, or folders of them, whose commands need no run here."""

TOO_LONG = {
    "python -m harness engine=live_accuracy scaling=adaptive backend=stop_free scheduler=uniform"
    " trace=itp195_four workload=tiny cluster=cpu4 profile=published_mixed_warm",
    "python -m harness trace=my_traces/modelarts_1.yaml profile=modelarts cluster=modelarts190"
    " cluster.num_hosts=110 scheduler=hu_milp,hu_greedy -m",
    "python -m harness study=hu_fig9 size=quick",
    "python -m harness study=hu_fig9 trace.transforms.0.sigma=1.0 trace.transforms.0.day_share=0.5",
    "python -m harness trace=itp195_slice workload=tiny cluster=cpu4 profile=published_mixed_warm"
    " engine=live engine.pace=profile engine.dilation=4 engine.first_steps=20 scheduler=uniform"
    " backend=stop_free backend.start=preimported",
    "python -m harness study=tune_jct",
    "python -m harness study=test_jct",
    "python -m harness study=tune_deadlines",
    "python -m harness study=test_deadlines",
}
"""Runs of many minutes to hours: only planned here, by ``dry=true``."""

NOT_RUN = {
    "make run": "trains for minutes; the time is on record in ARTIFACT.md",
    "make wheelhouse": "downloads gigabytes",
    "make env WHEELHOUSE=wheelhouse": "needs that download",
    "make gpu": "needs a CUDA device",
    "python3 -m tests.gpu.run_parts --call-s 560": "needs a CUDA device",
    "make ui": "serves until Ctrl-C",
    "python -m harness.tracking": "serves until Ctrl-C",
    "python -m harness.tracking fill --report results/site/main": "needs the report of make run",
    "python -m reports study=hu_fig9": "draws a study that takes hours",
    "python -m harness scheduler=narrow_first trace=five_jobs cluster=dgx8 engine=simulated": (
        "names a file that the reader adds to the checkout; test_tutorials.py runs its like"
    ),
    "python -m harness.tuning study=tune_jct metric=jct_mean_s --into test_jct": (
        "rewrites a study of the checkout"
    ),
    "python -m harness.tuning study=tune_deadlines --into test_deadlines": (
        "rewrites a study of the checkout"
    ),
    "python -m harness.trace lint my_traces/lab_week.yaml": "names a file of the reader's",
    "python -m harness.trace show my_traces/lab_week.yaml": "names a file of the reader's",
    "python -m harness.bench.overhead": "an hour of a quiet machine",
    "python -m harness.bench.overhead --workloads tiny/bert --workers 2 --steps 200 --trials 10": (
        "half an hour of a quiet machine"
    ),
    "python -m tests.consistency.run_bits --out bits.json": "tests/consistency compares its file",
    "python -m reports --results results/reference --out results/site/reference --accept": (
        "rewrites the accepted verdicts; make report draws the same"
    ),
    "python -m reports.artifact": "rewrites ARTIFACT.md; a test compares it",
    "python -m harness.profile measure mine.yaml --pool tiny --cluster cpu2 --sizes 1,2": (
        "an hour of a quiet machine"
    ),
    "python -m harness profile=mine.yaml trace=five_jobs cluster=cpu2": "needs that profile",
    "python -m harness.reference study=main": "copies the runs of make run",
    "python -m harness.reference study=bench_philly --slim": "copies the runs of a long study",
    "python -m harness.reference study=edl_phases size=quick": "copies the runs of a long study",
    "python -m reports --perfetto study=main": "draws the runs of make run",
}


def blocks(document):
    """The commands in blocks of code, as texts without breaks of lines."""
    text = document.read_text(encoding="utf-8")
    found = {}
    for language, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        if language in ("", "bash", "text"):
            for line in block.replace("\\\n", " ").splitlines():
                shown = read(line)
                if shown is not None:
                    found[" ".join(shown.text.split())] = shown
    return found


def is_run_elsewhere(name, shown):
    in_ci = re.search(r"for target in (.*?);", (ROOT / ".ci/run").read_text(encoding="utf-8"))[1]
    if shown.program == "make":
        return {word for word in shown.words if "=" not in word} <= {*in_ci.split()}
    return shown.program == "pytest" or name.startswith(tuple(ELSEWHERE))


def to_run(document):
    name = document.relative_to(ROOT).as_posix()
    return [
        f"{text} dry=true" if text in TOO_LONG else text
        for text, shown in blocks(document).items()
        if text not in NOT_RUN
        and not is_run_elsewhere(name, shown)
        and not any(PLACEHOLDER.search(word) for word in shown.words)
    ]


WITH_COMMANDS = [document for document in DOCUMENTS if to_run(document)]


def test_the_lists_name_commands_that_are_shown():
    shown = {text for document in DOCUMENTS for text in blocks(document)}
    assert not ({*NOT_RUN} | TOO_LONG) - shown
    names = [document.relative_to(ROOT).as_posix() for document in DOCUMENTS]
    assert all(any(name.startswith(place) for name in names) for place in ELSEWHERE)
    assert len(WITH_COMMANDS) > 8


@pytest.mark.long
@pytest.mark.parametrize("document", WITH_COMMANDS, ids=lambda path: path.stem)
def test_commands_of_a_document_work(document, tmp_path):
    for name in ("docs", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for command in to_run(document):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command.replace(".venv/bin/python", "python")],
            cwd=tmp_path,
            env={**os.environ, "PATH": paths},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, (command, done.stdout + done.stderr)
        assert done.stdout, command

"""The README's findings, the answer pages and the picture say what the records give now.

That all of them are what the command writes is a test of ``test_artifact_page.py``.
"""

import json
import re
from collections import defaultdict
from statistics import fmean, median

import numpy as np
import pytest
from PIL import Image

from harness.errors import UserError
from harness.results.store import run_paths
from harness.results.tables import read_table
from reports.artifact import __main__ as artifact
from reports.artifact import answers, blocks, picture
from reports.artifact.measured import ByScheduler, Measured
from tests.artifact.shown import ROOT

REFERENCE = ROOT / "results" / "reference"
PAGES = (answers.README, answers.WHICH, answers.WORTH, answers.TRUST)


@pytest.fixture(scope="module")
def measured():
    return Measured(REFERENCE)


def page(path):
    return (ROOT / path).read_text(encoding="utf-8")


def block(path, name):
    found = page(path).split(blocks.first_mark(name))[1]
    text = found.split(blocks.last_mark(name))[0].strip()
    return text.replace("\N{NO-BREAK SPACE}", " ")


def runs_of(study):
    return [path for path in run_paths(REFERENCE) if path.parent.name == study]


def metrics_by_scheduler(study, metric):
    """From the files alone, by another way than the command's."""
    found = defaultdict(list)
    for path in runs_of(study):
        scheduler = json.loads((path / "manifest.json").read_text())["choices"]["scheduler"]
        found[scheduler].append(json.loads((path / "metrics.json").read_text())[metric])
    return found


def pauses_by_size():
    """Stopping times of 1→2 by backend, transfer and megabytes, from the tables alone."""
    found = defaultdict(list)
    for path in runs_of("edl_state_size"):
        text = (path / "config.yaml").read_text()
        size = int(re.search(r"state_bytes: (\d+)", text)[1]) / 1e6
        transfer = re.search(r"transfer: (\w+)", text.split("\nbackend:")[1].split("\nengine:")[0])
        backend = json.loads((path / "manifest.json").read_text())["choices"]["backend"]
        for change in read_table(path / "changes.csv.gz", "changes"):
            is_out = (len(change.from_slots), len(change.to_slots)) == (1, 2)
            if change.kind == "rescale" and change.outcome == "done" and is_out:
                key = backend, transfer and transfer[1], size
                found[key].append(change.stopping_time_s)
    return found


def test_there_are_five_findings_and_each_leads_to_a_page():
    lines = block(answers.README, "findings").splitlines()
    assert len(lines) == 5
    for line in lines:
        (target,) = re.findall(r"\]\(([^)#]+)", line)
        assert (ROOT / target).is_file()
        assert re.search(r"\d", line)


def test_a_number_that_is_edited_is_noticed_and_written_again(measured):
    texts = {"findings": answers.findings(measured)}
    right = page(answers.README)
    (count,) = re.findall(r"all (\d+) drawn trainings", right)
    wrong = right.replace(f"all {count} drawn", f"all {int(count) + 1} drawn")
    assert wrong != right
    assert blocks.rewritten("README.md", wrong, texts) == right


def test_the_pause_in_the_readme_is_the_one_on_record():
    found = pauses_by_size()
    sizes = sorted({size for _, _, size in found})
    assert (sizes[0], sizes[-1]) == (10, 2000)
    free = [median(found["stop_free", "background", size]) for size in sizes]
    resumed = [median(times) for (backend, *_), times in found.items() if backend == "stop_resume"]
    text = block(answers.README, "findings")
    assert f"`stop_free` stops it for {1e3 * min(free):.1f} to {1e3 * max(free):.1f} ms" in text
    assert f"`stop_resume` for {1e3 * min(resumed):.0f} ms to {max(resumed):.1f} s" in text


def test_means_and_deadlines_in_the_readme_are_those_on_record():
    text = block(answers.README, "findings")
    jct = {name: fmean(own) for name, own in metrics_by_scheduler("test_jct", "jct_mean_s").items()}
    best = min(jct, key=jct.get)
    assert f"**`{best}` has the shortest mean JCT** in simulation: {jct[best] / 60:.0f} min" in text
    assert f"{100 * (1 - jct[best] / jct['fifo']):.0f} % below FIFO" in text
    shares = metrics_by_scheduler("test_deadlines", "deadline_satisfactory_ratio")
    met = {name: fmean(own) for name, own in shares.items()}
    ranked = sorted(met, key=met.get, reverse=True)
    assert re.search(rf"\*\*`{ranked[0]}`, `{ranked[1]}`.* meet most deadlines", text)
    assert f"to {100 * met[ranked[0]]:.0f} % of them, where FIFO meets" in text
    assert f"FIFO meets {100 * met['fifo']:.0f} %" in text


def test_the_break_even_is_what_its_formula_gives():
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in block(answers.WORTH, "break-even").splitlines()[2:]
    ]
    assert [row[0] for row in rows] == ["10 MB", "30 MB", "100 MB", "300 MB", "1 GB", "2 GB"]
    for row in rows:
        resumed, warm, free = map(seconds, row[2:5])
        for cell, other in ((row[5], resumed), (row[6], warm)):
            often = float(cell.removesuffix("/h").replace(",", ""))
            assert often == pytest.approx(36 / (other - free), rel=0.08)  # of rounded losses


def seconds(text):
    number, unit = text.split()
    return float(number) / {"ms": 1000, "s": 1}[unit]


def test_each_answer_comes_before_anything_else():
    for path in PAGES[1:]:
        title, first, *_ = re.split(r"\n\n", page(path))
        assert title.startswith("# ")
        assert first == blocks.first_mark("answer")
        assert block(path, "answer").startswith("**")


def test_numbers_of_the_answer_pages_stand_in_blocks():
    """A number that is typed beside a block would not follow the records."""
    for path in PAGES[1:]:
        text = re.sub(r"<!-- (.+): written.*?<!-- End of \1\. -->", "", page(path), flags=re.DOTALL)
        text = text.partition("**Conditions.**")[0]
        shares = re.findall(r"\d[\d.]* (?:%|ms|min|times)", text)
        assert set(shares) <= {"1 %", "5 %", "95 %"}, (
            path,
            shares,
        )  # worth it, undecided, intervals


def test_the_picture_is_drawn_from_the_records(measured):
    text = picture.description(ROOT / picture.PATH)
    content, wanted = picture.picture(measured.picture_runs)
    assert text == wanted
    assert content.startswith(b"\x89PNG")
    rows = re.findall(r"^\| stop-free, ([\d,]+) MB \| (\d+) \| ([\d.]+) ", text, re.MULTILINE)
    found = pauses_by_size()
    assert len(rows) == 6
    for size, count, middle in rows:
        times = found["stop_free", "background", float(size.replace(",", ""))]
        assert len(times) == int(count)
        assert f"{1000 * median(times):.3g}" == f"{float(middle):.3g}"


def test_the_picture_can_be_read_on_a_page_of_900_pixels():
    with Image.open(ROOT / picture.PATH) as image:
        assert image.width == 1800
        pixels = np.asarray(image.convert("L"))
    for edge in (pixels[:6], pixels[-6:], pixels[:, :6], pixels[:, -6:]):
        assert edge.min() == 255  # nothing is cut off


def test_a_picture_of_other_numbers_is_drawn_again(measured, tmp_path, monkeypatch):
    runs = [run for run in measured.picture_runs if run.backend != "warm_restart"]
    content, text = picture.picture(runs)
    assert "warm restart" not in text
    path = tmp_path / "other.png"
    path.write_bytes(content)
    monkeypatch.setattr(picture, "PATH", path)
    drawn = artifact._drawn_picture(measured)
    path.write_bytes(drawn)
    assert "warm restart" in picture.description(path)
    assert artifact._drawn_picture(measured) is None


def test_a_page_without_the_marks_of_a_block_is_refused():
    with pytest.raises(UserError, match=r"mine\.md.*lacks the marks of the block 'answer'"):
        blocks.rewritten("mine.md", "text", {"answer": "yes"})


def test_schedulers_are_ranked_on_the_inputs_that_all_have():
    found = ByScheduler({"a": {"x": 1.0, "y": 4.0, "z": 9.0}, "b": {"x": 2.0, "y": 2.0}})
    assert found.inputs == ["x", "y"]
    assert (found.mean("a"), found.mean("b")) == (2.5, 2.0)
    assert found.ends("a") == (1.0, 4.0)
    assert found.ranked(least_first=True) == ["b", "a"]
    assert found.num_ahead("a", "b", less=True) == found.num_ahead("a", "b", less=False) == 1

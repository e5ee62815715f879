import os
import subprocess
import sys

import pytest

from harness.trace.__main__ import main
from harness.trace.build import TRACES
from tests.trace.examples import ITP_HEADER, PHILLY_HEADER, write


def run(capsys, *arguments):
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_lint_counts_and_shows_first_rows(capsys):
    code, out, err = run(capsys, "lint", "itp195")
    assert (code, err) == (0, "")
    assert "195 jobs" in out
    assert "deadlines before arrival + duration: 92 of 195 jobs (47.2%)" in out
    assert "195job.csv:2: 693 s to the deadline, runs 1,075 s on 1 slots" in out
    assert "... and 89 more" in out


def test_lint_finds_the_traps_of_philly(capsys):
    code, out, _ = run(capsys, "lint", "philly")
    assert code == 0
    assert "repeated rows: 65 of 82,247" in out
    assert "not in the order of arrival: 44,878 of 82,247" in out
    assert "durations under 60 s: 7,654 of 82,247" in out


def test_lint_of_a_file_that_cannot_be_loaded(capsys, tmp_path):
    rows = [
        "a,100,10,bert,90,32,1,80",
        "a,50,10,bert,90,32,0,80",
        "b,60,10,bert,90,32,1,0",
        "c,60,10,bert,90,32,1,30",
    ]
    path = write(tmp_path, "\n".join([ITP_HEADER, *rows]))
    code, out, err = run(capsys, "lint", str(path))
    assert (code, err) == (1, "")
    assert "REFUSED: num_gpu of 0 or less: 1 of 4 jobs" in out
    assert "REFUSED: duration of 0 or less: 1 of 4 jobs" in out
    assert "REFUSED: deadlines not after submission: 1 of 4 jobs" in out
    assert "REFUSED: repeated job ids: 1 of 4 jobs" in out
    assert "jobs.csv:3: job_id 'a' is also at" in out
    assert "note: not in the order of arrival: 1 of 4 jobs" in out


def test_lint_finds_a_clean_file_clean(capsys, tmp_path):
    path = write(tmp_path, f"{PHILLY_HEADER}\n2017-10-09 07:01:55,66.0,1,66.0,x\n")
    code, out, _ = run(capsys, "lint", str(path))
    assert code == 0
    assert "nothing to remark" in out


@pytest.fixture
def small_cluster(tmp_path, monkeypatch):
    folder = tmp_path / "configs"
    (folder / "cluster").mkdir(parents=True)
    (folder / "cluster" / "small.yaml").write_text(
        "_target_: harness.cluster.uniform_cluster\n"
        "name: small\nnum_hosts: 3\ndevices_per_host: 4\ndevice_type: cpu\n"
    )
    (folder / "trace").symlink_to(TRACES)
    monkeypatch.setattr("harness.trace.commands.catalog.CONFIGS", folder)
    return "small"


def test_lint_against_a_cluster(capsys, tmp_path, small_cluster):
    rows = [f"2017-10-09 07:01:55,66.0,{slots},0,x" for slots in (4, 8, 16)]
    path = write(tmp_path, "\n".join([PHILLY_HEADER, *rows]))
    code, out, _ = run(capsys, "lint", str(path), "--cluster", small_cluster)
    assert code == 0
    assert "larger than the cluster small (12 slots): 1 of 3 jobs" in out
    assert "num_gpus is 16" in out
    assert "larger than any host of small (4 slots): 1 of 3 jobs" in out
    code, _, err = run(capsys, "lint", str(path), "--cluster", "smal")
    assert code == 2
    assert "there is no cluster 'smal'; did you mean 'small'?" in err


def test_load_is_shown_for_a_cluster(capsys, tmp_path, small_cluster):
    rows = ["2017-10-09 07:00:00,60,12,0,x", "2017-10-09 07:02:00,60,12,0,x"]
    path = write(tmp_path, "\n".join([PHILLY_HEADER, *rows]))
    code, out, _ = run(capsys, "show", str(path), "--cluster", small_cluster)
    assert code == 0
    assert "1.00 of small" in out
    assert "9-16" in out


def test_transforms_are_linted_too(capsys):
    code, out, _ = run(capsys, "lint", "itp195_slice", "--raw")
    assert code == 0
    assert "transforms" not in out
    code, _, err = run(capsys, "lint", "itp195_slice")
    assert code == 2
    assert "--profile NAME" in err


def test_a_yaml_of_the_users_own(capsys, tmp_path):
    write(tmp_path, "when;gpus;mins\n10;2;5\n5;4;1\n", "lab.csv")
    write(
        tmp_path,
        "name: lab\nsource: our logs\nlicence: ours\n"
        "reader:\n"
        "  _target_: harness.trace.columns.ColumnsReader\n"
        "  path: lab.csv\n"
        '  delimiter: ";"\n'
        "  columns: {arrival: when, slots: gpus, duration: mins}\n"
        "  units: {arrival: min, duration: min}\n"
        "transforms:\n"
        "  - {_target_: harness.trace.transforms.CapDemand, max_slots: 2}\n",
        "lab.yaml",
    )
    code, out, _ = run(capsys, "show", str(tmp_path / "lab.yaml"))
    assert code == 0
    assert "our logs" in out
    assert "CapDemand: 1 of 2 jobs cut to 2 slots" in out
    code, out, _ = run(capsys, "lint", str(tmp_path / "lab.yaml"))
    assert code == 0
    assert "after 1 transforms: 2 jobs" in out


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("a: [1\n", "lab.yaml:2: "),
        ("- a\n", "is no mapping"),
        ("name: lab\n", "'reader' is missing"),
        ("name: lab\nä: \0\n", "lab.yaml:2: has the character U+0000"),
        ("name: 2017-13-45\n", "lab.yaml: month must be in 1..12; quote or correct the value"),
    ],
)
def test_bad_yaml(capsys, tmp_path, text, fact):
    path = write(tmp_path, text, "lab.yaml")
    code, out, err = run(capsys, "lint", str(path))
    assert (code, out) == (2, "")
    assert fact in err


def test_yaml_in_another_encoding(capsys, tmp_path):
    path = tmp_path / "lab.yaml"
    path.write_bytes("name: Läufe\n".encode("latin-1"))
    code, out, err = run(capsys, "lint", str(path))
    assert (code, out) == (2, "")
    assert "lab.yaml: cannot be read (it is not UTF-8 text); save it as UTF-8 YAML" in err


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["show", "itp19"], "there is no trace 'itp19'; did you mean 'itp195'?"),
        (["lint", "nowhere/jobs.csv"], "there is no such file"),
        (["lint", "nowhere/lab.yaml"], "cannot be read"),
        (["show", "philly", "--profile", "none"], "there is no profile 'none'; known:"),
    ],
)
def test_wrong_names(capsys, arguments, fact):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert fact in err
    assert "Traceback" not in err


def test_unknown_format_lists_columns_and_formats(capsys, tmp_path):
    path = write(tmp_path, "a,b\n1,2\n")
    code, _, err = run(capsys, "lint", str(path))
    assert code == 2
    assert "the columns a, b are of no known format (formats: those of ColumnsReader, " in err
    assert "ItpReader" in err
    assert "itp195" not in err
    assert "describe the file in a YAML" in err


def test_show_draws_bars_and_percentiles(capsys):
    code, out, _ = run(capsys, "show", "five_jobs")
    assert code == 0
    for text in ("Arrivals", "Durations", "p50", "3,930", "Apache-2.0", "resnet50_cifar10 5"):
        assert text in out


def test_a_file_of_a_known_format_needs_no_yaml(capsys):
    code, out, _ = run(capsys, "show", str(TRACES / "data" / "195job.csv"))
    assert code == 0
    assert "a file in the format of easyscale" in out
    assert "195" in out


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_as_a_process(encoding, tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    result = subprocess.run(
        [sys.executable, "-m", "harness.trace", "show", "five_jobs"],
        capture_output=True,
        env=environment,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr.decode()
    assert ("█" if encoding == "utf-8" else "###") in result.stdout.decode(encoding)
    path = write(tmp_path, ITP_HEADER + "\na,x,10,bert,90,32,1,80\n")
    result = subprocess.run(
        [sys.executable, "-m", "harness.trace", "lint", str(path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=120,
    )
    assert result.returncode == 2
    assert "jobs.csv:2: submission_time is 'x'" in result.stderr
    assert "Traceback" not in result.stderr


def test_help_teaches(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["show", "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    for text in ("FILE_OR_NAME", "itp195", "Exit codes"):
        assert text in out


@pytest.mark.parametrize(
    "words",
    [
        "saxena FOLDER --seed 3 rate=bursty load=1.2",
        "saxena FOLDER rate=bursty --seed 3 load=1.2",
        "--seed 3 saxena FOLDER rate=bursty load=1.2",
    ],
)
def test_options_of_a_kind_may_stand_anywhere(capsys, tmp_path, words):
    code, _, err = run(capsys, "generate", *words.replace("FOLDER", str(tmp_path)).split())
    assert (code, err) == (0, "")
    text = " ".join((tmp_path / "saxena_3.yaml").read_text().split())
    assert "Drawn with kind=saxena, seed=3, rate=bursty, load=1.2." in text


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ("generate saxena x --seed -1", ["--seed", "is '-1'; give a whole number from 0 up"]),
        ("show five_jobs --seed -3", ["--seed", "is '-3'"]),
        ("lint five_jobs --seed 1.5", ["--seed", "is '1.5'"]),
        ("lint five_jobs six_jobs", ["unrecognized arguments: six_jobs", "lint --help"]),
        ("generate saxena x --sed 3 rate=low", ["unrecognized arguments: --sed;"]),
    ],
)
def test_wrong_words(capsys, words, facts):
    with pytest.raises(SystemExit) as caught:
        main(words.split())
    assert caught.value.code == 2
    err = capsys.readouterr().err
    for fact in facts:
        assert fact in err


def test_a_misspelt_transform_is_suggested(capsys, tmp_path):
    text = (TRACES / "five_jobs.yaml").read_text()
    text = text.partition("transforms:")[0]
    text += "transforms:\n  - {_target_: harness.trace.transforms.CapDemnd, max_slots: 2}\n"
    code, _, err = run(capsys, "lint", str(write(tmp_path, text, "mine.yaml")))
    assert code == 2
    assert "has no class 'CapDemnd'; did you mean 'CapDemand'? known: AssignBatch, " in err

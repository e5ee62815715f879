"""``python -m harness.profile``, from outside."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from harness.profile import _occupied, main
from harness.profiles.read import SHIPPED


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "harness.profile", *arguments],
        capture_output=True,
        text=True,
        cwd=SHIPPED.parents[1],
        timeout=60,
    )


def test_show_prints_provenance_curves_and_costs():
    shown = command("show", "a100_elasticflow")
    assert shown.returncode == 0
    assert "Apache-2.0" in shown.stdout
    assert "bert on a100, samples per second" in shown.stdout
    assert "any backend, any workload, any kind, any sizes: 0 + 0" in shown.stdout


def test_lint_accepts_everything_that_is_shipped():
    files = sorted(str(path) for path in SHIPPED.glob("*.yaml"))
    checked = command("lint", *files)
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.count("no mistakes") == len(files)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "nothing"), "unknown profile 'nothing'; known: a100_edl_costs"),
        (("lint", "nowhere.yaml"), "nowhere.yaml: cannot be read (No such file"),
    ],
)
def test_mistakes_end_with_code_2_and_no_traceback(arguments, message):
    refused = command(*arguments)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


def test_lint_of_what_is_no_text(tmp_path):
    (tmp_path / "nul.yaml").write_bytes(b"name: x\n\xc3\xa4: \0\n")
    (tmp_path / "latin.yaml").write_bytes(b"name: L\xe4ufe\n")
    refused = command("lint", str(tmp_path / "nul.yaml"), str(tmp_path / "latin.yaml"))
    assert refused.returncode == 2
    assert "nul.yaml:2: not valid YAML: has the character U+0000" in refused.stderr
    assert "latin.yaml: cannot be read (it is not UTF-8 text); save it as" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_lint_tells_the_mistakes_of_all_files(tmp_path):
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text("name: x\nthroughput: {}\n")
    refused = command("lint", str(tmp_path / "one.yaml"), str(tmp_path / "two.yaml"))
    assert refused.returncode == 2
    for name in ("one.yaml", "two.yaml"):
        assert f"{name}:1: provenance: is missing" in refused.stderr
        assert f"{name}:1: rescale_costs: is missing" in refused.stderr


SETTING = ("--pool", "tiny", "--cluster", "cpu2", "--set", "backend.start=preimported")


def measure(capsys, *words):
    code = main(["measure", *map(str, words)])
    return code, capsys.readouterr()


@pytest.mark.long
def test_measure_refuses_a_file_that_it_did_not_write(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--workloads", "resnet50", "--dry")
    for name in ("cpu2_tiny", "v100_gavel"):
        file = tmp_path / f"{name}.yaml"
        file.write_bytes((SHIPPED / file.name).read_bytes())
        code, said = measure(capsys, file, *SETTING, *words)
        assert (code, said.out) == (2, "")
        assert f"{file}: exists, " in said.err
        assert "name another file" in said.err
    code, said = measure(capsys, tmp_path / "cpu2_tiny", *SETTING, *words)
    assert (code, said.out) == (2, "")
    assert "cpu2_tiny.yaml" in said.err


def test_a_measurement_may_write_its_own_file_again(tmp_path):
    file = tmp_path / "cpu2_tiny.yaml"
    measurement = SimpleNamespace(
        pool="tiny",
        cluster="cpu2",
        backends=["stop_resume"],
        warmths=(),
        placements=(),
        words=("backend.start=preimported", "force=true"),
    )
    stored, missing = (
        SimpleNamespace(planned=SimpleNamespace(stored=lambda run=run: run))
        for run in ("a run", None)
    )
    assert _occupied(file, measurement, [missing]) is None
    file.write_bytes((SHIPPED / file.name).read_bytes())
    assert _occupied(file, measurement, [missing, stored]) is None
    assert _occupied(file, measurement, [missing]) is not None
    measurement.pool = "small"
    assert _occupied(file, measurement, [stored]) is not None

"""What the command line does when nothing is wrong."""

import json
import subprocess
import sys

import pytest
import yaml

from harness.configuration.compose import CONFIG_DIR, options, parse_overrides, quote
from harness.configuration.schema import GROUPS, KEYS
from harness.results.store import load_run
from tests.config.commands import assert_refused

QUICK = ("trace=five_jobs", "cluster=dgx8", "scheduler=fifo")


def only_run(command):
    (path,) = [p for p in command.results.iterdir() if not p.name.startswith(".")]
    return load_run(path)


def test_help_names_every_option_and_key(command):
    answer = command("--help")
    assert answer.code == 0
    words = answer.out.replace("[", " ").replace("]", " ").split()
    for group in (*GROUPS, "study"):
        assert group in words
        assert set(options(group)) <= set(words)
    for key in KEYS:
        assert f"{key}=" in answer.out
    assert answer.out.count("python -m harness") >= 7
    assert max(map(len, answer.out.splitlines())) <= 100


@pytest.mark.soak
def test_examples_in_the_help_are_right(command):
    lines = [line.strip() for line in command("--help").out.splitlines()]
    start = lines.index("Examples:")
    examples = [line.split() for line in lines[start + 2 : start + 11 : 2]]
    for words in examples:
        assert words[:3] == ["python", "-m", "harness"]
        assert command(*words[3:], *([] if "dry=true" in words else ["dry=true"])).code == 0


def test_help_of_a_group(command):
    answer = command("--help", "engine")
    assert answer.code == 0
    assert "engine=simulated (default)" in answer.out
    assert "engine.rescale_cost" in answer.out
    assert_refused(command("--help", "motor"), "--help: unknown group 'motor'")


def test_cfg_prints_what_would_run(command):
    answer = command(*QUICK, "seed=3", "--cfg", "job")
    assert answer.code == 0
    config = yaml.safe_load(answer.out)
    assert config["seed"] == 3
    assert config["choices"]["cluster"] == "dgx8"
    assert config["cluster"]["devices_per_host"] == 8
    assert not command.results.exists()


def test_dry_says_what_and_how_long_and_starts_nothing(command):
    answer = command(*QUICK, "dry=true")
    assert answer.code == 0
    assert "5 jobs on 8 slots, about " in answer.out
    assert "nothing was started" in answer.out
    assert not command.results.exists()


def test_a_run_is_stored_with_its_manifest(command):
    answer = command(*QUICK, "seed=4", "name=mine")
    assert answer.code == 0
    run = only_run(command)
    manifest = run.manifest
    assert run.run_id.startswith("five_jobs-fifo-stop_resume-simulated-")
    assert run.run_id.endswith(manifest["config_hash"][:10])
    assert manifest["status"] == "finished"
    assert manifest["seed"] == 4
    assert manifest["name"] == "mine"
    assert manifest["scheduler"] == {"checked": "exact", "oracle": False}
    assert manifest["trace"]["num_jobs"] == 5
    assert len(manifest["trace"]["digest"]) == 64
    assert manifest["packages"]["numpy"]
    assert manifest["hardware"]["cores"] >= 1
    assert {"git_commit", "git_dirty", "load", "command", "created"} <= set(manifest)
    assert run.config["choices"]["scheduler"] == "fifo"
    assert run.metrics["jobs_finished"] == 5
    assert run.facts["peak_memory_bytes"] > 1e7


def test_a_finished_run_is_not_run_again_unless_forced(command):
    command(*QUICK)
    created = only_run(command).path.stat().st_ctime_ns
    answer = command(*QUICK, "name=other", "max_wall_s=100")
    assert "is stored already; force=true" in answer.out
    assert only_run(command).path.stat().st_ctime_ns == created
    assert "finished." in command(*QUICK, "force=true").out
    assert only_run(command).path.stat().st_ctime_ns > created


@pytest.mark.parametrize("word", ["seed=1", "repetition=1", "engine.rescale_cost=zero"])
def test_what_determines_results_changes_the_run(command, word):
    command(*QUICK)
    command(*QUICK, word)
    assert len([p for p in command.results.iterdir() if not p.name.startswith(".")]) == 2


def test_a_run_can_be_repeated_from_its_own_configuration(command, tmp_path):
    command(*QUICK, "seed=2", "scheduler=tiresias", "scheduler.queue_limits_slot_s=[60,600]")
    first = only_run(command)
    again = tmp_path / "again"
    answer = command("--from", str(first.path / "config.yaml"), f"results_dir={again}")
    assert answer.code == 0
    second = load_run(again / first.run_id)
    assert second.manifest["config_hash"] == first.manifest["config_hash"]
    assert second.digests.keys() == first.digests.keys()
    same = [name for name in first.digests if name != "latencies"]
    assert [second.digests[name] for name in same] == [first.digests[name] for name in same]


def test_a_key_of_an_earlier_version_means_nothing_in_a_stored_configuration(command):
    command(*QUICK)
    run = only_run(command)
    stored = run.path / "config.yaml"
    stored.write_text(stored.read_text() + "snapshot_every_s: 60.0\n")
    answer = command("--from", str(stored), "dry=true")
    assert (answer.code, answer.err) == (0, "")
    assert f"1 point: {run.run_id}:" in answer.out


def test_a_stored_configuration_can_be_changed(command):
    command(*QUICK)
    path = only_run(command).path / "config.yaml"
    answer = command("--from", str(path), "scheduler=uniform", "seed=9", "--cfg", "job")
    config = yaml.safe_load(answer.out)
    assert config["choices"]["scheduler"] == "uniform"
    assert config["choices"]["cluster"] == "dgx8"
    assert config["seed"] == 9


def test_files_of_ones_own(command, tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "jobs.csv").write_text("submitted,gpus,seconds\n0,1,60\n10,2,60\n")
    (folder / "week.yaml").write_text(
        "name: week\nsource: made for a test\nlicence: none\nreader:\n"
        "  _target_: harness.trace.columns.ColumnsReader\n  path: jobs.csv\n"
        "  columns: {arrival: submitted, slots: gpus, duration: seconds}\n"
    )
    (folder / "two.yaml").write_text(
        "_target_: harness.cluster.uniform_cluster\nname: two\nnum_hosts: 1\n"
        "devices_per_host: 2\ndevice_type: a100\n"
    )
    (folder / "assumed.yaml").write_text((CONFIG_DIR / "profile" / "recorded.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    words = ("trace=mine/week.yaml", "cluster=mine/two.yaml", "profile=mine/assumed.yaml")
    answer = command(*words, "scheduler=fifo")
    assert answer.code == 0, answer.err
    run = only_run(command)
    assert run.run_id.startswith("week-fifo-")
    assert run.metrics["makespan_s"] == pytest.approx(120.0)


def test_a_bug_gives_one_line_and_a_log(command, monkeypatch):
    monkeypatch.setattr("harness.run.execute.compute", lambda records: 1 / 0)
    answer = command(*QUICK)
    assert answer.code == 1
    assert "Failed: ZeroDivisionError: division by zero" in answer.err
    assert "Traceback" not in answer.err
    log = answer.err.rsplit("Details: ", 1)[1].strip()
    with open(log, encoding="utf-8") as file:
        assert "Traceback" in file.read()


def test_a_replay_that_cannot_go_on_says_so_in_one_sentence(command, tmp_path):
    """All slots go down for good."""
    (tmp_path / "jobs.csv").write_text("submitted,gpus,seconds\n0,1,60\n")
    (tmp_path / "down.csv").write_text("time_s,event,slots,job_id\n10,slots_down,0-7,\n")
    (tmp_path / "week.yaml").write_text(
        "name: week\nsource: made for a test\nlicence: none\nreader:\n"
        "  _target_: harness.trace.columns.ColumnsReader\n  path: jobs.csv\n"
        "  columns: {arrival: submitted, slots: gpus, duration: seconds}\n"
        "transforms:\n"
        "- {_target_: harness.trace.transforms.ReadEvents, path: down.csv}\n"
    )
    words = (f"trace={tmp_path / 'week.yaml'}", "cluster=dgx8", "profile=recorded")
    answer = command(*words, "scheduler=fifo")
    assert answer.code == 1
    assert answer.err.splitlines()[-1].startswith("Failed: 1 job waits for ever (first: ")
    assert ", or let the scheduler refuse what it cannot serve. Details: /" in answer.err


def test_the_time_limit_stops_a_run_and_stores_nothing(command):
    answer = command("trace=philly", "cluster=slots400", "max_wall_s=0.5")
    assert answer.code == 124
    assert "max_wall_s is over" in answer.err
    assert list(command.results.iterdir()) == []


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 1.5, "a b", "it's", "null", "1e3", [1, "a, b"], {"a": {"b": 1}}, "a/b.yaml",
     "=", "a:b", "", "\\", "x\\'y"],
)  # fmt: skip
def test_quoted_values_are_read_back(value):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    override = OverridesParser.create().parse_override(f"key={quote(value)}")
    assert override.value() == value


def test_of_two_choices_the_last_counts():
    assert parse_overrides(["scheduler=fifo", "scheduler=edf"]).choices == {"scheduler": "edf"}


def test_simulation_loads_no_training_library(tmp_path):
    code = (
        "import json, sys; from harness.cli import main;"
        f"main(['trace=five_jobs', 'cluster=dgx8', 'tracking=none', 'results_dir={tmp_path}']);"
        "print(json.dumps([m for m in ('torch', 'transformers', 'mlflow') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_mistakes_from_outside(tmp_path):
    command = [sys.executable, "-m", "harness", "scheduler=nobody", f"results_dir={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "scheduler: unknown option 'nobody'; known: afs, chronus," in done.stderr

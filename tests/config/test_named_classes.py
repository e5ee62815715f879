"""Files that name code: all but what ships and what the user allows is never imported."""

import sys
from pathlib import Path

import pytest
import yaml

from harness.configuration.compose import CONFIG_DIR, options
from harness.configuration.named_classes import SEAMS, name_problem
from harness.configuration.schema import PARTS
from harness.contracts.backend import Backend
from harness.contracts.launcher import Launcher
from harness.contracts.placement import Placement
from harness.contracts.scheduler import Scheduler
from harness.contracts.workload import Workload, WorkloadSpec
from harness.engines.setup import EngineConfig
from harness.run.workload_check import workload_problems
from harness.trace.__main__ import main as trace_main
from harness.trace.parsing.submissions import Reader
from harness.trace.transforms import Transform
from tests.config.commands import assert_refused
from tests.config.named_classes import counted, named

READER = {
    "_target_": "harness.trace.columns.ColumnsReader",
    "path": "jobs.csv",
    "columns": {"arrival": "at", "slots": "gpus", "duration": "seconds"},
}
TRACE = {"name": "theirs", "source": "a stranger", "licence": "none", "reader": READER}
SMALL = ("trace=five_jobs", "cluster=dgx8", "engine=simulated")
STRANGE = """\
from pathlib import Path

from systems.schedulers.fifo import Fifo

Path(__file__).with_name("it_ran").touch()


class Own(Fifo):
    pass


class Decisive:
    def __init__(self, **options):
        Path(__file__).with_name("it_ran").touch()

    def decide(self):
        pass

    read = apply = place = decide


def fifo():
    return Fifo()
"""


def shipped(group, name):
    return yaml.safe_load((CONFIG_DIR / group / f"{name}.yaml").read_text())


def documents(part):
    """Every kind of file with a stranger's part in it: its group and its content."""
    joined = {"_target_": "harness.cluster.joined_cluster", "name": "two", "parts": [part]}
    return {
        "reader": ("trace", {**TRACE, "reader": part}),
        "transform": ("trace", {**TRACE, "transforms": [part]}),
        "part in a reader": ("trace", {**TRACE, "reader": {**READER, "columns": part}}),
        "workload": ("workload", {"pool": {"toy": part}}),
        "part of a cluster": ("cluster", joined),
        "plan of faults": ("engine", {**shipped("engine", "live_faults"), "faults": part}),
        "part in a scheduler": ("scheduler", {**shipped("scheduler", "fifo"), "inner": part}),
        **{group: (group, part) for group in PARTS},
    }


KINDS = list(documents({}))
every_kind = pytest.mark.parametrize("kind", KINDS)


class Stranger:
    """A folder of a stranger's, with code that leaves a mark when it is imported or called."""

    def __init__(self, folder):
        self.folder = folder
        self.mark = folder / "it_ran"
        (folder / "strange.py").write_text(STRANGE)
        (folder / "jobs.csv").write_text("at,gpus,seconds\n0,1,60\n")
        self.command = {"_target_": "subprocess.check_output", "args": ["touch", str(self.mark)]}

    def file(self, content, name="theirs.yaml"):
        """Write a file of theirs; its path."""
        path = self.folder / name
        path.write_text(yaml.safe_dump(content))
        return str(path)


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "theirs")
    monkeypatch.chdir(tmp_path / "work")
    found = Stranger(tmp_path / "theirs")
    yield found
    sys.modules.pop("strange", None)


def line_to_add():
    return f"have this line in {Path.cwd() / 'elastrace.yaml'}: allow: [strange]"


@every_kind
def test_code_of_a_stranger_is_not_imported_and_the_line_that_allows_it_is_told(
    kind, stranger, command
):
    group, content = documents({"_target_": "strange.Decisive"})[kind]
    answer = command(*SMALL, f"{group}={stranger.file(content)}")
    assert_refused(answer, "" if " in a " in kind else line_to_add())
    assert "strange.Decisive" in answer.err
    assert not stranger.mark.exists()


@every_kind
def test_a_command_is_not_run_and_nothing_allows_it(kind, stranger, command):
    group, content = documents(stranger.command)[kind]
    answer = command(*SMALL, f"{group}={stranger.file(content)}")
    assert_refused(answer, "subprocess.check_output")
    assert "allow: [" not in answer.err
    assert not stranger.mark.exists()


@every_kind
def test_nor_out_of_a_stored_configuration(kind, stranger, command):
    group, content = documents(stranger.command)[kind]
    shown = command(*SMALL, "--cfg", "job")
    config = {**yaml.safe_load(shown.out), group: content}
    answer = command("--from", stranger.file(config, "config.yaml"))
    assert_refused(answer, "subprocess.check_output")
    assert not stranger.mark.exists()


@pytest.mark.parametrize("where", ["base", "grids"])
def test_nor_out_of_a_study(where, stranger, command):
    word = f"scheduler={stranger.file(stranger.command, 'scheduler.yaml')}"
    key, _, value = word.partition("=")
    points = {"base": [*SMALL, word]} if where == "base" else {"grids": [{key: [value]}]}
    study = {"description": "theirs", **points}
    answer = command(f"study={stranger.file(study)}")
    assert_refused(answer, "subprocess.check_output")
    target = {"description": "theirs", "base": [*SMALL, "scheduler._target_=strange.Own"]}
    assert_refused(command(f"study={stranger.file(target)}"), line_to_add())
    assert not stranger.mark.exists()


def test_the_tools_for_traces_refuse_it_too(stranger, capsys):
    bad_trace = stranger.file({**TRACE, "reader": stranger.command}, "bad.yaml")
    bad_cluster = stranger.file(stranger.command, "cluster.yaml")
    for words in (
        ["lint", bad_trace],
        ["show", bad_trace],
        ["lint", stranger.file(TRACE, "good.yaml"), "--cluster", bad_cluster],
    ):
        assert trace_main(words) == 2
        assert "subprocess.check_output is code of Python's own library" in capsys.readouterr().err
    assert not stranger.mark.exists()


def test_modules_that_a_launcher_imports_are_named_like_classes(stranger, command):
    launcher = shipped("launcher", "local")
    for module, fact in (("strange", line_to_add()), ("antigravity", "Python's own library")):
        path = stranger.file({**launcher, "preimport": ["torch", module]})
        assert_refused(command(*SMALL, f"launcher={path}"), "launcher.preimport.1: ", fact)
    assert not stranger.mark.exists()


def test_a_script_is_no_workload(stranger, command):
    pool = {"pool": {"toy": {"_target_": "script", "path": str(stranger.folder / "strange.py")}}}
    answer = command(*SMALL, f"workload={stranger.file(pool)}")
    assert_refused(answer, "workload.pool.toy._target_: is 'script'; give a dotted path")


def test_the_line_that_was_told_allows_it(stranger, command):
    path = stranger.file({"_target_": "strange.Own"})
    refused = command(*SMALL, f"scheduler={path}")
    line = refused.err.strip().rpartition("elastrace.yaml: ")[2]
    Path("elastrace.yaml").write_text(line)
    answer = command(*SMALL, f"scheduler={path}", "dry=true")
    assert answer.code == 0, answer.err
    assert stranger.mark.exists()
    study = stranger.file({"description": "mine", "base": [*SMALL, f"scheduler={path}"]}, "s.yaml")
    answer = command(f"study={study}")  # its points are processes of their own
    assert answer.code == 1, "strange.py is on the path of this process alone"
    assert "there is no module 'strange'" in answer.out


def test_an_allowed_class_must_still_fit_its_place(stranger, command):
    Path("elastrace.yaml").write_text("allow: [strange]\n")
    for target, fact in (
        ("strange.Fifo", "5 jobs"),
        ("strange.fifo", "strange.fifo is no class"),
        ("strange.Path", "strange.Path has no decide()"),
        ("strange.None_", "module strange has no class 'None_'"),
    ):
        answer = command(*SMALL, f"scheduler={stranger.file({'_target_': target})}", "dry=true")
        assert fact in answer.out + answer.err


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("allow: strange", "allow: is 'strange'; write one line, such as allow: [mypackage]"),
        ("allow: [os]", "allow: os is Python's own library; remove it"),
        ("allow: [3, a-b]", "allow: 3 is no name of a package"),
        ("allowed: [strange]", "is a mapping with allowed; write one line"),
        ("allow: [", "cannot be read"),
    ],
)
def test_a_wrong_line_is_told(text, fact, stranger, command):
    Path("elastrace.yaml").write_text(text)
    answer = command(*SMALL, f"scheduler={stranger.file({'_target_': 'strange.Own'})}")
    assert_refused(answer, str(Path.cwd() / "elastrace.yaml"), fact)
    assert not stranger.mark.exists()


@pytest.mark.parametrize(
    ("target", "fact"),
    [
        ("systems.backends.static.Static", "is no scheduler; name a scheduler of systems.sched"),
        ("harness.sweep.runner.run_sweep", "is no scheduler"),
        ("systems.schedulers.common.script.Mapping", "is no scheduler: it is of collections.abc"),
        ("systems.schedulers.edf.Path", "has no class 'Path'"),
        ("systems.schedulers.common.gang.gang_slots", "is no class"),
        ("systems.schedulers.common.waiting.WaitingJobs", "has no decide()"),
        ("systems.schedulers..fifo.Fifo", "give a dotted path"),
        (".subprocess.run", "give a dotted path"),
        ("", "give a dotted path"),
        (["os.system"], "give a dotted path"),
    ],
)
def test_a_shipped_name_is_of_the_kind_that_is_wanted(target, fact, stranger, command):
    answer = command(*SMALL, f"scheduler={stranger.file({'_target_': target})}")
    assert_refused(answer, "scheduler._target_: ", fact)


@pytest.mark.parametrize("key", ["_partial_", "_args_", "_recursive_", "_convert_"])
def test_hydras_own_keys_mean_nothing(key, stranger, command):
    path = stranger.file({**shipped("scheduler", "fifo"), key: ["touch"]})
    answer = command(*SMALL, f"scheduler={path}")
    assert_refused(answer, f"scheduler.{key}: unknown option")


@pytest.mark.parametrize(
    "text", ["${oc.env:A_SECRET}", "a ${oc.${seed}:A_SECRET}", r"\${oc.env:A_SECRET}", "${hydra:x}"]
)
def test_files_ask_nothing_of_their_readers_machine(text, stranger, command, monkeypatch):
    monkeypatch.setenv("A_SECRET", "hunter2")
    profile = {"defaults": ["recorded", "_self_"], "name": text}
    for group, content in (
        ("trace", {**TRACE, "source": text}),
        ("cluster", {**shipped("cluster", "cpu2"), "name": text}),
        ("profile", profile),
        ("study", {"description": "theirs", "base": [*SMALL, f"name='{text}'"]}),
    ):
        answer = command("--cfg", "job", f"{group}={stranger.file(content)}")
        assert_refused(answer, "reads from the machine of the user", "give it on the command line")
        assert "hunter2" not in answer.err
    below = stranger.file({"name": "below", "provenance": {"source": text}}, "below.yaml")
    extending = stranger.file({"defaults": ["below", "_self_"]}, "extending.yaml")
    answer = command(*SMALL, f"profile={extending}")
    assert_refused(answer, below, "reads from the machine of the user")


def test_files_may_refer_to_keys_and_to_shipped_options_of_their_group(stranger, command):
    own = {"defaults": ["saxena_random_bs", "_self_"], "seed": "${seed}"}
    answer = command(*SMALL, "--cfg", "job", "seed=7", f"scheduler={stranger.file(own)}")
    assert answer.code == 0, answer.err
    scheduler = yaml.safe_load(answer.out)["scheduler"]
    assert scheduler == {**shipped("scheduler", "saxena_random_bs"), "seed": 7}


@pytest.mark.parametrize(
    "entry",
    ["../../secret", "/scheduler/fifo", "override /scheduler: fifo", {"/backend": "static"}],
)
def test_defaults_do_not_lead_out_of_the_group(entry, stranger, command):
    content = {**shipped("cluster", "dgx8"), "defaults": [entry]}
    answer = command("--cfg", "job", f"cluster={stranger.file(content)}")
    assert_refused(answer, "defaults: ", "is no option of its group; known: a100x128")
    shown = yaml.safe_load(command(*SMALL, "--cfg", "job").out)
    stored = stranger.file({**shown, "cluster": content}, "config.yaml")
    assert_refused(command("--from", stored), "cluster.defaults: unknown key")


def test_a_key_of_a_stored_configuration_is_no_word_of_hydras(stranger, command):
    shown = yaml.safe_load(command(*SMALL, "--cfg", "job").out)
    for key in ("name=${oc.env:HOME}", "hydra.searchpath", "+hydra/launcher"):
        answer = command("--from", stranger.file({**shown, key: "x"}, "config.yaml"))
        assert_refused(answer, f"{key}: unknown key")


@pytest.mark.parametrize(
    ("seam", "contract"),
    [
        ("scheduler", Scheduler),
        ("placement", Placement),
        ("backend", Backend),
        ("launcher", Launcher),
        ("engine", EngineConfig),
        ("reader", Reader),
        ("transform", Transform),
        ("workload", Workload),
    ],
)
def test_what_a_class_must_have_is_in_its_contract(seam, contract):
    methods = SEAMS[seam].methods
    assert methods
    assert all(callable(getattr(contract, name)) for name in methods)


def test_every_committed_configuration_may_name_its_classes():
    configs = [
        {group: shipped(group, name)}
        for group in (*PARTS, "trace", "workload")
        for name in options(group)
    ]
    found = [pair for config in configs for pair in named(config)]
    assert len(found) == sum(map(counted, configs)) > 200
    assert not [pair for pair in found if name_problem(pair[1], pair[0], "here")]


def test_a_workload_that_lacks_a_method_is_not_called():
    """By the process that builds a run's workloads before its workers do."""
    pool = {"odd": WorkloadSpec("odd", "workloads.toy.Path", {})}
    (problem,) = workload_problems(pool)
    assert "workload.pool.odd._target_: " in str(problem)

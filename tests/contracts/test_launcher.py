"""The suite of the launcher seam: every file in configs/launcher, at every warmth."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from harness.contracts.process import ProcessSpec, SpareSpec, Warmth
from harness.errors import RunError
from tests.backends.world import children, configured, options

NAMES = options("launcher")
SLOW = ("hosts",)
"""Launchers that start more than a process; at most warmths their tests are long."""
ROOT = Path(__file__).resolve().parents[2]
NUM_AGENTS = {"local": 0, "hosts": 1}
"""Processes of a launcher itself, for one host."""
TIMEOUT_S = 20.0
PAUSE = threading.Event()
"""Never set. Not psutil's waiting, which would take the ends of children from the launcher."""


class Starter:
    """A launcher, and short words for what these tests do with it."""

    def __init__(self, launcher, warmth, folder):
        self.launcher = launcher
        self.warmth = warmth
        self.folder = folder
        self.log = folder / "logs" / "process.log"
        self.ends = []
        """Of processes that have ended and nobody asked for yet."""

    def start(self, entry, *argv, env=None, cores=(), host="127.0.0.1", own_env=None, keep=True):
        """With a spare ready for it, if one can be."""
        if keep and self.warmth.is_kept:
            self.keep(SpareSpec(host, cores, env or {}, "tests.backends.entries:prepare"))
        return self.launcher.start(
            ProcessSpec(
                name="test",
                entry=f"tests.backends.entries:{entry}" if ":" not in entry else entry,
                argv=tuple(map(str, argv)),
                env=env or {},
                own_env=own_env or {},
                host=host,
                cores=cores,
                log_path=self.log,
                warmth=self.warmth,
            )
        )

    def keep(self, *spares):
        """Have these ready; returns how the spares stand then, or when they cannot be."""
        self.launcher.keep(spares)
        deadline = time.monotonic() + TIMEOUT_S
        while (found := self.launcher.spares()).ready < found.wanted:
            assert time.monotonic() < deadline, found
            self.ends += self.launcher.ended()
            PAUSE.wait(0.01)
        return found

    def end_of(self, *handles):
        """The ends of these processes, in the order of ``handles``."""
        found = {}
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < len(handles):
            ends, self.ends = self.ends + self.launcher.ended(), []
            for end in ends:
                assert end.handle in handles
                assert end.handle not in found
                found[end.handle] = end
            assert time.monotonic() < deadline, found
            PAUSE.wait(0.01)
        return [found[handle] for handle in handles]

    def wait_for(self, path):
        """The content of a file that a process writes."""
        deadline = time.monotonic() + TIMEOUT_S
        while not path.exists():
            assert time.monotonic() < deadline
            assert self.launcher.ended() == []
            PAUSE.wait(0.01)
        return path.read_text()


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(*pids):
    deadline = time.monotonic() + 5
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline
        PAUSE.wait(0.01)


def cells():
    """Every launcher at every warmth."""
    return [
        pytest.param(
            (name, warmth),
            id=f"{warmth}-{name}",
            marks=pytest.mark.long if name in SLOW and warmth is not Warmth.PREIMPORTED else (),
        )
        for warmth in Warmth
        for name in NAMES
    ]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture(params=cells())
def starter(request, tmp_path):
    name, warmth = request.param
    before = children()
    launcher = configured("launcher", name, preimport=["json"])
    launcher.open()
    yield Starter(launcher, warmth, tmp_path)
    launcher.close()
    launcher.close()
    assert children() == before


def test_a_process_finds_its_arguments_environment_and_group(starter, tmp_path):
    path = tmp_path / "facts"
    handle = starter.start("describe", path, "a b", "", env={"ELASTRACE_TEST": "1 2"})
    (end,) = starter.end_of(handle)
    assert (end.returncode, end.reason) == (0, "exited with 0")
    facts = json.loads(path.read_text())
    assert facts["argv"] == ["a b", ""]
    assert facts["env"]["ELASTRACE_TEST"] == "1 2"
    assert facts["group"] == facts["pid"]
    assert facts["pid"] != os.getpid()
    assert starter.launcher.ended() == []


def test_it_is_pinned_to_its_cores(starter, tmp_path):
    core = max(os.sched_getaffinity(0))
    path = tmp_path / "facts"
    starter.end_of(starter.start("describe", path, cores=(core,)))
    assert json.loads(path.read_text())["cores"] == [core]


def test_cores_that_do_not_exist_are_an_error_in_words(starter, tmp_path):
    (end,) = starter.end_of(starter.start("describe", tmp_path / "facts", cores=(4095,)))
    assert end.returncode == 1
    assert "cannot pin a worker to cores [4095]" in end.reason


def test_many_processes_each_end_once_with_their_own_code(starter):
    handles = [starter.start("leave", code) for code in (0, 3, 7, 0)]
    assert len(set(handles)) == 4
    ends = starter.end_of(*handles)
    assert [end.returncode for end in ends] == [0, 3, 7, 0]
    assert starter.launcher.ended() == []


def test_the_reason_of_a_failure_is_the_last_line_of_the_log(starter):
    (end,) = starter.end_of(starter.start("leave", 3))
    assert end.reason == "exited with 3: last words"
    assert "first words" in starter.log.read_text()


@pytest.mark.parametrize(
    ("entry", "argv", "code", "fact"),
    [
        ("leave_by_sys_exit", ("told you",), 1, "told you"),
        ("fail", (), 1, "LookupError: nothing there"),
        ("nothing_like_it", (), 1, "nothing_like_it"),
        ("no.such.module:main", (), 1, "No module named 'no'"),
    ],
)
def test_every_way_to_fail_has_a_code_and_words(starter, entry, argv, code, fact):
    (end,) = starter.end_of(starter.start(entry, *argv))
    assert end.returncode == code
    assert fact in end.reason


def test_a_signal_ends_a_process_and_its_children_and_is_named(starter, tmp_path):
    path = tmp_path / "pid"
    handle = starter.start("wait_with_child", path)
    parent = int(starter.wait_for(path))
    child = int(starter.wait_for(tmp_path / "pid.child"))
    starter.launcher.signal(handle, signal.SIGKILL)
    (end,) = starter.end_of(handle)
    assert end.returncode == -signal.SIGKILL
    assert end.reason.startswith("killed by SIGKILL")
    wait_until_gone(parent, child)
    starter.launcher.signal(handle, signal.SIGKILL)  # has ended: not an error


def test_a_kill_that_nobody_asked_the_launcher_for_is_from_outside(starter, tmp_path):
    handles = [starter.start("wait", tmp_path / name) for name in ("a", "b")]
    pids = [int(starter.wait_for(tmp_path / name)) for name in ("a", "b")]
    handles.append(starter.start("leave", 3))
    starter.launcher.signal(handles[0], signal.SIGKILL)
    os.kill(pids[1], signal.SIGKILL)
    ends = starter.end_of(*handles)
    assert [end.is_kill_from_outside for end in ends] == [False, True, False]
    assert [end.of_machine for end in ends] == [False] * 3


def test_an_end_is_told_once_all_that_the_process_started_has_ended(starter, tmp_path):
    """A child with much memory takes many milliseconds to die."""
    handle = starter.start("wait_with_slow_child", tmp_path / "pid")
    pids = [int(starter.wait_for(tmp_path / name)) for name in ("pid", "pid.child")]
    os.kill(pids[0], signal.SIGKILL)
    (end,) = starter.end_of(handle)
    assert [pid for pid in pids if is_alive(pid)] == []
    assert end.returncode == -signal.SIGKILL


def test_a_process_can_be_stopped_and_continued(starter, tmp_path):
    path = tmp_path / "pid"
    handle = starter.start("wait", path)
    process = psutil.Process(int(starter.wait_for(path)))
    for signum, stopped in ((signal.SIGSTOP, True), (signal.SIGCONT, False)):
        starter.launcher.signal(handle, signum)
        deadline = time.monotonic() + 5
        while (process.status() == psutil.STATUS_STOPPED) != stopped:
            assert time.monotonic() < deadline
            PAUSE.wait(0.01)


def test_closing_kills_what_is_left(starter, tmp_path):
    paths = [tmp_path / str(index) for index in range(3)]
    for path in paths:
        starter.start("wait", path)
    deadline = time.monotonic() + TIMEOUT_S
    while not all(path.exists() for path in paths):  # without asking for ends in between
        assert time.monotonic() < deadline
        PAUSE.wait(0.01)
    pids = [int(path.read_text()) for path in paths]
    assert all(map(is_alive, pids))
    starter.launcher.close()
    assert not any(map(is_alive, pids))


def test_another_host_is_refused_in_words(starter):
    """The launcher refuses the host itself, or the host's agent reports an end without a start."""
    try:
        handle = starter.start("describe", "x", host="192.0.2.7")
    except RunError as error:
        said = str(error)
    else:
        (end,) = starter.end_of(handle)
        assert end.of_machine
        said = end.reason
    assert "host '192.0.2.7' is not this machine" in said


def test_the_modules_of_the_run_are_imported_before_a_fork_only(name, tmp_path):
    launcher = configured("launcher", name, preimport=["json"])
    launcher.open(["tests.backends.drive_forever"])
    for warmth in Warmth:
        path = tmp_path / warmth
        starter = Starter(launcher, warmth, tmp_path)
        starter.end_of(starter.start("describe", path))
        imported = json.loads(path.read_text())["imported"]
        assert ("tests.backends.drive_forever" in imported) == (warmth is not Warmth.COLD)
    launcher.close()


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT], ids=lambda s: s.name)
@pytest.mark.parametrize("cell", cells())
def test_a_process_does_not_outlive_a_launcher_that_is_killed(cell, signum, tmp_path):
    name, warmth = cell
    driver = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.backends.launch_forever"),
            *(name, warmth, str(tmp_path)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == b"waiting\n"
    below = psutil.Process(driver.pid).children(recursive=True)
    known = {Warmth.COLD: 2, Warmth.PREIMPORTED: 3}
    assert len(below) == known.get(warmth, 5) + NUM_AGENTS[name]
    driver.send_signal(signum)
    driver.wait(10)
    wait_until_gone(*(process.pid for process in below))


@pytest.mark.parametrize(
    ("module", "fact"),
    [
        ("no_such_module_at_all", "cannot import 'no_such_module_at_all'"),
        ("tests.backends.starts_a_thread", "left 1 threads running (busybody)"),
    ],
)
def test_what_cannot_be_preimported_ends_the_process_in_words(name, tmp_path, module, fact):
    launcher = configured("launcher", name, preimport=["json", module])
    launcher.open()
    starter = Starter(launcher, Warmth.PREIMPORTED, tmp_path)
    (end,) = starter.end_of(starter.start("leave", 0))
    assert end.returncode != 0
    assert fact in end.reason
    assert "preimport list" in end.reason
    launcher.close()


def starter_of(name, tmp_path):
    launcher = configured("launcher", name, preimport=["json"])
    launcher.open()
    return Starter(launcher, Warmth.PREIMPORTED, tmp_path)


def test_the_death_of_the_process_that_forks_ends_its_forks_and_another_one_is_started(
    name, tmp_path
):
    starter = starter_of(name, tmp_path)
    handle = starter.start("wait", tmp_path / "pid")
    fork = psutil.Process(int(starter.wait_for(tmp_path / "pid")))
    fork.parent().kill()
    (end,) = starter.end_of(handle)
    assert end.of_machine
    wait_until_gone(fork.pid)
    (end,) = starter.end_of(starter.start("leave", 0))
    assert (end.returncode, end.of_machine) == (0, False)
    starter.launcher.close()

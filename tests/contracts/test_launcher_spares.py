"""The suite of the launcher seam, second part: processes that are kept ready (``keep``)."""

import json
import signal
import time

import psutil
import pytest

from harness.contracts.process import SpareSpec, Warmth
from harness.errors import RunError
from tests.backends.world import children, configured, options, waiting_spares
from tests.contracts.test_launcher import PAUSE, TIMEOUT_S, Starter, is_alive, wait_until_gone

HOST = "127.0.0.1"
PREPARE = "tests.backends.entries:prepare"


class Spared(Starter):
    """Starts with spares, which the tests keep themselves."""

    def __init__(self, launcher, folder):
        super().__init__(launcher, Warmth.PREIMPORTED, folder)

    def start(self, *args, warmth=Warmth.SPARE, **details):
        self.warmth = warmth
        try:
            return super().start(*args, **details, keep=False)
        finally:
            self.warmth = Warmth.PREIMPORTED

    def describe(self, name, **details):
        """What a process finds around it."""
        path = self.folder / name
        (end,) = self.end_of(self.start("describe", path, **details))
        assert end.returncode == 0
        return json.loads(path.read_text())


@pytest.fixture(params=options("launcher"))
def starter(request, tmp_path):
    before = children()
    launcher = configured("launcher", request.param, preimport=["json"])
    launcher.open()
    yield Spared(launcher, tmp_path)
    launcher.close()
    assert children() == before


def spare(cores=(), prepare=PREPARE, **env):
    return SpareSpec(HOST, cores, env, prepare)


def pids():
    return {process.pid for process in waiting_spares()}


def test_a_spare_does_the_work_with_its_own_arguments_environment_and_log(starter):
    assert starter.keep(spare(ELASTRACE_TEST="1")).ready == 1
    (ready,) = pids()
    found = starter.describe("a b", env={"ELASTRACE_TEST": "1"})
    assert found["pid"] == ready == found["group"]
    assert found["env"]["ELASTRACE_TEST"] == "1"
    (end,) = starter.end_of(starter.start("leave", 3))  # no spare is left for it
    assert (end.returncode, end.reason) == (3, "exited with 3: last words")
    starter.keep(spare())
    before = starter.log.read_text()
    assert "prepared" not in before
    (end,) = starter.end_of(starter.start("leave", 7))
    assert end.reason == "exited with 7: last words"
    assert starter.log.read_text() == before + "first words\nlast words\n"
    standing = starter.launcher.spares()
    assert (standing.used, standing.missed) == (2, 1)


def test_variables_of_one_process_alone_reach_a_spare(starter):
    starter.keep(spare(A="1"))
    ready = pids()
    found = starter.describe("facts", env={"A": "1"}, own_env={"B": "2"})
    assert {found["pid"]} == ready
    assert (found["env"]["A"], found["env"]["B"]) == ("1", "2")


@pytest.mark.parametrize(
    "other",
    [{"env": {"A": "2"}}, {"env": {}}, {"env": {"A": "1", "B": "1"}}, {"cores": (0,)}],
    ids=str,
)
def test_other_surroundings_are_not_served_by_a_spare(starter, other):
    starter.keep(spare(A="1"))
    ready = pids()
    found = starter.describe("facts", **{"env": {"A": "1"}, **other})
    assert found["pid"] not in ready
    assert pids() == ready
    standing = starter.launcher.spares()
    assert (standing.ready, standing.used, standing.missed) == (1, 0, 1)


def test_a_preimported_start_leaves_spares_alone(starter):
    starter.keep(spare())
    ready = pids()
    starter.end_of(starter.start("leave", 0, warmth=Warmth.PREIMPORTED))
    assert pids() == ready
    assert starter.launcher.spares().missed == 0


def test_a_spare_has_its_cores_while_it_waits(starter):
    starter.keep(spare(cores=(0,)))
    (ready,) = waiting_spares()
    assert ready.cpu_affinity() == [0]
    assert ready.num_threads() == 1


def test_one_that_was_used_is_replaced_when_it_is_asked_for_and_not_before(starter):
    starter.keep(spare(), spare())
    first = pids()
    starter.end_of(*(starter.start("leave", 0) for _ in range(2)))
    assert starter.launcher.spares().alive == 0
    assert pids() == set()
    starter.keep(spare(), spare())
    assert len(pids()) == 2
    assert not pids() & first


def test_nothing_is_prepared_while_workers_are_being_started(starter, tmp_path):
    starter.keep(spare())
    starter.launcher.keep([spare()] * 9)  # the next one is under way
    starter.start("wait", tmp_path / "pid")
    starter.wait_for(tmp_path / "pid")
    assert starter.launcher.spares().alive <= 1
    starter.keep(*[spare()] * 3)
    assert len(pids()) == 3


def test_those_not_wanted_any_more_end(starter):
    starter.keep(spare(A="1"), spare(A="1"), spare(A="2"))
    before = pids()
    assert starter.keep(spare(A="1")).ready == 1
    deadline = time.monotonic() + TIMEOUT_S
    while starter.launcher.spares().alive > 1:
        assert starter.launcher.ended() == []
        assert time.monotonic() < deadline
        PAUSE.wait(0.01)
    assert len(pids()) == 1
    assert pids() < before
    starter.launcher.keep(())
    wait_until_gone(*before)


def test_one_that_died_is_no_loss(starter):
    starter.keep(spare())
    (ready,) = pids()
    psutil.Process(ready).kill()
    found = starter.describe("facts")  # perhaps before anybody has noticed
    assert found["pid"] != ready
    assert starter.keep(spare()).ready == 1
    assert starter.describe("more")["pid"] != ready
    assert starter.launcher.spares().used >= 1


def test_one_that_dies_before_it_begins_is_replaced_by_a_fork(starter, tmp_path):
    starter.keep(spare())
    (ready,) = waiting_spares()
    ready.suspend()
    handle = starter.start("describe", tmp_path / "facts")
    assert starter.launcher.ended() == []
    ready.kill()
    (end,) = starter.end_of(handle)
    assert end.returncode == 0
    assert json.loads((tmp_path / "facts").read_text())["pid"] != ready.pid


def test_one_that_is_killed_on_purpose_before_it_begins_is_not(starter, tmp_path):
    starter.keep(spare())
    (ready,) = waiting_spares()
    ready.suspend()
    handle = starter.start("describe", tmp_path / "facts")
    starter.launcher.signal(handle, signal.SIGKILL)
    (end,) = starter.end_of(handle)
    assert end.returncode == -signal.SIGKILL
    assert not (tmp_path / "facts").exists()


def test_ctrl_c_means_nothing_to_a_spare_and_something_to_who_uses_it(starter, tmp_path):
    starter.keep(spare())
    (ready,) = pids()
    psutil.Process(ready).send_signal(signal.SIGINT)
    handle = starter.start("wait", tmp_path / "pid")
    assert int(starter.wait_for(tmp_path / "pid")) == ready
    starter.launcher.signal(handle, signal.SIGINT)
    (end,) = starter.end_of(handle)
    assert end.returncode == 1
    assert "KeyboardInterrupt" in end.reason


def test_those_that_cannot_be_prepared_are_given_up_in_words_and_forks_serve(starter):
    standing = starter.keep(spare(prepare="tests.backends.entries:cannot_prepare"), spare(A="1"))
    assert "LookupError: no device here" in standing.failure
    assert (standing.wanted, standing.ready) == (1, 1)
    assert starter.keep(spare(prepare="tests.backends.entries:cannot_prepare")).ready == 0
    (end,) = starter.end_of(starter.start("leave", 0))
    assert end.returncode == 0


def test_those_given_up_are_tried_again_once_they_were_not_wanted(starter, tmp_path):
    path = tmp_path / "there"
    spec = SpareSpec(HOST, (), {}, "tests.backends.entries:prepare_if_there", (str(path),))
    assert starter.keep(spec).wanted == 0
    path.touch()
    assert starter.keep(spec).wanted == 0
    assert starter.keep(spare()).failure == ""
    standing = starter.keep(spec)
    assert (standing.wanted, standing.ready, standing.failure) == (1, 1, "")


def test_closing_ends_them_used_or_not(starter, tmp_path):
    starter.keep(spare(), spare())
    starter.start("wait", tmp_path / "pid")
    used = int(starter.wait_for(tmp_path / "pid"))
    (left,) = pids()
    assert is_alive(used)
    starter.launcher.close()
    assert not is_alive(used)
    assert not is_alive(left)


def test_they_die_with_the_preimporting_process_and_another_one_makes_them(starter):
    starter.keep(spare())
    (ready,) = waiting_spares()
    ready.parent().kill()
    wait_until_gone(ready.pid)
    (end,) = starter.end_of(starter.start("leave", 0))
    assert (end.returncode, end.of_machine) == (0, False)
    assert starter.keep(spare()).ready == 1
    assert pids() != {ready.pid}


def test_a_spare_on_another_host_is_refused_in_words(starter):
    """The launcher refuses the host itself, or the agent says why the host has no spares."""
    try:
        said = starter.keep(SpareSpec("192.0.2.7", (), {}, PREPARE)).failure
    except RunError as error:
        said = str(error)
    assert "host '192.0.2.7' is not this machine" in said

"""The calls for scripts of one's own: the example in the docs, and what a script must not do."""

import difflib
import json
import runpy
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from harness.cluster import uniform_cluster
from harness.contracts.backend_reports import ReportKind
from harness.engines.live.consumed_samples import count_samples, read_consumed
from systems.backends.stop_free import StopFree
from systems.launchers.local import PREIMPORT, Local
from systems.runtime.wire.control import ControlError
from systems.runtime.wire.step_log import read_lines
from systems.script.__main__ import REQUESTS, main
from systems.script.messages import Status
from systems.script.request_channel import FILE, RequestServer, ask
from systems.script.user_job import UserJob
from tests.backends.world import descendants
from tests.patience import outcome

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
MANY_EPOCHS = "300"
TIMEOUT_S = 30.0
ACTIONS = {command.replace("-", "_"): request for command, request in REQUESTS.items()}
CLUSTER = uniform_cluster(name="four", num_hosts=1, devices_per_host=4, device_type="cpu")

LINEAR = """
import sys, time, torch
from torch.utils.data import TensorDataset
from systems.script import api as elastic

torch.manual_seed(0)
x = torch.randn(64, 4, dtype=torch.float64)
y = x @ torch.arange(4, dtype=torch.float64)
model = torch.nn.Linear(4, 1, dtype=torch.float64)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

def schedule(step):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 / (1 + step)

model, optimizer = elastic.init(
    model, optimizer, before_update=schedule, changes_gradients="peer" in sys.argv
)
epochs = 1 if "short" in sys.argv else None
for inputs, targets in elastic.batches(TensorDataset(x, y), 8, epochs=epochs):
    if "no-step" in sys.argv:
        continue
    if "slow" in sys.argv:
        time.sleep(0.02)
    loss = (model(inputs).squeeze(1) - targets).square().mean()
    if "twice" in sys.argv:
        model(inputs)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if elastic.shutdown():
    lr = optimizer.param_groups[0]["lr"]
    elastic.record(lr=lr, weight=model.weight[0, 3].item(), bias=model.bias.item())
"""


@pytest.fixture(scope="module")
def launcher():
    launcher = Local([*PREIMPORT, "systems.script.run"])
    launcher.open()
    yield launcher
    launcher.close()


class Running:
    """A job whose driver is this process."""

    def __init__(self, launcher, folder, script, *arguments, workers=1, seed=3, **options):
        folder.mkdir()
        self.folder = folder
        options = {"data_order": "positions", **options}
        self.backend = StopFree(start="preimported", **options)
        self.backend.open(CLUSTER, launcher)
        self.job = UserJob(self.backend, CLUSTER, folder)
        self.requests = RequestServer(self.job, folder)
        self.job.start(script, arguments, workers, seed)

    def until(self, is_true):
        end = time.monotonic() + TIMEOUT_S
        while not is_true():
            assert time.monotonic() < end, self.logs()
            assert self.job.end is None, f"{self.job.end}\n{self.logs()}"
            self.job.poll(0.02)
            self.requests.serve()

    def until_step(self, step):
        self.until(lambda: self.job.step >= step)

    def do(self, action, **fields):
        answers = []
        self.job.request(ACTIONS[action](**fields), answers.append)
        self.until(lambda: answers)
        return json.loads(json.dumps(answers[0].fields()))  # as ``python -m systems.script`` has it

    def until_end(self):
        end = time.monotonic() + TIMEOUT_S
        while self.job.end is None:
            assert time.monotonic() < end, self.logs()
            self.job.poll(0.02)
        return self.job.end

    def logs(self):
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("w*.log")))

    def kill(self, worker):
        """SIGKILL a worker, which is known by where its output goes."""
        log = self.folder.resolve() / f"{worker}.log"
        for process in descendants():
            with suppress(psutil.NoSuchProcess, FileNotFoundError):
                if Path(f"/proc/{process.pid}/fd/1").readlink() == log:
                    process.kill()
                    return
        raise AssertionError(f"no process of {worker}")

    def close(self):
        self.requests.close()
        self.backend.close()


@pytest.fixture
def run(launcher, tmp_path):
    running = []

    def begin(script, *arguments, **options):
        folder = tmp_path / f"job{len(running)}"
        running.append(Running(launcher, folder, script, *arguments, **options))
        return running[-1]

    yield begin
    for job in running:
        job.close()


@pytest.fixture
def linear(tmp_path):
    path = tmp_path / "linear.py"
    path.write_text(LINEAR)
    return path


def worlds(folder):
    """Numbers of workers that made the job's steps, in order. A first worker that leaves may log
    its last step after another has logged the next one."""
    lines = list(read_lines(folder / "steps.jsonl"))
    found = []
    for line in sorted(lines, key=lambda line: (line["step"], line["generation"])):
        if found[-1:] != [line["world"]]:
            found.append(line["world"])
    return found


def check_digits(job, end):
    """Every sample once in every epoch, and a model that is worth something."""
    assert end.kind is ReportKind.FINISHED, end
    assert count_samples(job.folder, end.step) == (0, 0)
    consumed = [piece for part in read_consumed(job.folder) for piece in part.ranges]
    assert sum(stop - start for _, start, stop in consumed) == end.samples == 64 * end.step
    (line,) = (line for line in job.logs().splitlines() if line.startswith("accuracy"))
    assert float(line.split()[1]) > 0.88
    assert (job.folder.parent / "digits.pt").exists()


def test_the_example_adds_five_lines_and_changes_three():
    plain, elastic = (
        (EXAMPLES / f"digits_{kind}.py").read_text().splitlines() for kind in ("plain", "elastic")
    )
    assert len(plain) < 60
    lines = list(difflib.ndiff(plain, elastic))
    added = [line for line in lines if line.startswith("+ ")]
    removed = [line for line in lines if line.startswith("- ")]
    assert (len(added), len(removed)) == (8, 3)
    page = (ROOT / "docs" / "how-to" / "elastic-script.md").read_text()
    shown = page.split("```diff\n")[1].split("```")[0]
    in_docs = [line[1:] for line in shown.splitlines() if line.startswith("+")]
    assert sorted(in_docs) == sorted(line[2:] for line in added)


@pytest.mark.long
def test_the_example_grows_and_shrinks(run, tmp_path):
    job = run(EXAMPLES / "digits_elastic.py", MANY_EPOCHS, str(tmp_path / "digits.pt"))
    job.until_step(20)
    grown = job.do(action="scale_out", to=2)
    assert grown["status"] == "done"
    assert grown["workers"] == 2
    assert 0 <= grown["stopping_time_s"] < 1
    assert "copy" in grown["phases_s"]
    job.until_step(grown["step"] + 20)
    shrunk = job.do(action="scale_in", to=1)
    assert (shrunk["status"], shrunk["slots"]) == ("done", [0])
    job.until_step(400)
    assert job.do(action="finish")["status"] == "done"
    end = job.until_end()
    check_digits(job, end)
    assert worlds(job.folder) == [1, 2, 1]
    losses = [float.fromhex(line["loss"]) for line in read_lines(job.folder / "steps.jsonl")]
    assert sum(losses[-20:]) < sum(losses[:20]) / 4


@pytest.mark.long
def test_the_example_outlives_a_worker(run, tmp_path):
    job = run(EXAMPLES / "digits_elastic.py", "16", str(tmp_path / "digits.pt"), workers=2)
    job.until_step(30)
    job.kill("w1")  # the first one: the other goes on, and evaluates
    end = job.until_end()
    assert job.job.slots == (1,)
    assert end.step == 16 * 24
    check_digits(job, end)
    assert worlds(job.folder) == [2, 1]


def test_a_script_s_samples_can_be_handed_out_in_blocks(run, linear):
    job = run(linear, data_order="blocks", block_samples=16)
    job.until_step(10)
    assert job.do(action="scale_out", to=3)["status"] == "done"
    job.kill("w1")
    job.until(lambda: len(job.job.slots) == 2)
    assert job.do(action="scale_in", to=1)["status"] == "done"
    job.until_step(job.job.step + 20)
    job.do(action="finish")
    end = job.until_end()
    assert worlds(job.folder) == [1, 3, 2, 1]
    assert count_samples(job.folder, end.step) == (0, 0)
    consumed = [piece for part in read_consumed(job.folder) for piece in part.ranges]
    assert sum(stop - start for _, start, stop in consumed) == end.samples == 8 * end.step


def test_unequal_shares_give_the_mean_over_all_samples(run, linear):
    results = [run(linear, "short", workers=workers).until_end().results for workers in (1, 3)]
    assert results[0]["weight"] == pytest.approx(results[1]["weight"], rel=1e-9)
    assert results[0]["bias"] == pytest.approx(results[1]["bias"], rel=1e-9)
    assert results[0]["weight"] > 0.3


@pytest.mark.parametrize("transfer", ["background", "peer"])
def test_a_schedule_goes_on_in_a_worker_that_joined(run, linear, transfer):
    job = run(linear, transfer)
    job.until_step(10)
    moved = job.do(action="migrate", leave=[0])
    assert (moved["status"], moved["slots"]) == ("done", [1])
    job.until_step(moved["step"] + 1)
    job.do(action="finish")
    end = job.until_end()
    assert end.results["lr"] == pytest.approx(0.1 / end.step)
    assert ("cannot be replayed" in job.logs()) == (transfer == "peer")


def test_profile_measures_every_size_and_goes_back(run, linear):
    job = run(linear, "slow")
    assert job.do(action="scale_out", to=2)["status"] == "retry"  # it is only starting
    job.until_step(1)
    found = job.do(action="profile", min=1, max=3, steps=5)
    rows = {row["workers"]: row for row in found["profile"]}
    assert list(rows) == [1, 2, 3]
    for workers, row in rows.items():
        assert 0 < row["samples_per_s"] <= 8 / 0.02
        assert row["samples_per_s"] in (pytest.approx(r) for r in rates(job.folder, workers, 5))
    per_worker = {workers: row["samples_per_s"] / workers for workers, row in rows.items()}
    for workers, row in rows.items():
        efficiency = per_worker[workers] / max(per_worker.values())
        assert row["efficiency"] == pytest.approx(efficiency)
    assert len(job.job.slots) == 1
    assert worlds(job.folder) == [1, 3, 2, 1]


def test_workers_join_and_leave_by_their_slots(run, linear):
    job = run(linear)
    job.until_step(1)
    assert job.do(action="scale_out", join=[3, 2])["slots"] == [0, 3, 2]
    assert job.do(action="scale_in", leave=[0])["slots"] == [3, 2]  # the only founder
    for action, slots, reason in (
        ("scale_out", {"join": [1, 3]}, "slots [3] are not free"),
        ("scale_out", {"join": [4]}, "slots [4] are not free"),
        ("scale_in", {"leave": [0, 2]}, "no worker is on slots [0]"),
        ("scale_in", {"leave": [2, 3]}, "there are 2 workers; a scale-in is to 1 or more"),
    ):
        answer = job.do(action=action, **slots)
        assert (answer["status"], answer["reason"]) == ("failed", reason)
    job.until_step(job.job.step + 5)
    job.do(action="finish")
    end = job.until_end()
    assert worlds(job.folder) == [1, 3, 2]
    assert count_samples(job.folder, end.step) == (0, 0)


def rates(folder, workers, num_steps):
    """Samples per second of so many steps, of any that these workers made one after another."""
    steps = [line for line in read_lines(folder / "steps.jsonl") if line["world"] == workers]
    for first, last in zip(steps, steps[num_steps - 1 :], strict=False):
        if first["generation"] == last["generation"]:
            yield 8 * num_steps / (last["started"] + last["duration_s"] - first["started"])


def test_profile_without_a_range_measures_the_job_as_it_is(run, linear):
    job = run(linear, workers=2)
    job.until_step(1)
    found = job.do(action="profile", steps=3)
    assert [row["workers"] for row in found["profile"]] == [2]
    assert worlds(job.folder) == [2]


def test_a_request_that_lacks_something_says_what(run, linear):
    job = run(linear)
    job.until_step(1)
    assert job.do(action="scale_out")["reason"] == "a request 'scale_out' needs 'to'"


@pytest.mark.parametrize(
    ("argument", "reason"),
    [("no-step", "without optimizer.step"), ("twice", "called twice")],
)
def test_a_script_that_cannot_work_is_told_why(run, linear, argument, reason):
    end = run(linear, argument).until_end()
    assert end.kind is ReportKind.FAILED
    assert reason in end.reason


def test_alone_the_script_is_a_plain_one(linear, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(linear), "short"])
    names = runpy.run_path(str(linear), run_name="__main__")
    assert isinstance(names["model"], names["torch"].nn.Linear)
    assert names["model"].weight[0, 3].item() > 0.3


def test_run_and_requests_from_another_shell(linear, tmp_path):
    folder = tmp_path / "job"
    command = [sys.executable, "-m", "systems.script"]

    def ask_for(action, *arguments):
        done = subprocess.run(
            [*command, action, str(folder), *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, json.loads(done.stdout)

    run = subprocess.Popen(
        [*command, "run", str(linear), "--slots", "2", "--job", str(folder), "--", "of-the-script"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert run.stdout.readline() == f"job {folder}\n"
        assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600
        assert run.stdout.readline() == "step 1: 1 workers\n"
        for action, arguments, code, status in (
            ("scale-in", ["--to", "1"], 1, "failed"),
            ("scale-in", ["--leave", "1"], 1, "failed"),
            ("scale-out", ["--to", "3"], 1, "failed"),
            ("scale-out", ["--join", "0"], 1, "failed"),
            ("migrate", ["--leave", "0"], 0, "done"),
            ("finish", [], 0, "done"),
        ):
            found, answer = ask_for(action, *arguments)
            assert (found, answer["status"]) == (code, status), answer
        rest, _ = outcome(run, TIMEOUT_S)
        moved, end = rest.splitlines()
        assert moved.endswith(": 1 workers")
        assert json.loads(end)["samples"] == 8 * json.loads(end)["step"]
        assert run.returncode == 0
        assert not (folder / FILE).exists()
    finally:
        run.kill()


def test_wrong_command_lines(tmp_path, capsys):
    (tmp_path / "old.log").touch()
    wrong = ["--workers", "9", "--start", "standby", "--job", str(tmp_path)]
    assert main(["run", "nothing.py", *wrong]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert "use --start spare" in lines[-1]
    assert main(["status", str(tmp_path)]) == 1
    assert "no job runs" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    with pytest.raises(ControlError):
        ask(tmp_path, Status(), 1.0)

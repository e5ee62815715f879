"""A workload of a few hundred parameters with everything that can go wrong in it: dropout,
BatchNorm buffers, an optimizer with state. Its options can make it fail on purpose."""

import os
import signal
import time
from contextlib import suppress

import torch
from torch import nn

from workloads.emulated_device import occupy


class Looked(nn.Module):
    """Adds a row of a table, whose gradient is sparse; the module that looks it up may hide it."""

    def __init__(self, *, is_module):
        super().__init__()
        self.is_module = is_module
        self.table = nn.Embedding(2, 2, sparse=is_module)

    def forward(self, value):
        ids = (value[:, 0] > 0).long()
        if self.is_module:
            return value + self.table(ids)
        return value + nn.functional.embedding(ids, self.table.weight, sparse=True)


class Put(nn.Module):
    """Uses an operator that has no deterministic kernel."""

    def forward(self, value):
        ids = torch.arange(value.numel())
        return torch.zeros_like(value).put_(ids, value)


class Tiny:
    """A classifier of sums of random vectors."""

    name = "tiny"
    size = "tiny"

    def __init__(
        self,
        num_samples=97,
        optimizer="sgd",
        step_s=0.0,
        fail_build=False,
        fail_at_step=None,
        die_at_step=None,
        die_once_marker=None,
        die_evaluating_marker=None,
        evaluating_marker=None,
        width=16,
        sample_s=0.0,
        clip=0.0,
        autocast=False,
        unused=False,
        refused="",
        late_build=None,
        late_build_s=0.0,
        builders=None,
        builds=None,
        otherwise="exit",
        loose=None,
        busy_at_step=None,
        busy_s=0.0,
        second_stops_at_step=None,
    ):
        if fail_build:
            raise ValueError("this workload was told to fail")
        self.num_samples = num_samples
        self._optimizer = optimizer
        self._step_s = step_s
        self._sample_s = sample_s
        self._fail_at_step = fail_at_step
        self._die_at_step = die_at_step
        self._die_once_marker = die_once_marker
        self._die_evaluating_marker = die_evaluating_marker
        self._evaluating_marker = evaluating_marker
        self._width = width
        self._clip = clip
        self._autocast = autocast
        self._unused = unused
        self._refused = refused
        self._late_build = late_build
        self._late_build_s = late_build_s
        self._builders = builders
        self._builds = builds
        self._otherwise = otherwise
        self._loose = loose
        self._busy_at_step = busy_at_step
        self._busy_s = busy_s
        self._second_stops_at_step = second_stops_at_step
        rng = torch.Generator().manual_seed(5)
        self._x = torch.randn(num_samples, 8, generator=rng)
        self._y = (self._x.sum(1) > 0).long()

    def build_model(self, seed):
        if self._late_build is not None and not os.path.exists(self._late_build):
            with suppress(FileExistsError):  # another may be the one that is late
                os.close(os.open(self._late_build, os.O_CREAT | os.O_EXCL))
                time.sleep(self._late_build_s)
        if self._builders is not None:
            with open(self._builders, "a") as file:
                file.write(f"{os.getpid()}\n")
        if self._builds is not None:
            with open(self._builders) as file:
                if len(file.readlines()) > self._builds:
                    _fail_to_build(self._otherwise)
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Linear(8, self._width),
            nn.BatchNorm1d(self._width),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(self._width, 2),
        )
        if self._refused == "sync_batch_norm":
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        if self._refused.startswith("sparse"):
            model.append(Looked(is_module=self._refused == "sparse"))
        if self._refused == "put":
            model.append(Put())
        if self._unused:
            model.register_parameter("idle", nn.Parameter(torch.zeros(3)))
        if self._loose is not None:
            drawn = torch.randn(3)  # of the seed, and of no state
            model.loose = drawn if self._loose == "tensor" else [drawn]
        return model

    def build_optimizer(self, model):
        if self._optimizer == "adamw":
            return torch.optim.AdamW(model.parameters(), lr=0.01)
        if self._optimizer == "adafactor":
            return torch.optim.Adafactor(model.parameters(), lr=0.01)
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def samples(self, ids, epochs=None):
        ids = torch.as_tensor(ids)
        return {"x": self._x[ids], "y": self._y[ids]}

    def loss(self, model, batch):
        occupy(self._sample_s * len(batch["y"]))
        with torch.autocast("cpu", torch.bfloat16, enabled=self._autocast):
            return nn.functional.cross_entropy(model(batch["x"]), batch["y"])

    def update(self, optimizer, global_batch, step, samples=None):
        if step == self._fail_at_step:
            raise ArithmeticError("this workload was told to fail in a step")
        if step == self._die_at_step and not os.path.exists(self._die_once_marker):
            _die(self._die_once_marker)
        if step == self._second_stops_at_step and _is_second():
            # Not before the first worker has its sums of this step, which travel by threads.
            while not os.path.exists(self._evaluating_marker):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGSTOP)
        if step == self._busy_at_step:
            _stay_busy(self._busy_s)
        if self._step_s:
            time.sleep(self._step_s)
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * global_batch / 16 / (1 + step / 100)
        if self._clip:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            nn.utils.clip_grad_norm_(parameters, self._clip)
        optimizer.step()

    def evaluate(self, model):
        marker = self._die_evaluating_marker
        if marker is not None and not os.path.exists(marker):
            _die(marker)
        if self._evaluating_marker is not None:
            _stay_until_gone(self._evaluating_marker)
        model.eval()
        device = next(model.parameters()).device
        with torch.no_grad():
            right = (model(self._x.to(device)).argmax(1).cpu() == self._y).double().mean()
        model.train()
        return {"accuracy": float(right)}


def _is_second():
    """Whether this process has rank 1 of a job that restarts its workers."""
    log = os.readlink("/proc/self/fd/1")
    return os.environ.get("RANK") == "1" or log.endswith("-001.log")


def _stay_busy(seconds):
    """Keep the interpreter from all other threads for so long; 0: for ever, but share it."""
    while not seconds:
        pass
    began, count = time.perf_counter(), 10**6
    sum(range(count))
    sum(range(int(count * seconds / (time.perf_counter() - began))))  # one call, which yields never


def _stay_until_gone(marker):
    """Say by a file which process is here, and go on when it is taken away."""
    with open(marker, "w") as file:
        file.write(str(os.getpid()))
    while os.path.exists(marker):
        time.sleep(0.005)


def _fail_to_build(how):
    """End this process, or hang; ``fork``: end it and leave a child that hangs; ``kill``: by a
    signal; ``parent``: and all that was forked beside it."""
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "parent":
        os.kill(os.getppid(), signal.SIGKILL)
    if how == "hang" or (how == "fork" and os.fork() == 0):
        while True:
            signal.pause()
    os._exit(5)


def _die(marker):
    with open(marker, "w"):
        os.kill(os.getpid(), 9)

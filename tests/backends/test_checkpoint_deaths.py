"""A process that dies while it saves leaves the last checkpoint whole, and perhaps the new one."""

import os
import signal
import sys

import torch
from torch import nn

from systems.runtime.worker.checkpoint import Checkpoint, keep_only, load, newest, save
from tests.backends.members import CONTEXT


def trained(steps):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().mean().backward()
        optimizer.step()
    return model, optimizer


def saved(folder, steps):
    return save(folder, Checkpoint(steps, {}, 0), *trained(steps))


def save_and_die(folder, told, number):
    """Save, tell of it and remove the one before, but die just before the folder is touched for
    this time, counted from 1."""
    seen = 0

    def watch(event, arguments):
        nonlocal seen
        if event in ("open", "os.rename", "os.remove") and str(folder) in str(arguments[0]):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    manifest = saved(folder, 2)
    told.touch()
    keep_only(folder, manifest)


def test_whenever_it_dies_a_whole_checkpoint_is_there_and_nothing_is_left_for_ever(tmp_path):
    number, found, ways = 0, [], set()
    exit_code = -signal.SIGKILL
    while exit_code == -signal.SIGKILL:
        number += 1
        folder, told = tmp_path / str(number), tmp_path / f"{number}.told"
        known = saved(folder, 1)
        process = CONTEXT.Process(target=save_and_die, args=(folder, told, number))
        process.start()
        process.join(60)
        exit_code = process.exitcode
        found.append(load(newest(folder), *trained(0), verify=True).step)
        if not told.exists():
            assert load(known, *trained(0), verify=True).step == 1
        ways.add((found[-1], told.exists()))
        keep_only(folder, saved(folder, 3))
        assert {path.stem for path in folder.iterdir()} == {"step-00000003"}
    assert exit_code == 0
    assert found == sorted(found), "once it is there it stays"
    assert ways == {(1, False), (2, False), (2, True)}
    assert len(found) > 6

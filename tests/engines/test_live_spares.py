"""Spares in a live run whose steps are mostly credited."""

from types import SimpleNamespace

import pytest

from harness.contracts.process import Spares, Warmth
from harness.engines.live import spares as live_spares
from harness.engines.live.spares import LiveSpares
from harness.results.store import load_run
from tests.config.commands import command

__all__ = ["command"]


@pytest.mark.parametrize("start", ["spare", pytest.param("standby", marks=pytest.mark.long)])
def test_what_is_skipped_leaves_time_to_replace_spares(tmp_path, command, start):
    script = [f"{{job: 0, at_s: {1000 * n}, slots: {1 + n % 2}}}" for n in range(1, 5)]
    answer = command(
        *("trace=edl_one_job", "trace.reader.constants.workload=toy", "workload=toy"),
        *("trace.reader.constants.work=1e9", "cluster=cpu2", "profile=recorded", "engine=live"),
        *("scheduler=scripted", f"scheduler.script=[{','.join(script)}]"),
        *("backend=stop_resume", f"backend.start={start}"),
    )
    assert answer.code == 0, answer.err
    (path,) = command.results.iterdir()
    metrics = load_run(path).metrics
    assert metrics["spares_missed"] == 0
    assert metrics["spares_used"] == 1 + 2 + 1 + 2 + 1
    assert metrics["executed_share"] < 0.1


def test_spares_are_waited_for_so_long_and_no_longer(monkeypatch):
    standing, now_s = Spares(wanted=2, ready=1), 0.0
    launcher = SimpleNamespace(spares=lambda: standing)
    setup = SimpleNamespace(launcher=launcher, backend=SimpleNamespace(warmth=Warmth.SPARE))
    monkeypatch.setattr(live_spares.time, "monotonic", lambda: now_s)
    spares = LiveSpares(setup, 10.0)
    assert spares.are_awaited()
    now_s = 10.5
    assert not spares.are_awaited()
    for ready in (0, 1):
        standing = Spares(wanted=2, ready=ready, used=1)
        assert spares.are_awaited(), "another is to be made, or is"
        now_s += 10.5
        assert not spares.are_awaited()
    standing = Spares(wanted=2, ready=2)
    assert not spares.are_awaited()
    standing = Spares(wanted=2, ready=1)
    assert spares.are_awaited()
    setup.backend.warmth = Warmth.PREIMPORTED
    assert not LiveSpares(setup, 10.0).are_awaited()

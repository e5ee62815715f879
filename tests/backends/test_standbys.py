"""Workers that were standbys: spares that had built what the job trains."""

from dataclasses import replace

import pytest

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import Change, ChangeKind
from harness.contracts.job import JobSpec
from harness.contracts.process import Warmth
from harness.contracts.workload import WorkloadSpec
from harness.engines.live.memory_estimate import estimated_memory_bytes
from harness.engines.setup import EngineSetup
from harness.metrics.samples_lost import STEPS_UNTIL_KNOWN
from systems.backends.stop_free import StopFree
from systems.backends.stop_resume import StopResume
from systems.backends.virtual_thread import VirtualThread
from systems.backends.warm_restart import WarmRestart
from systems.launchers.local import SPARE_BYTES, Local
from systems.launchers.spare_pool import MOST_FAILURES
from systems.runtime.wire.recipe import Recipe
from tests.backends.world import (
    CLUSTER,
    ENDS,
    TINY,
    World,
    pids,
    waiting_spares,
    warm_launcher,
    workers,
)
from tests.elastic.histories import check_samples, forced, history, stop_free

KINDS = (StopFree, WarmRestart, StopResume)


def builders(path):
    return [int(line) for line in path.read_text().splitlines()]


def until_all_have_built(world, launcher, path, step):
    """Until training was at rest for so long that standbys were made, and they have built."""
    world.until_step(step + STEPS_UNTIL_KNOWN)
    while not pids(waiting_spares()) <= set(builders(path)) or launcher.spares().ready < 4:
        world.poll(0.2)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_newcomer_has_built_what_it_trains_before_it_is_asked_for(
    worlds, launcher, tmp_path, kind
):
    path = tmp_path / "builders"
    world = worlds(kind(start="standby"))
    assert launcher.spares().ready == CLUSTER.num_slots  # of no job yet
    started = world.until_change(world.start((0,), step_s=0.01, builders=str(path)))
    until_all_have_built(world, launcher, path, started.step)
    known = builders(path)
    ready = pids(waiting_spares())
    assert len(ready) == CLUSTER.num_slots
    world.do(ChangeKind.RESCALE, (0, 1))
    newcomers = pids(workers()) & ready
    assert len(newcomers) == (2 if kind is StopResume else 1)
    assert builders(path)[: len(known)] == known
    assert not newcomers & set(builders(path)[len(known) :])


def test_what_standbys_did_before_changes_no_bit(launcher, tmp_path):
    path = tmp_path / "builders"
    world = stop_free(launcher, tmp_path / "free", start="standby")
    started = world.until_change(world.start((0, 1), step_s=0.01, builders=str(path)))
    until_all_have_built(world, launcher, path, started.step)
    ready = pids(waiting_spares())
    world.do(ChangeKind.RESCALE, (0, 1, 2, 3))
    assert len(pids(workers()) & ready) == 2
    world.do(ChangeKind.RESCALE, (2, 3))
    ready = pids(waiting_spares())
    world.do(ChangeKind.RESCALE, (1, 2, 3))  # 4 samples each, which no standby has guessed
    assert len(pids(workers()) & ready) == 1
    world.backend.set_target_step("job", 0)
    end = world.until_end()
    world.backend.close()
    segments = history(world.job_dir(), end.step)
    assert [segment.num_workers for segment in segments] == [2, 4, 2, 3]
    assert end.results == forced(launcher, tmp_path / "forced", segments)
    check_samples(world.job_dir(), end)


def test_a_job_from_scratch_takes_only_a_program_of_its_own_seed(worlds, launcher, tmp_path):
    ends = []
    for start in ("preimported", "standby"):
        path = tmp_path / start
        world = worlds(StopFree(start=start))
        first = world.until_change(world.start((0,), step_s=0.01, builders=str(path)))
        if start == "standby":
            until_all_have_built(world, launcher, path, first.step)
        for job_id, slots, seed in (("same", (1, 2), 7), ("other", (3,), 8)):
            details, used = {"step_s": 0.01, "builders": str(path)}, launcher.spares().used
            world.start(slots, steps=20, job_id=job_id, seed=seed, **details)
            ends.append(world.until_end(job_id=job_id).results)
            used = launcher.spares().used - used
            assert used == (len(slots) if start == "standby" else 0)
        world.backend.close()
    assert ends[:2] == ends[2:]
    assert ends[0] != ends[1]


def test_standbys_hear_of_a_second_program_and_keep_the_first(worlds, launcher, tmp_path):
    path = tmp_path / "builders"
    world = worlds(StopFree(start="standby"))
    details = {"step_s": 0.01, "builders": str(path)}
    first = world.until_change(world.start((0,), **details))
    until_all_have_built(world, launcher, path, first.step)
    world.until_change(world.start((1,), job_id="second", width=8, **details))
    while sum(builders(path).count(pid) == 4 for pid in pids(waiting_spares())) < 4:
        world.poll(0.2)
    ready, known = pids(waiting_spares()), builders(path)
    world.do(ChangeKind.RESCALE, (0, 2))
    world.do(ChangeKind.RESCALE, (1, 3), job_id="second")
    assert len(pids(workers()) & ready) == 2
    assert not pids(workers()) & ready & set(builders(path)[len(known) :])


def test_a_program_that_cannot_be_built_leaves_standbys_to_the_others(worlds, launcher, tmp_path):
    path = tmp_path / "builders"
    world = worlds(StopFree(start="standby"))
    failing = world.start((0,), job_id="failing", fail_build=True)
    world.until(lambda report: report.kind is ReportKind.FAILED and report.change_id == failing)
    started = world.until_change(world.start((0,), step_s=0.01, builders=str(path)))
    until_all_have_built(world, launcher, path, started.step)
    assert not launcher.spares().failure
    ready = pids(waiting_spares())
    world.do(ChangeKind.RESCALE, (0, 1))
    assert len(pids(workers()) & ready) == 1


@pytest.mark.parametrize(
    ("otherwise", "why"),
    [
        ("exit", "a spare could not be prepared: exited with 5"),
        ("fork", "a spare could not be prepared: exited with 5"),
        ("kill", "a spare could not be prepared: killed by SIGKILL"),
        pytest.param("hang", "preparing one took longer than 20.0 s", marks=pytest.mark.long),
    ],
)
def test_a_program_that_takes_its_standbys_along_is_left_out(
    worlds, launcher, tmp_path, capsys, otherwise, why
):
    bad, good = tmp_path / "bad", tmp_path / "good"
    worlds(StopFree(start="preimported")).backend.close()  # the imports are not to be timed
    timeout_s = 20.0 if otherwise == "hang" else 300.0
    world = worlds(StopFree(start="standby", start_timeout_s=timeout_s))
    details = {"step_s": 0.01, "builders": str(bad), "builds": 1, "otherwise": otherwise}
    world.until_change(world.start((3,), job_id="bad", **details))
    started = world.until_change(world.start((0,), step_s=0.01, builders=str(good)))
    until_all_have_built(world, launcher, good, started.step)
    assert not launcher.spares().failure
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"standbys do without {TINY}: {why}")
    ready = pids(waiting_spares())
    world.do(ChangeKind.RESCALE, (0, 1))
    assert len(pids(workers()) & ready) == 1


@pytest.mark.long
def test_standbys_do_without_a_program_that_ends_the_process_that_forks(tmp_path, capsys):
    path, launcher = tmp_path / "builders", warm_launcher()
    launcher.open()
    world = World(StopFree(start="standby"), launcher, tmp_path / "jobs")
    said = ""
    try:
        details = {"builders": str(path), "builds": 1, "otherwise": "parent"}
        world.until_change(world.start((0,), step_s=0.01, **details))
        end = world.until(lambda report: report.kind in ENDS)
        assert (end.kind, end.of_machine) == (ReportKind.LOST, True)
        assert "the pre-importing process has died: killed by SIGKILL" in end.reason
        while "standbys do without" not in said or launcher.spares().ready < CLUSTER.num_slots:
            world.poll(0.2)
            said += capsys.readouterr().err
        assert len(builders(path)) == 1 + MOST_FAILURES, "the worker, and the standbys"
    finally:
        world.backend.close()
        launcher.close()
    assert said.count("the pre-importing process has died") == MOST_FAILURES + 1
    assert f"standbys do without {TINY}: a spare could not be prepared: the pre-imp" in said


@pytest.mark.parametrize("loose", ["tensor", pytest.param("list", marks=pytest.mark.long)])
def test_tensors_that_are_no_state_come_from_the_seed_of_their_own_job(
    worlds, launcher, tmp_path, loose
):
    path = tmp_path / "builders"
    world = worlds(StopFree(start="standby"))
    details = {"step_s": 0.01, "builders": str(path), "loose": loose}
    first = world.until_change(world.start((0,), **details))
    until_all_have_built(world, launcher, path, first.step)
    world.until_change(world.start((1,), job_id="other", seed=8, **details))
    ready, known = pids(waiting_spares()), builders(path)
    world.do(ChangeKind.RESCALE, (0, 2))
    assert builders(path) == known
    world.do(ChangeKind.RESCALE, (1, 3), job_id="other")
    (newcomer,) = builders(path)[len(known) :]
    assert newcomer in ready & pids(workers())


def test_virtual_workers_cannot_be_built_in_advance():
    with pytest.raises(ValueError, match=r"start is 'standby', but .*; use start=spare"):
        VirtualThread(start="standby")
    assert Warmth.STANDBY not in VirtualThread.warmths


def test_what_standbys_have_built_counts_in_the_memory_that_a_run_needs(tmp_path):
    def job(number, workload):
        return JobSpec(str(number), 0.0, workload, 1, 1.0, 8)

    setup = EngineSetup(
        cluster=CLUSTER,
        jobs=(job(0, "a"), job(1, "b"), job(2, "b")),
        profile=None,
        backend=StopFree(start="standby"),
        launcher=Local(),
        workloads={},
        seed=0,
        run_dir=tmp_path,
        memory_bytes_per_worker={"a": 100, "b": 10},
    )
    training = int(1.5 * CLUSTER.num_slots * 100)
    assert estimated_memory_bytes(setup) == training + CLUSTER.num_slots * (SPARE_BYTES + 110)
    spared = replace(setup, backend=StopFree(start="spare"))
    assert estimated_memory_bytes(spared) == training + CLUSTER.num_slots * SPARE_BYTES


@pytest.mark.parametrize(
    ("batch", "num_slots", "batches"),
    [(8, 1, (8, 4)), (8, 2, (4, 2)), (8, 4, (2,)), (7, 2, (4, 2)), (1, 1, (1,))],
)
def test_a_recipe_guesses_the_shares_of_the_batch(batch, num_slots, batches):
    spec = WorkloadSpec("tiny", TINY, {"width": 8})
    job = JobSpec("job", 0.0, "tiny", num_slots, 1.0, batch)
    change = Change(0, ChangeKind.START, job, (), tuple(range(num_slots)), batch)
    recipe = Recipe.of(spec, 7, change, is_reduced=True, common=False)
    assert recipe.batches == batches
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert replace(recipe, seed=8, batches=()).identity == recipe.identity
    assert replace(recipe, options={}).identity != recipe.identity

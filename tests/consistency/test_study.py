"""The study easyscale_replay: every job's slots change, however slow the machine is."""

import random
from dataclasses import replace

import pytest

from harness.configuration.instantiate import build
from harness.configuration.study import load_study
from harness.replay import replay
from harness.results.store import RunStore
from harness.run.plan import plan
from harness.sweep.runner import read_words
from tests.config.commands import command

__all__ = ["command"]
STUDY = load_study("easyscale_replay")


def sizes(grants):
    """How many slots each job held, by job."""
    found = {}
    for grant in grants:
        found.setdefault(grant.job_id, set()).add(len(grant.slots))
    return found


@pytest.fixture(scope="module")
def simulated():
    """The study in simulation: same trace, cluster, curves and scheduler; costs of stop_resume,
    which are higher."""
    words = [word for word in STUDY.base if not word.startswith(("engine", "backend"))]
    costs = ("backend=stop_resume", "backend.start=preimported", "engine=simulated")
    return plan(read_words([*words, *costs]))


@pytest.mark.parametrize("slower", [0.9, 1.0, 1.5, 3.0, 10.0])
def test_the_slots_of_every_job_change(simulated, slower):
    """``slower``: than the curves say; and every job up to twice that by itself."""
    config, drawn = simulated.config, random.Random(f"{slower}")
    for trial in range(8):
        jobs = tuple(
            replace(job, work_samples=job.work_samples * slower * drawn.uniform(1, 1 + trial % 2))
            for job in simulated.setup.jobs
        )
        records = replay(
            jobs=jobs,
            cluster=simulated.setup.cluster,
            scheduler=build(config.scheduler, "scheduler"),
            placement=simulated.placement,
            engine=simulated.engine.open(replace(simulated.setup, jobs=jobs)),
            profile=simulated.setup.profile,
        )
        found = sizes(records.grants)
        assert len(found) == 4
        assert all(len(counts) > 1 for counts in found.values()), found


def test_every_step_is_executed_and_checked():
    for point in STUDY.points():
        config = read_words([*STUDY.base, *point.overrides])
        assert config.engine["check_reference"]
        assert not config.engine["fast_forward"]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_study_finds_the_same_bits(command):
    """At half of its length, to be quick: too short on a slow machine for every job to change its
    slots, which is tested above in simulation."""
    shorter = ("trace.transforms.3.factor=0.0022", "trace.transforms.4.factor=4000")
    answer = command("study=easyscale_replay", *shorter)
    assert answer.code == 0, answer.out + answer.err
    runs = [RunStore(command.results).find(path.name) for path in command.results.iterdir()]
    assert len(runs) == 2
    for run in runs:
        assert run.metrics["bitwise_equal"] == 1
        assert run.metrics["jobs_finished"] == 4
        assert run.metrics["rescales"] > 0

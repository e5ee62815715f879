"""What schedulers are shown of speeds where it is wrong; everything else goes by the true ones."""

from dataclasses import replace

import pytest

from harness.profiles import RECORDED, ProfileError, load_profile
from harness.profiles.curves import Family
from harness.profiles.shown import Shown
from harness.replay import replay
from systems.placements.consolidated import Consolidated
from systems.schedulers.afs import Afs
from systems.schedulers.edf import Edf
from systems.schedulers.elasticflow import ElasticFlow
from systems.schedulers.sia.scheduler import Sia
from systems.schedulers.srtf import Srtf
from tests.replay.worlds import cluster, engine, job, profile
from tests.schedulers.world import Recorder, deadline_job

CELLS = {8: {1: 10.0, 2: 18.0, 4: 30.0}, 16: {1: 12.0, 2: 22.0, 4: 40.0}}


def known(shown=None, per_type=False):
    """Two workloads of the same speeds, and ``recorded``; ``fast`` devices are twice as fast."""
    families = {name: Family(CELLS) for name in ("net", "other")} | {RECORDED: Family.linear()}
    if per_type:
        twice = {b: {w: 2 * speed for w, speed in row.items()} for b, row in CELLS.items()}
        families["net"].devices = {"fast": Family(twice)}
    return replace(profile(), families=families, shown=shown)


def factors(told, workload="net", device_type=None):
    """Shown over true speed of every measured cell."""
    true = known(per_type=True)
    return {
        (batch, slots): told.throughput(workload, batch).samples_per_s(slots, None, device_type)
        / true.throughput(workload, batch).samples_per_s(slots, None, device_type)
        for batch, row in CELLS.items()
        for slots in row
    }


def test_without_an_error_they_see_the_profile_itself():
    plain = known()
    assert plain.as_shown(seed=3) is plain
    told = known(Shown(speed_error=0.0)).as_shown(seed=3)
    assert set(factors(told).values()) == {1.0}


def test_a_curve_is_wrong_as_a_whole_and_each_by_itself():
    told = known(Shown(0.4), per_type=True).as_shown(seed=3)
    found = [factors(told), factors(told, "other"), factors(told, "net", "fast")]
    of_each = [own[8, 1] for own in found]
    for own, factor in zip(found, of_each, strict=True):
        assert list(own.values()) == pytest.approx([factor] * 6)
        assert 0.6 <= factor <= 1.4
    assert len(set(of_each)) == 3


def test_each_measured_speed_is_wrong_by_itself():
    told = known(Shown(0.4, "speed"), per_type=True).as_shown(seed=3)
    drawn = [*factors(told).values(), *factors(told, "other").values()]
    drawn += factors(told, "net", "fast").values()
    assert len({round(factor, 9) for factor in drawn}) == 18
    assert 0.6 <= min(drawn) < 0.9 < 1.1 < max(drawn) <= 1.4
    between = told.throughput("net", 8).samples_per_s(3)
    ends = [told.throughput("net", 8).samples_per_s(slots) for slots in (2, 4)]
    assert between == pytest.approx(sum(ends) / 2), "a straight line, between wrong ends"


@pytest.mark.parametrize("each", ["curve", "speed"])
def test_a_seed_has_its_errors_and_a_larger_error_makes_them_larger(each):
    told = known(Shown(0.2, each)).as_shown(seed=3)
    assert factors(told) == factors(known(Shown(0.2, each)).as_shown(seed=3))
    assert factors(told) != factors(known(Shown(0.2, each)).as_shown(seed=4))
    larger = factors(known(Shown(0.6, each)).as_shown(seed=3))
    thrice = {cell: 1 + 3 * (factor - 1) for cell, factor in factors(told).items()}
    assert larger == pytest.approx(thrice)


@pytest.mark.parametrize("each", ["curve", "speed"])
def test_the_line_of_unknown_programs_is_one_speed(each):
    curve = known(Shown(0.4, each)).as_shown(seed=3).throughput(RECORDED, 8)
    factor = curve.samples_per_s(1)
    assert factor != 1.0
    line = [curve.samples_per_s(num_slots) for num_slots in (0, 2, 64)]
    assert line == pytest.approx([0, 2 * factor, 64 * factor])


@pytest.mark.parametrize(
    ("shown", "fact"),
    [
        ({"speed_error": 1.0}, r"shown: speed_error is 1.0; it must lie in \[0, 1\)"),
        ({"speed_error": "much"}, "shown: speed_error is 'much'; it must"),
        ({"each": "job"}, "shown: each is 'job'; known: curve, speed"),
        ({"eror": 0.1}, "unknown key 'eror'; known: speed_error, each"),
        (0.1, "shown: is 0.1; give speed_error, each"),
    ],
)
def test_impossible_errors_are_refused(shown, fact):
    true = profile()
    config = {
        "name": "test",
        "provenance": {k: v for k, v in true.provenance.items() if k not in ("digest", "curves")},
        "throughput": {},
        "rescale_costs": [{"preparation_s": 0.0, "pause_s": 0.0}],
        "shown": shown,
    }
    with pytest.raises(ProfileError, match=fact):
        load_profile(config)


def test_a_profile_keeps_what_is_shown_in_its_digest_and_provenance():
    plain = load_profile({"path": "a100_stop_resume_30s.yaml"})
    wrong = load_profile({"path": "a100_wrongly_shown.yaml"})
    assert wrong.provenance["shown"] == {"speed_error": 0.0, "each": "curve"}
    assert plain.digest != wrong.digest
    assert "shown" not in plain.provenance


@pytest.mark.parametrize("scheduler", [Afs, Edf, ElasticFlow, Srtf, Sia])
@pytest.mark.parametrize("each", ["curve", "speed"])
def test_jobs_train_at_the_true_speeds_whatever_schedulers_are_told(scheduler, each):
    true = known(Shown(0.8, each))
    told = true.as_shown(seed=5)
    jobs = [
        job("alone", 0.0, 2, 180.0, workload="net", elastic=False),
        *(
            replace(deadline_job(f"{n}", 500.0 + 10.0 * n, 1 + n % 3, 400.0, 900.0), workload=name)
            for n, name in enumerate(["net", "other"] * 4)
        ),
    ]
    recorder = Recorder(scheduler())
    records = replay(
        jobs=jobs,
        cluster=cluster(1, 4),
        scheduler=recorder,
        placement=Consolidated(),
        engine=engine(cluster(1, 4), true),
        profile=true,
        shown=told,
    )
    found = {record.job_id: record for record in records.jobs}
    curve = recorder.views[0].jobs["alone"].throughput
    assert curve.samples_per_s(2) == told.throughput("net", 8).samples_per_s(2) != 18.0
    assert found["alone"].finish_s == pytest.approx(10.0)
    assert found["alone"].alone_s == pytest.approx(10.0)
    ends = {record.state for record in records.jobs}
    assert ends <= {"finished", "refused"}
    assert all(
        record.samples_done == record.work_samples
        for record in records.jobs
        if record.state == "finished"
    )

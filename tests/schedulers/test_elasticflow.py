"""ElasticFlow and EDF with elastic scaling in real replays: the paper's examples, promises kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.decision import Grant, Suspend
from systems.schedulers.edf import Edf
from systems.schedulers.edf_admission import EdfAdmission
from systems.schedulers.edf_elastic import EdfElastic
from systems.schedulers.elasticflow import ElasticFlow
from systems.schedulers.shares.min_share import SharePlan, fill_all
from tests.examples import examples
from tests.replay.worlds import cluster, job
from tests.schedulers.chaos import ChaosEngine
from tests.schedulers.curves import curve_profile
from tests.schedulers.world import deadline_job, periods, run

FIGURE_3 = curve_profile({"net": {1: 1.0, 2: 1.5}})
FIGURE_4 = curve_profile({"net": {1: 1.0, 2: 1.5, 4: 2.0}})


def net(job_id, arrival_s, work, deadline_s, **more):
    """A job of the workload ``net``."""
    more = {"workload": "net", "deadline_kind": "hard", **more}
    return job(job_id, arrival_s, 1, work, deadline_s=deadline_s, **more)


def ends(records):
    return {record.job_id: (record.state, record.finish_s) for record in records.jobs}


def met(records):
    return {
        record.job_id
        for record in records.jobs
        if record.state == "finished"
        and record.deadline_s is not None
        and record.finish_s <= record.deadline_s * (1 + 1e-6)
    }


def figure_3():
    return [net("A", 0, 3.0, 3.0), net("B", 0, 3.0, 3.5)]


def test_figure_3_edf_misses_a_deadline():
    records, _ = run(figure_3(), Edf(), cluster(1, 2), known=FIGURE_3)
    assert ends(records) == {"A": ("finished", 2.0), "B": ("finished", 4.0)}


def test_figure_3_edf_with_admission_drops_it():
    records, _ = run(figure_3(), EdfAdmission(), cluster(1, 2), known=FIGURE_3)
    assert ends(records) == {"A": ("finished", 2.0), "B": ("refused", 0.0)}


@pytest.mark.parametrize("kind", [ElasticFlow, EdfElastic])
@pytest.mark.parametrize("powers", [True, False])
def test_figure_3_one_worker_each_keeps_both(kind, powers):
    scheduler = kind(slot_s=0.5, powers_of_two=powers)
    records, _ = run(figure_3(), scheduler, cluster(1, 2), known=FIGURE_3)
    assert periods(records, "A") == [(0.0, 3.0, 1)]
    assert periods(records, "B") == [(0.0, 3.0, 1)]


@pytest.mark.parametrize("kind", [ElasticFlow, EdfElastic])
def test_figure_4c_one_gpu_then_four(kind):
    """A and B have 3 of 4 GPUs in the first time slot; C has 1 then and 4 in the second."""
    jobs = [
        net("A", 0, 1.0, 1.0, elastic=False),
        job("B", 0, 2, 2.0, deadline_s=1.0, deadline_kind="hard", elastic=False),
        net("C", 0, 3.0, 2.0),
    ]
    records, recorder = run(jobs, kind(slot_s=1.0), cluster(1, 4), known=FIGURE_4)
    assert recorder.decisions[0].changes == {"A": Grant(1), "B": Grant(2), "C": Grant(1)}
    assert periods(records, "C") == [(0.0, 1.0, 1), (1.0, 2.0, 4)]
    assert met(records) == {"A", "B", "C"}


def test_figure_4b_alone_all_four_gpus_are_used_since_they_speed_it_up():
    """Its share is [2, 2]; constraint 7 gives it the other two."""
    records, _ = run([net("C", 0, 3.0, 2.0)], ElasticFlow(1.0), cluster(1, 4), known=FIGURE_4)
    assert periods(records, "C") == [(0.0, 1.5, 4)]
    capped = [net("C", 0, 3.0, 2.0, max_slots=2)]
    records, _ = run(capped, ElasticFlow(1.0), cluster(1, 4), known=FIGURE_4)
    assert periods(records, "C") == [(0.0, 2.0, 2)]


def test_free_slots_go_where_they_save_most():
    """T(w) = w for "recorded"; "net" gains little. 4 slots, both have one by their shares."""
    jobs = [
        net("a", 0, 10.0, 10.0),
        job("b", 0, 1, 10.0, deadline_s=10.0, deadline_kind="hard"),
    ]
    _, recorder = run(jobs, ElasticFlow(1.0), cluster(1, 4), known=FIGURE_4)
    # A second slot costs b nothing, a saves less than it takes: b has two. A step of b to four
    # needs two more, and one is left; a second for a is one.
    assert recorder.decisions[0].changes == {"a": Grant(2), "b": Grant(2)}


def test_hard_deadlines_are_refused_soft_ones_and_none_get_what_is_left():
    jobs = [
        deadline_job("first", 0, 1, 40, 10.0),  # all 4 slots for 10 s
        deadline_job("hard", 0, 1, 1, 10.0),
        job("soft", 0, 1, 4, deadline_s=10.0, deadline_kind="soft"),
        job("none", 0, 1, 4),
    ]
    records, _ = run(jobs, ElasticFlow(1.0), cluster(1, 4))
    assert {i: state for i, (state, _) in ends(records).items()} == {
        "first": "finished",
        "hard": "refused",
        "soft": "finished",
        "none": "finished",
    }
    assert periods(records, "first") == [(0.0, 10.0, 4)]
    # Then they come in order of arrival; with T(w) = w, more slots waste nothing.
    assert periods(records, "none") == [(10.0, 11.0, 4)]
    assert periods(records, "soft") == [(11.0, 12.0, 4)]


def test_jobs_without_a_deadline_start_in_order_of_arrival_and_yield_to_promises():
    """x alone has all 4; beside y each has what wastes least, first come; d needs all 4."""
    jobs = [
        job("x", 0, 1, 40, workload="net"),
        job("y", 1, 1, 40, workload="net"),
        deadline_job("d", 4, 1, 16, 8.0),
    ]
    records, recorder = run(jobs, ElasticFlow(1.0), cluster(1, 4), known=FIGURE_4)
    assert recorder.decisions[0].changes == {"x": Grant(4)}
    assert recorder.decisions[1].changes == {"x": Grant(2), "y": Grant(2)}
    assert recorder.decisions[2].changes == {"x": Suspend(), "y": Suspend(), "d": Grant(4)}
    assert "d" in met(records)


def test_among_jobs_that_waste_nothing_the_first_takes_all_unless_zero_comes_first():
    jobs = [job("x", 0, 1, 40), job("y", 0, 1, 40)]
    _, recorder = run(jobs, ElasticFlow(1.0), cluster(1, 4))
    assert recorder.decisions[0].changes == {"x": Grant(4)}
    _, recorder = run(jobs, ElasticFlow(1.0, zero_first=True), cluster(1, 4))
    assert recorder.decisions[0].changes == {"x": Grant(2), "y": Grant(2)}


def test_what_happens_within_a_time_slot_waits_for_the_next():
    """a ends at 3 s and b arrives at 4; both are seen at 10."""
    jobs = [deadline_job("a", 0, 1, 12, 20.0), deadline_job("b", 4, 1, 12, 100.0)]
    records, recorder = run(jobs, ElasticFlow(slot_s=10.0), cluster(1, 4))
    assert periods(records, "a") == [(0.0, 6.0, 2)]
    assert periods(records, "b") == [(10.0, 16.0, 2)]
    assert [d.wake_s for d in recorder.decisions[1:3]] == [10.0, 10.0]


def test_a_margin_is_kept_before_the_deadline():
    late = [deadline_job("a", 0, 1, 40, 10.0)]
    for margin_s, state in ((0.0, "finished"), (1.0, "refused")):
        records, _ = run(late, ElasticFlow(1.0, margin_s=margin_s), cluster(1, 4))
        assert records.jobs[0].state == state


def test_edf_with_elastic_scaling_refuses_nobody_and_serves_the_earlier_deadline():
    jobs = [deadline_job("first", 0, 1, 36, 10.0), deadline_job("late", 0, 1, 36, 11.0)]
    records, _ = run(jobs, EdfElastic(1.0), cluster(1, 4))
    assert met(records) == {"first"}
    assert {state for state, _ in ends(records).values()} == {"finished"}


def test_a_job_that_lost_its_slots_for_good_loses_its_promise_and_others_keep_theirs():
    """One of two slots goes down for long: of two jobs that need one each, the later deadline
    cannot be kept, and its job goes on with what is left."""
    where = cluster(1, 2)
    chaos = ChaosEngine(where, 0, outages=((1, 5, 100),))
    jobs = [
        job("a", 0, 1, 20, max_slots=1, deadline_s=21.0, deadline_kind="hard"),
        job("b", 0, 1, 20, max_slots=1, deadline_s=22.0, deadline_kind="hard"),
    ]
    records, _ = run(jobs, ElasticFlow(1.0), where, chaos=chaos)
    assert met(records) == {"a"}
    assert ends(records)["b"][0] == "finished"


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"slot_s": 0.0}, "slot_s is 0.0"), ({"margin_s": -1.0}, "margin_s is -1.0")],
)
def test_options_that_mean_nothing(options, problem):
    for kind in (ElasticFlow, EdfElastic):
        with pytest.raises(ValueError, match=problem):
            kind(**options)


CURVES = {
    "concave": {1: 4.0, 2: 7.0, 3: 9.0, 4: 10.5, 8: 12.0},
    "dips": {1: 4.0, 2: 7.0, 3: 9.0, 4: 8.0, 8: 12.0},
    "flat": {1: 5.0, 2: 5.0},
    "late": {1: 1.0, 2: 1.5, 4: 6.0, 8: 9.0},
}
KNOWN = curve_profile(CURVES)


@st.composite
def tight_traces(draw):
    """Jobs with deadlines that are about as long as their work, and some without."""
    jobs = []
    for index in range(draw(st.integers(2, 12))):
        arrival_s = draw(st.integers(0, 120)) / 4
        slack_s = draw(st.integers(2, 40))
        kind = draw(st.sampled_from(["hard", "hard", "hard", "soft", "none"]))
        low = draw(st.sampled_from([1, 1, 1, 2]))
        jobs.append(
            job(
                f"{index:02d}",
                arrival_s,
                draw(st.integers(low, 4)),
                slack_s * draw(st.integers(1, 10)) / 2,
                workload=draw(st.sampled_from([*CURVES, "recorded"])),
                elastic=draw(st.sampled_from([True, True, True, False])),
                min_slots=low,
                max_slots=draw(st.sampled_from([None, None, 4])),
                deadline_s=None if kind == "none" else arrival_s + slack_s,
                deadline_kind=kind,
            )
        )
    return jobs


PROMISING = {
    "elasticflow": lambda: ElasticFlow(1.0),
    "any count": lambda: ElasticFlow(1.0, powers_of_two=False),
    "long time slots": lambda: ElasticFlow(3.0, zero_first=True),
    "edf with admission": EdfAdmission,
    "gangs with admission": lambda: EdfAdmission(elastic=False),
}


@pytest.mark.parametrize("name", PROMISING)
@settings(deadline=None, max_examples=examples(60))
@given(jobs=tight_traces())
def test_a_job_that_is_admitted_meets_its_deadline(name, jobs):
    """With exact times: changes of slots are free. Everybody else is served in the end."""
    where = cluster(2, 4)
    records, _ = run(jobs, PROMISING[name](), where, known=KNOWN)
    for record in records.jobs:
        if record.deadline_kind == "hard":
            assert record.state == "refused" or record.job_id in met(records)
        else:
            assert record.state == "finished"


CROWD = [
    # samples per second by slots, work, deadline
    ({1: 3.5, 2: 6.75, 4: 11.0, 8: 15.5}, 2.5, 1),
    ({1: 3.25, 2: 6.25}, 0.25, 3),
    ({1: 3.75, 2: 7.5, 4: 14.25}, 26.0, 3),
    ({1: 3.25, 2: 6.25, 4: 11.75}, 35.75, 4),
    ({1: 3.75, 2: 7.0, 4: 12.5}, 48.0, 4),
    ({1: 4.0, 2: 7.75}, 33.5, 5),
    ({1: 4.0}, 11.25, 6),
]
"""Found among 10,000 random sets: all but job 4 are admitted, and one time slot later progressive
filling, a heuristic for such curves, finds no shares for them."""


def crowded():
    """The plans of the replay of ``CROWD``, and its records."""
    jobs = [
        net(f"{i}", 0, work, float(deadline), workload=f"curve {i}", max_slots=max(curve))
        for i, (curve, work, deadline) in enumerate(CROWD)
    ]
    known = curve_profile({f"curve {i}": curve for i, (curve, _, _) in enumerate(CROWD)})
    scheduler = Plans(1.0)
    records, _ = run(jobs, scheduler, cluster(1, 8), known=known)
    return scheduler.plans, records


def rests(before, after):
    """What the plan before has left for the jobs of the plan after."""
    names = [demand.order[1] for demand in before.demands]
    places = [names.index(demand.order[1]) for demand in after.demands]
    return [before.share(place).from_slot(after.start) for place in places]


def test_the_plan_before_is_kept_where_filling_fails():
    (before, kept, *_), records = crowded()
    assert met(records) == {"0", "1", "2", "3", "5", "6"}
    assert fill_all(kept.demands, 1, 8) is None
    for index, rest in enumerate(rests(before, kept)):
        assert kept.share(index).counts.tolist() == rest.counts.tolist()


@pytest.mark.parametrize(("late", "by", "lost"), [("2", 1.02, ["2"]), ("6", 1.3, [])])
def test_a_job_that_is_behind_costs_no_other_its_promise(late, by, lost):
    """Filling anew would drop job 5, which is as far as it was planned to be."""
    (before, kept, *_), _ = crowded()
    shares, demands = rests(before, kept), list(kept.demands)
    names = [demand.order[1] for demand in demands]
    place = names.index(late)
    need = by * shares[place].work(demands[place].levels)
    demands[place] = replace(demands[place], need=need)
    anew = fill_all(demands, 1, 8, skip=True)
    assert [names[index] for index in anew.missed] == ["5"]
    plan = SharePlan(demands, 1, 8)
    assert plan.keep(shares)
    assert [names[index] for index in plan.missed] == lost
    for index, (demand, share) in enumerate(zip(demands, shares, strict=True)):
        if index != place:
            assert plan.share(index).counts.tolist() == share.counts.tolist()
        elif not lost:
            assert plan.share(index).work(demand.levels) >= demand.need
    assert plan.now.sum() <= 8


class Plans(ElasticFlow):
    """Keeps its plans."""

    def __init__(self, *options):
        super().__init__(*options)
        self.plans = []

    def _admit(self, slot, num_slots):
        refusals = super()._admit(slot, num_slots)
        self.plans.append(self._plan)
        return refusals

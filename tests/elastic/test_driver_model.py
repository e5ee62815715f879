"""The driver's and the leader's decisions together, against a small model of workers under random
faults: the job goes on, and the driver knows how."""

from itertools import permutations
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.backend_reports import ReportKind
from harness.contracts.process import Exit
from systems.elastic.driver.launch import STORE
from systems.runtime.wire.messages import Failed, FirstStep, Progress
from tests.elastic.model_driver import GREETS, VANISHED, DrivenModel, Driver
from tests.elastic.model_stories import WAYS, Story, tell_many
from tests.examples import examples

SLOTS = range(5)
FIRST = FirstStep(progress=Progress(1, 12, 0.1, 0.0), started=0.0, phases_s={})
ANSWERS = (ReportKind.DONE, ReportKind.FAILED, ReportKind.RETRY)


class DrivenStory(Story):
    """What befalls them; the driver hears of it late."""

    def __init__(self, drawn, way):
        self.drawn = drawn
        self.recovers = way["recovery"] != "none"
        self.model = DrivenModel(**way)

    def do_ask(self):
        job = self.model.driver.job
        if job.is_alive and job.status.change is None:
            slots = self.drawn.sample(SLOTS, self.drawn.randint(1, 4))
            self.model.driver.ask(slots)

    def do_withdraw(self):
        if self.recovers:  # else a new leader cannot know whether one before has announced it
            self.model.driver.lose_patience()

    def do_tell(self):
        self.model.driver.hear_one(self.drawn.randint(0, 9))

    def do_hear(self):
        self.model.hear_one(self.drawn.randint(0, 9))

    def do_next(self):
        return any(way(0) for way in self.model.ways())


THINGS = [getattr(DrivenStory, name) for name in dir(DrivenStory) if name.startswith("do_")]


def tell(drawn, way):
    """One story to its end: whoever is left trains on, and the driver waits for nothing."""
    story = DrivenStory(drawn, way)
    model, driver = story.model, story.model.driver
    for _ in range(drawn.randint(3, 25)):
        drawn.choice(THINGS)(story)
    model.settle(drawn)
    if not driver.job.is_alive:
        assert model.cannot_go_on, driver.reports[-1]
        return
    work, members = driver.work, model.lead.members
    assert work.recover_by is None
    assert work.adjusting is None
    assert driver.job.status.change is None
    assert work.members == members
    assert [peer.name for peer in model.training()] == list(members)
    assert {peer.name for peer in model.alive()} == set(members)
    asked = range(1, driver.num_changes + 1)
    answers = [report.change_id for report in driver.reports if report.kind in ANSWERS]
    assert sorted(answers) == list(asked)
    assert all(report.reason for report in driver.reports if report.kind is ReportKind.FAILED)


SAYS, ENDS, GONE, DIES = "says", "ends", "gone", "dies"
"""What the driver hears of two workers: the error of one and its end; the other's death, by the end
of its connection and of its process."""
ORDERS = [
    order
    for order in permutations((SAYS, ENDS, GONE, DIES))
    if order.index(SAYS) < order.index(ENDS) and order.index(GONE) < order.index(DIES)
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_of_the_last_worker_is_told_whenever_another_s_death_is_heard(failing, order):
    made = []
    model = SimpleNamespace(
        launched=lambda name: made[0].hears[name].append(GREETS), killed=lambda name: None
    )
    driver = Driver(model, "background", "consistent")
    made.append(driver)
    names = driver.begin((0, 1))
    driver.job.heard(driver.connections[names[0]], FIRST)
    own, other = names[failing], names[1 - failing]
    said = Failed(reason="an error of its own")
    heard = {
        SAYS: (own, said),
        ENDS: (own, Exit(driver.names.index(own), 1, "exited with 1")),
        GONE: (other, VANISHED),
        DIES: (other, Exit(driver.names.index(other), -9, "killed by SIGKILL")),
    }
    for what in order:
        name, fact = heard[what]
        driver.hears[name].append(fact)
        driver.hear(name)
    while driver.hears[STORE]:
        driver.hear(STORE)
    end = driver.reports[-1]
    assert (end.kind, end.change_id) == (ReportKind.FAILED, None)
    assert "an error of its own" in end.reason


@pytest.mark.parametrize("is_of_all", [False, True])
def test_a_newcomer_s_own_error_ends_its_change_and_a_difference_of_all_the_job(is_of_all):
    """The others may never see the difference: their sum can be lost with the newcomer."""
    made = []
    model = SimpleNamespace(
        launched=lambda name: made[0].hears[name].append(GREETS), killed=lambda name: None
    )
    driver = Driver(model, "background", "exact")
    made.append(driver)
    (old,) = driver.begin((0,))
    driver.job.heard(driver.connections[old], FIRST)
    driver.ask((0, 1))
    new = driver.names[-1]
    driver.hear(new)
    said = Failed(reason="they differ", is_of_all=is_of_all)
    driver.hears[new] += [said, Exit(driver.names.index(new), 1, "exited with 1")]
    driver.hear(new)
    driver.hear(new)
    assert driver.job.is_alive
    lost = Failed(reason="a broken connection", collective=True)
    driver.hears[old] += [lost, Exit(driver.names.index(old), 1, "exited with 1")]
    driver.hear(old)
    driver.hear(old)
    while driver.hears[STORE]:
        driver.hear(STORE)
    end = driver.reports[-1]
    assert end.kind is (ReportKind.FAILED if is_of_all else ReportKind.LOST)
    assert "they differ" in end.reason


@settings(max_examples=examples(300), deadline=None)
@given(drawn=st.randoms(use_true_random=False), way=st.sampled_from(WAYS))
def test_the_driver_knows_what_becomes_of_random_changes_and_deaths(drawn, way):
    tell(drawn, way)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
def test_the_driver_knows_what_becomes_of_many_random_changes_and_deaths(way):
    tell_many(tell, way)

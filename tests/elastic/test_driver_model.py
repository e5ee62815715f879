"""The driver's and the leader's decisions together, against a small model of workers under random
faults: the job goes on, and the driver knows how."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.training import ReportKind
from tests.elastic.model_driver import DrivenModel
from tests.elastic.model_stories import WAYS, Story, tell_many
from tests.examples import examples

SLOTS = range(5)
ANSWERS = (ReportKind.DONE, ReportKind.FAILED, ReportKind.RETRY)


class DrivenStory(Story):
    """What befalls them; the driver hears of it late."""

    def __init__(self, drawn, way):
        self.drawn = drawn
        self.recovers = way["recovery"] != "none"
        self.model = DrivenModel(**way)

    def do_ask(self):
        job = self.model.driver.job
        if job.is_alive and job.change is None:
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
    assert driver.job.change is None
    assert work.members == members
    assert [peer.name for peer in model.training()] == list(members)
    assert {peer.name for peer in model.alive()} == set(members)
    asked = range(1, driver.num_changes + 1)
    answers = [report.change_id for report in driver.reports if report.kind in ANSWERS]
    assert sorted(answers) == list(asked)
    assert all(report.reason for report in driver.reports if report.kind is ReportKind.FAILED)


@settings(max_examples=examples(300), deadline=None)
@given(drawn=st.randoms(use_true_random=False), way=st.sampled_from(WAYS))
def test_the_driver_knows_what_becomes_of_random_changes_and_deaths(drawn, way):
    tell(drawn, way)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
def test_the_driver_knows_what_becomes_of_many_random_changes_and_deaths(way):
    tell_many(tell, way)

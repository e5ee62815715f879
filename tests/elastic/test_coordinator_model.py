"""The leader's decisions against a small model of workers under random faults."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.elastic.model_workers import Model

WAYS = [
    {"transfer": "background", "recovery": "exact", "stops_first": False},
    {"transfer": "peer", "recovery": "exact", "stops_first": False},
    {"transfer": "broadcast", "recovery": "exact", "stops_first": False},
    {"transfer": "peer", "recovery": "exact", "stops_first": True},
    {"transfer": "peer", "recovery": "none", "stops_first": True},
]
UNTIL_ANNOUNCED = 80
"""Messages of a change of at most five workers, and more."""


class Story:
    """What befalls a model's workers; every ``do_...`` is one thing that may happen."""

    def __init__(self, data, way):
        self.draw = data.draw
        self.recovers = way["recovery"] != "none"
        self.model = Model(("w0", "w1", "w2"), **way)
        self.count = 3

    def do_ask(self):
        model = self.model
        if not model.is_free() or model.lead.recovery is not None:
            return
        living = [name for name in model.members() if name not in model.dead]
        keep = [name for name in living if self.draw(st.booleans())]
        num_new = self.draw(st.integers(0 if keep else 1, 2))
        model.ask(keep + [f"w{self.count + index}" for index in range(num_new)])
        self.count += num_new

    def do_switch(self):
        """A change, up to the step with which it is made."""
        self.do_ask()
        for _ in range(UNTIL_ANNOUNCED):
            if any(peer.announced for peer in self.model.alive()):
                break
            self.model.deliver_one(0) or self.model.speak_one(0)
        self.model.make_step()

    def do_kill(self, *, led=False):
        model = self.model
        holders = [peer for peer in model.alive() if peer.step >= 0]
        victims = [peer for peer in model.alive() if len(holders) > 1 or peer.step < 0]
        if not victims or not self.recovers:
            return
        victim = self.draw(st.sampled_from(victims))
        group = model.training()
        if victim in group and len(group) > 2:
            rest = [peer.name for peer in group if peer is not victim]
            model.make_step(behind=self.draw(st.sampled_from([None, *rest])))
        others = [peer for peer in model.alive() if peer is not victim]
        if any(peer.step >= victim.step for peer in others) and model.can_go_on(others):
            model.kill(victim.name)
            if (led or victim.name == model.leader) and model.candidates():
                self.do_elect()

    def do_kill_leader(self):
        self.do_kill(led=True)

    def do_elect(self):
        peer = self.draw(st.sampled_from(self.model.candidates()))
        self.model.elect(peer, self.draw(st.integers(0, 20)))

    def do_withdraw(self):
        # Without recovery a new leader cannot find out what the one before has announced: the
        # driver ends what it hears of a change that it was told had failed.
        if self.recovers or not self.model.leader:
            self.model.tell_leader("withdraw", self.draw(st.integers(0, 20)))

    def do_step(self):
        self.model.make_step()

    def do_deliver(self):
        self.model.deliver_one(self.draw(st.integers(0, 9)))

    def do_speak(self):
        self.model.speak_one(0)

    def do_several(self):
        for _ in range(self.draw(st.integers(2, 20))):
            self.model.deliver_one(0) or self.model.speak_one(0)


THINGS = [getattr(Story, name) for name in vars(Story) if name.startswith("do_")]


def tell(data, way):
    """One story to its end: whoever is left trains on together, from the last step."""
    story = Story(data, way)
    model = story.model
    committed = 0
    for thing in data.draw(st.lists(st.sampled_from(THINGS), min_size=3, max_size=25)):
        thing(story)
        steps = [peer.step for peer in model.peers.values() if peer.name not in model.dead]
        committed = max(committed, *steps)
    model.settle()
    if not model.can_go_on(model.alive()):  # the driver begins anew from a checkpoint
        assert "recovery_failed" in {answer["kind"] for answer in model.answers}
        return
    members = [model.peers[name] for name in model.lead.members]
    assert members
    assert all(peer.name not in model.dead and not peer.gone for peer in members)
    assert len({(peer.generation, peer.step, peer.membership) for peer in members}) == 1
    assert members[0].generation == model.lead.generation
    assert members[0].step >= committed - len(model.dead)
    assert not [peer for peer in model.alive() if peer.stopped_for or peer.stops_for]
    assert model.lead.recovery is None
    assert model.lead.adjustment is None
    made = model.lead._done | model.made
    assert not model.answered("adjust_failed") & made
    if not model.dead and not model.leader:  # a promise that only they may break
        assert model.answered("adjust_kept") <= made


@settings(max_examples=300, deadline=None)
@given(data=st.data(), way=st.sampled_from(WAYS))
def test_random_adjustments_and_deaths_leave_one_consistent_membership(data, way):
    tell(data, way)


@pytest.mark.long
@settings(max_examples=5_000, deadline=None)
@given(data=st.data(), way=st.sampled_from(WAYS))
def test_many_random_adjustments_and_deaths_leave_one_consistent_membership(data, way):
    tell(data, way)

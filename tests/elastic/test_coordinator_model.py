"""The leader's decisions against a small model of workers under random faults."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.elastic.wire.messages import AdjustFailed, AdjustKept, RecoveryFailed
from tests.elastic.model_peer import CHECKPOINT_EVERY
from tests.elastic.model_stories import WAYS, Story, tell_many
from tests.examples import examples

THINGS = [getattr(Story, name) for name in vars(Story) if name.startswith("do_")]


def tell(drawn, way):
    """One story to its end: whoever is left trains on together, from the last step."""
    story = Story(drawn, way)
    model = story.model
    committed = 0
    for _ in range(drawn.randint(3, 25)):
        drawn.choice(THINGS)(story)
        steps = [peer.step for peer in model.peers.values() if peer.name not in model.dead]
        committed = max(committed, *steps)
    model.settle(drawn)
    if not model.can_go_on(model.alive()):  # the driver begins anew from a checkpoint
        assert RecoveryFailed in {type(answer) for answer in model.answers}
        return
    members = [model.peers[name] for name in model.lead.members]
    assert members
    assert all(peer.name not in model.dead and not peer.gone for peer in members)
    assert len({(peer.generation, peer.step, peer.membership) for peer in members}) == 1
    assert members[0].generation == model.lead.generation
    lost = CHECKPOINT_EVERY if way["recovery"] == "consistent" else 1
    assert members[0].step >= committed - lost * len(model.dead)
    assert not [peer for peer in model.alive() if peer.stopped_for or peer.stops_for]
    assert model.lead.recovery is None
    assert model.lead.adjustment is None
    made = model.lead._changes.done | model.made
    assert not model.answered(AdjustFailed) & made
    assert model.answered(AdjustKept) <= made | model.answered(AdjustFailed)
    if not model.dead and not model.num_elections:  # a promise that only they may break
        assert model.answered(AdjustKept) <= made


@settings(max_examples=examples(300), deadline=None)
@given(drawn=st.randoms(use_true_random=False), way=st.sampled_from(WAYS))
def test_random_adjustments_and_deaths_leave_one_consistent_membership(drawn, way):
    tell(drawn, way)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
def test_many_random_adjustments_and_deaths_leave_one_consistent_membership(way):
    tell_many(tell, way)

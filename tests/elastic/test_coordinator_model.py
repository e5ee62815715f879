"""The leader's decisions against a small model of workers under random faults."""

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


@settings(max_examples=300, deadline=None)
@given(
    data=st.data(),
    way=st.sampled_from(WAYS),
)
def test_random_adjustments_and_deaths_leave_one_consistent_membership(data, way):
    model = Model(("w0", "w1", "w2"), **way)
    count = 3
    committed = 0
    for _ in range(data.draw(st.integers(3, 25))):
        action = data.draw(
            st.sampled_from(
                ["ask", "kill", "step", "deliver", "deliver", "speak", "withdraw", "elect"]
            )
        )
        members = list(model.lead.members)
        if action == "ask" and model.lead.adjustment is None and model.lead.recovery is None:
            keep = [n for n in members if data.draw(st.booleans()) and n not in model.dead]
            new = [f"w{count + i}" for i in range(data.draw(st.integers(0 if keep else 1, 2)))]
            count += len(new)
            if keep + new:
                model.ask(keep + new)
        elif action == "kill" and way["recovery"] != "none":
            holders = [p for p in model.alive() if p.step >= 0]
            victims = [p for p in model.alive() if len(holders) > 1 or p.step < 0]
            if victims:
                victim = data.draw(st.sampled_from(victims))
                if victim in model.training() and len(model.training()) > 2:
                    rest = [p.name for p in model.training() if p is not victim]
                    model.make_step(behind=data.draw(st.sampled_from([None, *rest])))
                others = [p for p in model.alive() if p is not victim]
                if any(p.step >= victim.step for p in others):
                    model.kill(victim.name)
        elif action == "elect":
            peer = data.draw(st.sampled_from(model.candidates()))
            model.elect(peer, data.draw(st.integers(0, 20)))
        elif action == "withdraw":
            model.act(model.lead.withdraw(model.next_change - 1, "late"))
        elif action == "step":
            model.make_step()
        elif action == "deliver":
            model.deliver_one(data.draw(st.integers(0, 9)))
        elif action == "speak":
            model.speak_one(0)
        steps = [p.step for p in model.peers.values() if p.name not in model.dead]
        committed = max(committed, *steps)
    model.settle()
    members = [model.peers[name] for name in model.lead.members]
    assert members
    assert all(peer.name not in model.dead and not peer.gone for peer in members)
    assert len({(peer.generation, peer.step, peer.membership) for peer in members}) == 1
    assert members[0].generation == model.lead.generation
    assert members[0].step >= committed - len(model.dead)
    assert not [p for p in model.alive() if p.stopped_for or p.stops_for]
    assert model.lead.recovery is None
    assert model.lead.adjustment is None
    made = model.lead._done | model.made
    assert not model.answered("adjust_failed") & made
    if not model.dead:
        assert model.answered("adjust_kept") <= made  # a promise that only a death may break

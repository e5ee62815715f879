"""The leader's decisions: by hand, and against a small model of workers under random faults."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.elastic.coordinator import Answer, Coordinator, Tell
from systems.elastic.recovery import Halted, Membership, plan_resume

STATUS = {"members": (), "highest": 1, "prepared": False}


def leader(*members, transfer="background", recovery="exact"):
    found = Coordinator(Membership(members, 12), 1, transfer=transfer, recovery=recovery)
    for worker in members:
        assert found.registered(worker, {**STATUS, "members": members}) == []
    return found


def adjust(members, joiners, change_id=7, global_batch=12):
    return {
        "change_id": change_id,
        "members": list(members),
        "joiners": list(joiners),
        "global_batch": global_batch,
    }


def kinds(actions):
    return [(getattr(a, "worker", "driver"), a.message["kind"]) for a in actions]


def test_scale_out_by_hand():
    lead = leader("a", "b")
    assert lead.adjust(adjust("abc", "c")) == []
    assert lead.registered("c", STATUS) == []
    sent = lead.prepared("c", "127.0.0.1", 5)
    assert kinds(sent) == [("a", "topology"), ("b", "topology"), ("c", "topology")]
    assert sent[0].message["donors"] == {"a": [("127.0.0.1", 5)]}
    assert sent[0].message["generation"] == 2
    for worker in "abc":
        assert lead.built(worker, 2) == []
    assert kinds(lead.caught_up("c", 2)) == [("a", "announce")]
    assert lead.switched("a", 2, Membership(tuple("abc"), 12), 7) == []
    assert (lead.members, lead.adjustment) == (tuple("abc"), None)


def test_scale_in_needs_neither_joiner_nor_state():
    lead = leader("a", "b", "c")
    sent = lead.adjust(adjust("ab", ""))
    assert kinds(sent) == [("a", "topology"), ("b", "topology"), ("c", "topology")]
    assert lead.built("b", 2) == []
    assert lead.built("a", 2) == []
    assert kinds(lead.built("c", 2)) == [("a", "announce")]  # the leaver knows it too


def test_all_workers_replaced_get_their_state_from_those_that_leave():
    lead = leader("a", "b")
    lead.adjust(adjust("cd", "cd"))
    for worker, port in (("c", 1), ("d", 2)):
        lead.registered(worker, STATUS)
        sent = lead.prepared(worker, "h", port)
    assert sent[0].message["donors"] == {"a": [("h", 1)], "b": [("h", 2)]}


def test_one_adjustment_at_a_time():
    lead = leader("a", "b")
    lead.adjust(adjust("abc", "c"))
    assert lead.adjust(adjust("abc", "c")) == []  # the driver asks a new leader again
    assert lead.adjust(adjust("a", "", 8)) == [Answer({"kind": "retry", "change_id": 8})]


def test_a_joiner_that_dies_before_the_switch_disturbs_nobody():
    lead = leader("a", "b")
    lead.adjust(adjust("abcd", "cd"))
    for worker in "cd":
        lead.registered(worker, STATUS)
        lead.prepared(worker, "h", 1)
    actions = lead.lost(["c"])
    assert kinds(actions) == [
        ("d", "dismissed"),
        ("a", "cancel"),
        ("b", "cancel"),
        ("driver", "adjust_failed"),
    ]
    assert lead.recovery is None
    assert lead.adjust(adjust("a", "", 9))


def test_a_joiner_that_dies_once_the_switch_is_announced_counts_as_a_member():
    lead = leader("a", "b", transfer="peer")
    lead.adjust(adjust("abc", "c"))
    lead.registered("c", STATUS)
    lead.prepared("c", "h", 1)
    for worker in "abc":
        announced = lead.built(worker, 2)
    assert kinds(announced) == [("a", "announce")]
    assert kinds(lead.lost(["c"])) == [("a", "halt"), ("b", "halt")]


def test_an_adjustment_with_a_dead_or_unknown_worker_is_refused():
    lead = leader("a", "b", recovery="none")
    lead.lost(["c"])
    (answer,) = lead.adjust(adjust("abc", "c"))
    assert (answer.message["kind"], answer.message["reason"]) == ("adjust_failed", "c died")
    (answer,) = lead.adjust(adjust("abx", ""))
    assert answer.message["reason"] == "x neither train nor join"


def test_survivors_go_on_from_the_last_step_that_anybody_committed():
    lead = leader("a", "b", "c")
    assert kinds(lead.lost(["c"])) == [("a", "halt"), ("b", "halt")]
    assert lead.halted("a", 2, Halted(1, 10, "h", 1)) == []
    (to_a, to_b) = lead.halted("b", 2, Halted(1, 11, "h", 2))
    assert to_a.message == to_b.message
    assert to_a.message["step"] == 11
    assert to_a.message["source"] == "b"
    assert to_a.message["behind"] == {"a": ("h", 1)}
    assert to_a.message["members"] == ["a", "b"]


@pytest.mark.parametrize(
    ("mode", "source", "behind"), [("exact", "b", {"a"}), ("approximate", "a", {"b"})]
)
def test_whose_state_counts_is_what_the_mode_says(mode, source, behind):
    halted = {"a": Halted(1, 10, "h", 1), "b": Halted(1, 11, "h", 2)}
    plan = plan_resume(halted, {1: Membership(("a", "b", "c"), 12)}, {"c"}, mode)
    assert (plan.source, set(plan.behind)) == (source, behind)


def test_consistent_recovery_takes_nobodys_state():
    halted = {"a": Halted(1, 10, "h", 1), "b": Halted(1, 11, "h", 2)}
    plan = plan_resume(halted, {1: Membership(("a", "b"), 12)}, (), "consistent")
    assert plan.from_checkpoint
    assert plan.behind == {}


def test_a_leaver_can_be_the_only_one_that_knows_the_last_step():
    halted = {"a": Halted(1, 10, "h", 1), "c": Halted(1, 11, "h", 3)}
    known = {1: Membership(("a", "b", "c"), 12), 2: Membership(("a", "b"), 12)}
    plan = plan_resume(halted, known, {"b"}, "exact")
    assert plan.membership.members == ("a", "c")  # nobody has switched: it stays
    halted["c"] = Halted(2, 11, "h", 3)
    plan = plan_resume(halted, known, {"b"}, "exact")
    assert plan.membership.members == ("a",)
    assert (plan.source, set(plan.behind)) == ("c", {"a"})


def test_a_leaver_that_dies_may_keep_others_from_their_switch():
    lead = leader("a", "b", "c")
    lead.adjust(adjust("ab", ""))
    for worker in "abc":
        lead.built(worker, 2)
    lead.switched("a", 2, Membership(("a", "b"), 12), 7)  # b may have lost its last step with c
    assert kinds(lead.lost(["c"])) == [("a", "halt"), ("b", "halt")]


def test_a_leaver_that_dies_once_all_have_switched_disturbs_nobody():
    lead = leader("a", "b", "c")
    lead.adjust(adjust("ab", ""))
    for worker in "abc":
        lead.built(worker, 2)
    for worker in "ab":
        lead.switched(worker, 2, Membership(("a", "b"), 12), 7)
    assert lead.lost(["c"]) == []


def test_a_new_leader_halts_those_that_a_leaver_keeps_from_their_switch():
    members = Membership(("a", "b"), 12)
    lead = Coordinator(members, 2, transfer="peer", recovery="exact")
    lead.registered("a", {**STATUS, "members": ("a", "b"), "highest": 2})
    assert lead.lost(["c", "x"]) == []
    halts = lead.registered("b", {**STATUS, "members": ("a", "b", "c"), "highest": 2})
    assert kinds(halts) == [("a", "halt"), ("b", "halt")]


@pytest.mark.parametrize("mode", ["exact", "approximate", "consistent"])
def test_once_a_survivor_has_made_the_last_step_nobody_goes_on(mode):
    halted = {
        "a": Halted(1, 19, "h", 1),
        "b": Halted(1, 20, "", 0, "finished"),
        "c": Halted(1, 20, "", 0, "finished"),
    }
    plan = plan_resume(halted, {1: Membership(tuple("abcd"), 12)}, {"d"}, mode)
    assert plan.membership.members == ("b", "c", "a")
    assert (plan.outcome, plan.step, plan.behind) == ("finished", 20, {})
    assert not plan.from_checkpoint


def test_survivors_that_cannot_meet_halt_anew():
    lead = leader("a", "b", "c")
    lead.lost(["c"])
    lead.halted("a", 2, Halted(1, 10, "h", 1))
    assert kinds(lead.halted("b", 2, Halted(1, 10, "h", 2))) == [("a", "resume"), ("b", "resume")]
    again = lead.build_failed("b", 2, "the store has died")
    assert kinds(again) == [("a", "halt"), ("b", "halt")]
    assert {action.message["generation"] for action in again} == {3}
    lead.halted("b", 3, Halted(1, 10, "h", 2))
    lead.halted("a", 3, Halted(1, 10, "h", 1))
    assert lead.switched("a", 3, Membership(("a", "b"), 12)) == []
    assert kinds(lead.build_failed("b", 3, "late")) == [("a", "halt"), ("b", "halt")]


def test_a_number_that_a_leader_before_has_used_is_not_used_again():
    lead = Coordinator(Membership(tuple("abc"), 12), 1, transfer="peer", recovery="exact")
    lead.registered("a", STATUS)
    assert lead.lost(["c"])[0].message == {"kind": "halt", "generation": 2}
    again = lead.registered("b", {**STATUS, "highest": 2})
    assert kinds(again) == [("a", "halt"), ("b", "halt")]
    assert {action.message["generation"] for action in again} == {3}


def test_without_anybody_who_has_the_state_there_is_no_plan():
    assert (
        plan_resume({"c": Halted(0, -1, "h", 1)}, {1: Membership(("a",), 1)}, "a", "exact") is None
    )


# A model of the workers: each knows what a real one does, and messages take their time.


@dataclass
class Peer:
    name: str
    generation: int = 0
    step: int = -1
    membership: Membership | None = None
    halted: int = 0
    topology: dict = field(default_factory=dict)
    inbox: list = field(default_factory=list)
    gone: bool = False


class Model:
    """Members commit steps together; a death may leave one of them a step behind."""

    def __init__(self, members, transfer):
        self.lead = Coordinator(Membership(members, 12), 1, transfer=transfer, recovery="exact")
        self.transfer = transfer
        self.peers = {n: Peer(n, 1, 0, Membership(members, 12)) for n in members}
        self.outbox = []
        self.answers = []
        self.next_change = 1
        self.dead = set()
        self.announced = 0
        for name in members:
            self.act(self.lead.registered(name, {**STATUS, "members": members}))

    def act(self, actions):
        for action in actions:
            if isinstance(action, Tell):
                peer = self.peers[action.worker]
                if action.worker not in self.dead and not peer.gone:
                    peer.inbox.append(action.message)
            else:
                self.answers.append(action.message)

    def alive(self):
        return [p for p in self.peers.values() if p.name not in self.dead and not p.gone]

    def ask(self, members):
        joiners = [name for name in members if name not in self.peers]
        for name in joiners:
            self.peers[name] = Peer(name)
        self.act(self.lead.adjust(adjust(members, joiners, self.next_change)))
        self.next_change += 1
        for name in joiners:
            self.outbox += [(name, "registered"), (name, "prepared")]

    def training(self):
        """The members of one generation, if all of them are there to make a step."""
        for peer in self.alive():
            if peer.membership is None or peer.halted:
                continue
            group = [self.peers[name] for name in peer.membership.members]
            if all(
                p.generation == peer.generation
                and not p.halted
                and p.name not in self.dead
                and p.step == peer.step
                for p in group
            ):
                return group
        return []

    def make_step(self, behind=None):
        """``behind`` does not hear how it ended, since somebody dies."""
        group = self.training()
        for peer in group:
            if peer.name != behind:
                peer.step += 1
        if not group:
            return
        announced, self.announced = self.announced, 0
        if announced:
            step = max(peer.step for peer in group)
            for peer in self.alive():
                topology = peer.topology.get(announced)
                if topology is None or peer.generation == announced or peer.name == behind:
                    continue
                peer.generation, peer.step = announced, step
                peer.membership = Membership(tuple(topology["members"]), 12)
                if peer.name in topology["members"]:
                    self.outbox.append((peer.name, "switched"))
            self.let_go()

    def let_go(self):
        """Who is not in the generation it knows may go, once all that are have switched."""
        for peer in self.alive():
            if peer.membership is None or peer.name in peer.membership.members or peer.halted:
                continue
            new = [self.peers[n] for n in peer.membership.members if n not in self.dead]
            if new and all(p.generation >= peer.generation and not p.halted for p in new):
                self.leave(peer)

    def leave(self, peer):
        peer.gone = True
        self.outbox.append((peer.name, "left"))

    def kill(self, name):
        self.dead.add(name)
        self.outbox = [entry for entry in self.outbox if entry[0] != name]
        self.act(self.lead.lost([name]))

    def deliver_one(self, index):
        busy = [p for p in self.alive() if p.inbox]
        if not busy:
            return False
        peer = busy[index % len(busy)]
        message = peer.inbox.pop(0)
        kind = message["kind"]
        if kind == "topology":
            peer.topology[message["generation"]] = message
            self.outbox.append((peer.name, "built", message["generation"]))
            if peer.name in message["joiners"]:
                self.outbox.append((peer.name, "caught_up", message["generation"]))
        elif kind == "announce":
            self.announced = message["generation"]
        elif kind == "cancel":
            peer.topology.pop(message["generation"], None)
        elif kind == "dismissed":
            self.leave(peer)
        elif kind == "halt":
            peer.halted = message["generation"]
            self.announced = 0
            self.outbox.append((peer.name, "halted", message["generation"]))
        elif kind == "resume" and peer.halted == message["generation"]:
            if peer.name not in message["members"]:
                self.leave(peer)
                return True
            peer.halted = 0
            if peer.name in message["behind"]:
                assert self.peers[message["source"]].step >= message["step"]
            else:
                assert peer.step == message["step"]
            peer.step = message["step"]
            peer.generation = message["generation"]
            peer.membership = Membership(tuple(message["members"]), 12)
            self.outbox.append((peer.name, "switched"))
            self.let_go()
        return True

    def speak_one(self, index):
        if not self.outbox:
            return False
        entry = self.outbox.pop(0)  # each connection keeps its order; one queue keeps all
        name, what = entry[:2]
        peer = self.peers[name]
        if name in self.dead:
            return True
        if what == "left":
            self.act(self.lead.left(name))
        elif what == "registered":
            self.act(self.lead.registered(name, STATUS))
        elif what == "prepared":
            self.act(self.lead.prepared(name, "h", 1))
        elif what == "built":
            self.act(self.lead.built(name, entry[2]))
        elif what == "caught_up":
            self.act(self.lead.caught_up(name, entry[2]))
        elif what == "switched":
            topology = peer.topology.get(peer.generation)
            change_id = topology["change_id"] if topology else None
            self.act(self.lead.switched(name, peer.generation, peer.membership, change_id))
        elif what == "halted" and peer.halted == entry[2]:
            report = Halted(peer.generation, peer.step, "h", 1)
            self.act(self.lead.halted(name, entry[2], report))
        return True

    def settle(self):
        for _ in range(400):
            moved = self.deliver_one(0) or self.speak_one(0)
            if not moved:
                before = self.announced
                self.make_step()
                if not before and not self.outbox:
                    return
        raise AssertionError("the workers never come to rest")


@settings(max_examples=300, deadline=None)
@given(data=st.data(), transfer=st.sampled_from(["background", "peer"]))
def test_random_adjustments_and_deaths_leave_one_consistent_membership(data, transfer):
    model = Model(("w0", "w1", "w2"), transfer)
    count = 3
    committed = 0
    for _ in range(data.draw(st.integers(3, 25))):
        action = data.draw(st.sampled_from(["ask", "kill", "step", "deliver", "deliver", "speak"]))
        members = list(model.lead.members)
        if action == "ask" and model.lead.adjustment is None and model.lead.recovery is None:
            keep = [n for n in members if data.draw(st.booleans()) and n not in model.dead]
            new = [f"w{count + i}" for i in range(data.draw(st.integers(0 if keep else 1, 2)))]
            count += len(new)
            if keep + new:
                model.ask(keep + new)
        elif action == "kill":
            holders = [p for p in model.alive() if p.step >= 0]
            victims = [p for p in model.alive() if len(holders) > 1 or p.step < 0]
            if victims:
                victim = data.draw(st.sampled_from(victims))
                if victim in model.training() and len(model.training()) > 2:
                    rest = [p.name for p in model.training() if p is not victim]
                    model.make_step(behind=data.draw(st.sampled_from([None, *rest])))
                others = [p for p in model.alive() if p is not victim]  # some may have left
                if any(p.step >= victim.step for p in others):
                    model.kill(victim.name)
        elif action == "step":
            model.make_step()
        elif action == "deliver":
            model.deliver_one(data.draw(st.integers(0, 9)))
        else:
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
    assert model.lead.recovery is None

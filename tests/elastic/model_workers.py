"""A small model of workers, whom a leader's decisions reach late or not at all.

Each of the model's workers knows what a real one does, and messages take their time.
"""

from systems.elastic.actions import Tell
from systems.elastic.coordinator import Coordinator
from systems.elastic.recovery import Halted, Membership
from systems.elastic.stops import Stop
from tests.elastic.model_peer import Peer


class Model:
    """Members commit steps together; a death may leave one of them a step behind."""

    def __init__(self, members, **options):
        own = Membership(members, 12)
        self.options = options
        self.lead = Coordinator(own, 1, **self.options)
        self.leader = ""
        """Who leads, once somebody was elected."""
        self.peers = {n: Peer(n, 1, 0, own, standing=(1, own)) for n in members}
        self.outbox = []
        self.answers = []
        self.next_change = 1
        self.dead = set()
        self.made = set()
        self.switches = {}
        """Generations and members that changes led to."""
        self.known = set()
        """Changes of which the driver knows that they were made."""
        self.request = None
        self.joiners = {}
        for name in members:
            self.act(self.lead.registered(name, self.peers[name].status))

    def act(self, actions):
        for action in actions:
            if isinstance(action, Tell):
                peer = self.peers[action.worker]
                if action.worker not in self.dead and not peer.gone:
                    peer.inbox.append(action.message)
            else:
                self.answers.append(action.message)

    def wanted(self):
        """Whether the driver waits for a change that it has asked for."""
        ended = self.answered("adjust_failed") | self.known
        return self.request is not None and self.request["change_id"] not in ended

    def is_free(self):
        """Whether the driver may ask for a change: those that leave by the last one have gone."""
        return not self.wanted() and not any(peer.awaits for peer in self.alive())

    def answered(self, kind):
        """The changes that the driver was told this about."""
        return {a["change_id"] for a in self.answers if a["kind"] == kind}

    def alive(self):
        return [p for p in self.peers.values() if p.name not in self.dead and not p.gone]

    def ask(self, members):
        joiners = [name for name in members if name not in self.peers]
        for name in joiners:
            self.peers[name] = Peer(name)
        request = {"change_id": self.next_change, "members": list(members), "joiners": joiners}
        self.request = {**request, "global_batch": 12}
        self.joiners[self.next_change] = joiners
        self.tell_leader("adjust")
        self.next_change += 1
        for name in joiners:
            self.outbox.append((name, "registered"))
            self.say(name, "prepared")

    def say(self, name, what, *details):
        """To this leader, and to every later one."""
        self.peers[name].facts[what] = (name, what, *details)
        self.outbox.append((name, what, *details))

    def tell_leader(self, what, early=0):
        """From the driver; the leader has heard by then what it has said itself."""
        own = max((n for n, entry in enumerate(self.outbox) if entry[0] == self.leader), default=-1)
        self.outbox.insert(own + 1 + early, ("", what))

    def candidates(self):
        """Who may lead next; who only joins knows too little."""
        return [p for p in self.alive() if p.standing]

    def elect(self, peer, early=10**6):
        """The leader is gone with all that it knew, and was about to hear or had just said. The
        driver tells of the dead, and asks again for what it still wants."""
        for change_id in self.answered("adjust_failed"):  # the driver has ended them
            for name in self.joiners.get(change_id, ()):
                self.peers[name].gone |= self.peers[name].standing is None
        generation, membership = peer.standing
        self.leader = peer.name
        self.lead = Coordinator(membership, generation, **self.options)
        self.outbox.clear()
        for other in sorted(self.alive(), key=lambda p: p is not peer):
            other.inbox.clear()
            if other is peer:  # nothing reaches a leader before its own greeting
                self.act(self.lead.registered(peer.name, peer.status))
            else:
                self.outbox.append((other.name, "registered", other.status))
            self.outbox += other.facts.values()
            self.outbox.append((other.name, "lost"))
        if self.wanted():
            self.tell_leader("adjust", early)

    def members(self):
        """Who trains, as far as anybody knows."""
        known = [peer for peer in self.alive() if peer.membership is not None]
        last = max(known, key=lambda peer: peer.generation)
        return list(last.membership.members)

    def can_go_on(self, survivors):
        """Whether one of these is to train in the last generation that one of them knows: who has
        left for good can give its state to another, and no more."""
        last = max(survivors, key=lambda peer: peer.generation)
        return any(peer.name in last.membership.members for peer in survivors)

    def training(self):
        """The members of one generation, if all of them are there to make a step."""
        for peer in self.alive():
            if peer.membership is None or not peer.trains:
                continue
            group = [self.peers[name] for name in peer.membership.members]
            if all(
                p.generation == peer.generation
                and p.trains
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
        first = group[0]
        announced = first.announced if first.announced > first.generation else 0
        hearing = [peer for peer in group if peer.name != behind]
        step = max(peer.step for peer in group)
        if announced:
            for peer in self.alive():  # leavers and newcomers, too
                if announced in peer.topology and peer.name != behind:
                    self.switch(peer, announced, step)
            self.let_go()
        elif first.pause:
            for peer in hearing:
                peer.stops_for = first.pause

    def stop(self, peer):
        """Train no more, and say so."""
        peer.stopped_for, peer.stops_for = peer.stops_for, 0
        self.say_that_it_stopped(peer)
        self.go_on(peer)

    def say_that_it_stopped(self, peer, *, goes_on=False):
        at = Stop(peer.generation, peer.stopped_for - 1, peer.step)
        self.say(peer.name, "stopped", at, goes_on)

    def go_on(self, peer):
        """Who has stopped obeys what it was told, and its newcomers follow it."""
        generation = 0
        while peer.stopped_for and peer.directives:
            message = peer.directives.pop(0)
            if message["kind"] == "cancel" and peer.stopped_for == message["change_id"] + 1:
                self.say_that_it_stopped(peer, goes_on=True)
                peer.stopped_for = 0
            elif message["kind"] == "announce" and message["generation"] > peer.generation:
                generation = message["generation"]
                break
        if not generation:
            return
        topology = peer.topology[generation]
        self.switch(peer, generation, peer.step)
        donors = list(topology["donors"])
        for index, name in enumerate(topology["joiners"]):
            joiner = self.peers[name]
            is_there = joiner in self.alive() and generation in joiner.topology
            if donors[index % len(donors)] == peer.name and is_there and not joiner.halted:
                self.switch(joiner, generation, peer.step)
        self.let_go()

    def switch(self, peer, generation, step):
        """Work in this generation, or wait to be let go."""
        if peer.generation >= generation:
            return
        topology = peer.topology[generation]
        peer.made = topology["change_id"]
        self.made.add(peer.made)
        self.switches[topology["change_id"]] = generation, topology["members"]
        peer.generation, peer.step = generation, step
        peer.membership = Membership(tuple(topology["members"]), 12)
        peer.starts()
        if peer.name in topology["members"]:
            self.stand(peer)
            self.known.add(topology["change_id"])

    def stand(self, peer):
        """A member of a new generation."""
        peer.standing = peer.generation, peer.membership
        peer.pause = peer.announced = 0
        self.say(peer.name, "switched")

    def let_go(self):
        """Who is not in the generation it knows may go, once all that are have switched."""
        for peer in self.alive():
            made = self.switches.get(peer.stopped_for - 1)
            if made is not None and peer.name not in made[1]:  # let go while it waits
                new = [self.peers[n] for n in made[1] if n not in self.dead]
                if new and all(p.generation >= made[0] and not p.halted for p in new):
                    self.leave(peer)
            if peer.awaits is None or peer.halted or peer.gone:
                continue
            generation, members = peer.awaits
            new = [self.peers[n] for n in members if n not in self.dead]
            if new and all(p.generation >= generation and not p.halted for p in new):
                self.leave(peer)

    def leave(self, peer):
        peer.gone = True
        self.outbox.append((peer.name, "left"))
        if peer.name == self.leader and self.candidates():
            self.elect(self.candidates()[0])

    def kill(self, name):
        self.dead.add(name)
        self.outbox = [entry for entry in self.outbox if entry[0] != name]
        self.act(self.lead.lost([name]))

    def deliver_one(self, index):
        busy = [p for p in self.alive() if p.inbox or p.stops_for]
        if not busy:
            return False
        peer = busy[index % len(busy)]
        if peer.stops_for and (not peer.inbox or index % 2):
            self.stop(peer)
            return True
        message = peer.inbox.pop(0)
        kind = message["kind"]
        if kind == "topology":
            peer.topology[message["generation"]] = message
            self.say(peer.name, "built", message["generation"])
            if peer.name in message["joiners"]:
                self.say(peer.name, "caught_up", message["generation"])
        elif kind == "announce":
            peer.announced = message["generation"]
            peer.directives.append(message)
            self.go_on(peer)
        elif kind == "pause":
            peer.pause = message["change_id"] + 1
        elif kind == "cancel":
            if peer.pause == message["change_id"] + 1:
                peer.pause = 0
            peer.topology.pop(message["generation"], None)
            if peer.announced == message["generation"]:
                peer.announced = 0
            peer.directives.append(message)
            self.go_on(peer)
        elif kind == "dismissed":
            self.leave(peer)
        elif kind == "halt":
            peer.halted = message["generation"]
            peer.starts()
            self.say(peer.name, "halted", message["generation"])
        elif kind == "resume" and peer.halted == message["generation"]:
            if peer.name not in message["members"]:
                peer.halted = 0
                peer.parted = message["generation"], message["members"]
                self.let_go()
                return True
            if peer.name in message["behind"] and message["source"] in self.dead:
                return True  # it keeps its own state, and waits for another recovery
            peer.halted = 0
            peer.directives.clear()
            if peer.name in message["behind"]:
                assert self.peers[message["source"]].step >= message["step"]
            else:
                assert peer.step == message["step"]
            peer.step = message["step"]
            peer.generation = message["generation"]
            peer.membership = Membership(tuple(message["members"]), 12)
            if topology := peer.topology.get(message["from_generation"]):
                peer.made = topology["change_id"]
                self.known.add(peer.made)
            self.stand(peer)
            self.let_go()
        return True

    def speak_one(self, index):
        if not self.outbox:
            return False
        entry = self.outbox.pop(0)  # each connection keeps its order; one queue keeps all
        name, what = entry[:2]
        if what == "adjust":
            self.act(self.lead.adjust(self.request))
            return True
        if what == "withdraw":
            self.act(self.lead.withdraw(self.next_change - 1, "late"))
            return True
        peer = self.peers[name]
        if name in self.dead:
            return True
        if what == "left":
            self.act(self.lead.left(name))
        elif what == "registered":
            status = entry[2] if len(entry) > 2 else peer.status
            self.act(self.lead.registered(name, status))
        elif what == "lost":
            self.act(self.lead.lost(sorted(self.dead)))
        elif what == "prepared":
            self.act(self.lead.prepared(name, "h", 1))
        elif what == "stopped":
            self.act(self.lead.stopped(name, entry[2], goes_on=entry[3]))
        elif what == "built":
            self.act(self.lead.built(name, entry[2]))
        elif what == "caught_up":
            self.act(self.lead.caught_up(name, entry[2]))
        elif what == "switched":
            self.act(self.lead.switched(name, peer.generation, peer.membership, peer.made))
        elif what == "halted" and peer.halted == entry[2]:
            topology = peer.topology.get(peer.generation)
            change_id = topology["change_id"] if topology else None
            where = peer.membership or Membership((), 12)
            report = Halted(peer.generation, peer.step, "h", 1, "", where, change_id)
            self.act(self.lead.halted(name, entry[2], report))
        return True

    def settle(self):
        for _ in range(400):
            moved = self.deliver_one(0) or self.speak_one(0)
            if not moved:
                self.make_step()
                commanded = any(p.pause or p.announced > p.generation for p in self.training()[:1])
                busy = any(p.inbox or p.stops_for for p in self.alive())
                if not commanded and not busy and not self.outbox:
                    return
        raise AssertionError("the workers never come to rest")

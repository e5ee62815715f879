"""A small model of workers, whom a leader's decisions reach late or not at all.

Each of the model's workers knows what a real one does, and messages take their time.
"""

from systems.elastic.leader.actions import Tell
from systems.elastic.leader.coordinator import Coordinator
from systems.elastic.leader.paused_workers import Stop
from systems.elastic.wire.messages import (
    Adjust,
    AdjustFailed,
    Announce,
    Cancel,
    Dismissed,
    Halt,
    Pause,
    Resume,
    Topology,
)
from systems.elastic.wire.recovery_plan import Membership
from tests.elastic.model_peer import Peer


class Model:
    """Members commit steps together; a death may leave one of them a step behind.

    What a worker says travels on a line of its own to the leader; lines are not in step with each
    other. The driver's words come on the line of the worker that leads.
    """

    def __init__(self, members, generation=1, **options):
        own = Membership(members, 12)
        self.options = options
        self.lead = Coordinator(own, generation, **self.options)
        self.leader = members[0]
        self.num_elections = 0
        at = generation, own
        self.peers = {name: Peer(name, generation, 0, own, standing=at) for name in members}
        self.lines = {}
        self.answers = []
        self.next_change = 1
        self.dead = set()
        self.dismissed = set()
        """Newcomers that the driver has ended, since their change has failed."""
        self.made = set()
        self.switches = {}
        """Generations and members that changes led to."""
        self.request = None
        self.joiners = {}
        for peer in self.peers.values():
            self.greet(peer)

    def act(self, actions):
        for action in actions:
            if isinstance(action, Tell):
                peer = self.peers[action.worker]
                if peer in self.alive() and peer.follows:
                    peer.inbox.append(action.message)
                continue
            self.answers.append(action.message)
            if isinstance(action.message, AdjustFailed):
                self.dismiss(self.joiners[action.message.change_id])

    def dismiss(self, joiners):
        """The driver kills them, and says that they are lost."""
        new = [name for name in joiners if self.peers[name] in self.alive()]
        for name in new:
            self.peers[name].gone = True
            self.lines.pop(name, None)
        self.dismissed |= set(new)
        if new:
            self.tell_leader("lost", new)

    def wanted(self):
        """Whether the driver waits for a change that it has asked for: until it has failed, or
        every member that lives works in the generation that it led to, or one after that."""
        if self.request is None or self.request.change_id in self.answered(AdjustFailed):
            return False
        generation, members = self.switches.get(self.request.change_id, (None, ()))
        new = [self.peers[name] for name in members if name not in self.dead]
        return not new or not all(p.generation >= generation and not p.halted for p in new)

    def is_free(self):
        """Whether the driver may ask for a change: those that leave by the last one have gone."""
        old = [p for p in self.alive() if p.membership and p.name not in self.members()]
        return not self.wanted() and not old

    def answered(self, kind):
        """The changes that the driver was told this about."""
        return {a.change_id for a in self.answers if isinstance(a, kind)}

    def alive(self):
        return [p for p in self.peers.values() if p.name not in self.dead and not p.gone]

    def ask(self, members):
        joiners = [name for name in members if name not in self.peers]
        for name in joiners:
            self.peers[name] = Peer(name)
            self.say(self.peers[name], "prepared")
        self.request = Adjust(
            change_id=self.next_change,
            attempt=1,
            membership=Membership(tuple(members), 12),
            joiners=tuple(joiners),
        )
        self.joiners[self.next_change] = joiners
        self.tell_leader("adjust", self.request)
        self.next_change += 1

    def withdraw(self):
        self.tell_leader("withdraw", self.next_change - 1, 1)

    def say(self, peer, what, *details):
        """To this leader, and to every later one."""
        peer.facts[what] = (what, *details)
        if peer.follows:
            self.lines.setdefault(peer.name, []).append(peer.facts[what])

    def tell_leader(self, what, *details):
        """From the driver; a worker that does not yet know of the leader keeps it until then."""
        peer = self.peers[self.leader]
        line = self.lines.setdefault(peer.name, []) if peer.follows else peer.passes_on
        line.append((what, *details))

    def candidates(self):
        """Who may lead next; who only joins knows too little."""
        return [p for p in self.alive() if p.standing]

    def elect(self, peer):
        """The leader is gone with all that it knew, and was about to hear; what it has said is
        obeyed until the next one is greeted. The driver asks again for what it still wants."""
        generation, membership = peer.standing
        self.leader = peer.name
        self.num_elections += 1
        self.lead = Coordinator(membership, generation, **self.options)
        self.lines.clear()
        for other in self.peers.values():
            other.follows = False
            other.passes_on.clear()
        if self.wanted():
            self.tell_leader("adjust", self.request)

    def greet(self, peer):
        """It has heard who leads, and tells all that a leader has to know."""
        peer.follows = True
        peer.inbox.clear()
        told = [("greeting", peer.status), *peer.facts.values(), self.losses(peer)]
        told += peer.passes_on
        self.lines[peer.name] = told
        peer.passes_on.clear()

    def losses(self, peer):
        """What it tells of deaths; all hear of them at once."""
        return "lost", sorted(self.dead | self.dismissed), sorted(peer.survived)

    def strangers(self):
        """Who may greet the leader, and has not."""
        return [peer for peer in self.alive() if not peer.follows]

    def greet_one(self, index):
        strangers = self.strangers()
        if strangers:
            self.greet(strangers[index % len(strangers)])
        return bool(strangers)

    def members(self):
        """Who trains, as far as anybody knows."""
        known = [peer for peer in self.alive() if peer.membership is not None]
        last = max(known, key=lambda peer: peer.generation)
        return list(last.membership.members)

    def can_go_on(self, survivors):
        """Whether one of these is to train in the last generation that one of them knows: who has
        left for good can give its state to another, and no more."""
        last = max(survivors, key=lambda peer: peer.generation, default=None)
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
        hearing = [peer for peer in group if peer.name != behind]
        for peer in hearing:
            peer.step += 1
            self.committed(peer)
        if not group:
            return
        first = group[0]
        announced = first.announced if first.announced > first.generation else 0
        step = max(peer.step for peer in group)
        if announced:
            for peer in self.alive():  # leavers and newcomers, too
                if announced in peer.topology and peer.name != behind:
                    self.switch(peer, announced, step)
            self.let_go()
        elif first.pause:
            for peer in hearing:
                peer.stops_for = first.pause

    def committed(self, peer):
        """It has made a step, and obeys what was said in it next."""

    def stop(self, peer):
        """Train no more, and say so."""
        peer.stopped_for, peer.stops_for = peer.stops_for, 0
        self.say_that_it_stopped(peer)
        self.go_on(peer)

    def say_that_it_stopped(self, peer, *, goes_on=False):
        at = Stop(peer.generation, peer.stopped_for - 1, peer.step)
        self.say(peer, "stopped", at, goes_on)

    def go_on(self, peer):
        """Who has stopped obeys what it was told, and its newcomers follow it."""
        generation = 0
        while peer.stopped_for and peer.directives:
            message = peer.directives.pop(0)
            if isinstance(message, Cancel) and peer.stopped_for == message.change_id + 1:
                self.say_that_it_stopped(peer, goes_on=True)
                peer.stopped_for = 0
            elif isinstance(message, Announce) and message.generation > peer.generation:
                generation = message.generation
                break
        if not generation:
            return
        topology = peer.topology[generation]
        self.switch(peer, generation, peer.step)
        donors = list(topology.donors)
        for index, name in enumerate(topology.joiners):
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
        peer.made = topology.change_id
        self.made.add(peer.made)
        self.switches[topology.change_id] = generation, topology.membership.members
        peer.generation, peer.step = generation, step
        peer.membership = topology.membership
        peer.starts()
        if peer.name in topology.membership.members:
            self.stand(peer)

    def stand(self, peer, *, has_recovered=False):
        """A member of a new generation, by a change or a recovery."""
        peer.standing = peer.generation, peer.membership
        peer.entered_by = peer.made
        peer.pause = peer.announced = 0
        peer.survived = (self.dead | self.dismissed) - set(peer.membership.members)
        self.say(peer, "switched", peer.generation, peer.membership, peer.made)

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
        if peer.follows:
            self.lines.setdefault(peer.name, []).append(("left",))
        peer.gone = True
        if peer.name == self.leader and self.candidates():
            self.elect(self.candidates()[0])

    def kill(self, name):
        self.dead.add(name)
        self.lines.pop(name, None)
        self.tell_leader("lost", [name])

    def deliver_one(self, index):
        busy = [p for p in self.alive() if p.inbox or p.stops_for]
        if not busy:
            return False
        peer = busy[index % len(busy)]
        if peer.stops_for and (not peer.inbox or index % 2):
            self.stop(peer)
            return True
        message = peer.inbox.pop(0)
        match message:
            case Topology():
                peer.topology[message.generation] = message
                self.say(peer, "built", message.generation)
                if peer.name in message.joiners:
                    self.say(peer, "caught_up", message.generation)
            case Announce():
                peer.announced = message.generation
                peer.directives.append(message)
                self.go_on(peer)
            case Pause():
                peer.pause = message.change_id + 1
            case Cancel():
                if peer.pause == message.change_id + 1:
                    peer.pause = 0
                peer.topology.pop(message.generation, None)
                if peer.announced == message.generation:
                    peer.announced = 0
                peer.directives.append(message)
                self.go_on(peer)
            case Dismissed():
                self.leave(peer)
            case Halt():
                peer.halted = message.generation
                peer.starts()
                if peer.halted > peer.tried:  # else it waits for another
                    peer.tried = peer.halted
                    self.say(peer, "halted", peer.halted, peer.report())
            case Resume() if peer.halted == message.generation:
                self.resume(peer, message.generation, message.plan)
        return True

    def resume(self, peer, generation, plan):
        """It hears how all go on after a recovery."""
        members = plan.membership.members
        if peer.name not in members and peer.step < 0:
            self.leave(peer)
            return
        if peer.name not in members:
            peer.halted = 0
            peer.parted = generation, members
            self.let_go()
            return
        if peer.name in plan.behind and plan.source in self.dead:
            return  # it keeps its own state, and waits for another recovery
        peer.halted = 0
        peer.directives.clear()
        peer.take_state(plan, self.peers[plan.source])
        peer.generation = generation
        peer.membership = plan.membership
        if plan.change_id is not None:
            peer.made = plan.change_id
        self.stand(peer, has_recovered=True)
        self.let_go()

    def speak_one(self, index):
        busy = [name for name, line in self.lines.items() if line]
        if not busy:
            return False
        name = busy[index % len(busy)]
        what, *details = self.lines[name].pop(0)
        lead = self.lead
        if what == "greeting":
            self.act(lead.registered(name, *details))
        elif what == "adjust":
            self.act(lead.adjust(*details))
        elif what == "withdraw":
            self.act(lead.withdraw(details[0], "late", details[1]))
        elif what == "lost":
            self.act(lead.lost(*details))
        elif what == "left":
            self.act(lead.left(name))
        elif what == "prepared":
            self.act(lead.prepared(name, "h", 1))
        elif what == "stopped":
            self.act(lead.stopped(name, details[0], goes_on=details[1]))
        elif what == "built":
            self.act(lead.built(name, *details))
        elif what == "caught_up":
            self.act(lead.caught_up(name, *details))
        elif what == "switched":
            self.act(lead.switched(name, *details))
        elif what == "halted":
            self.act(lead.halted(name, *details))
        return True

    def ways(self):
        """In which something can go on; each says whether it has."""
        return [self.deliver_one, self.speak_one, self.greet_one]

    def is_busy(self):
        """Whether a word is on its way."""
        return any(p.inbox or p.stops_for for p in self.alive()) or any(self.lines.values())

    def settle(self, drawn):
        """On until nothing is left to happen; what comes first is drawn."""
        for _ in range(1_000):
            ways = self.ways()
            drawn.shuffle(ways)
            if any(way(drawn.randrange(60)) for way in ways):
                continue
            self.make_step()
            commanded = any(p.pause or p.announced > p.generation for p in self.training()[:1])
            if not commanded and not self.is_busy():
                return
        raise AssertionError("the workers never come to rest")

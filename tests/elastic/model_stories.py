"""What befalls the model's workers, thing by thing (``model_workers``)."""

import random

from tests.elastic.model_workers import Model

WAYS = [
    {"transfer": "background", "recovery": "exact", "stops_first": False},
    {"transfer": "peer", "recovery": "exact", "stops_first": False},
    {"transfer": "broadcast", "recovery": "exact", "stops_first": False},
    {"transfer": "background", "recovery": "approximate", "stops_first": False},
    {"transfer": "peer", "recovery": "consistent", "stops_first": False},
    {"transfer": "peer", "recovery": "exact", "stops_first": True},
    {"transfer": "peer", "recovery": "approximate", "stops_first": True},
    {"transfer": "peer", "recovery": "none", "stops_first": True},
]
MANY = 4_000
"""Stories of each way in the long test. What takes more of them is tested by hand, too."""
UNTIL_ANNOUNCED = 120
"""Messages of a change of at most five workers, and more."""


class Story:
    """What befalls a model's workers; every ``do_...`` is one thing that may happen."""

    def __init__(self, drawn, way):
        self.drawn = drawn
        self.recovers = way["recovery"] != "none"
        self.model = Model(("w0", "w1", "w2"), **way)
        self.count = 3

    def do_ask(self):
        model = self.model
        if not model.is_free() or model.lead.recovery is not None:
            return
        living = [name for name in model.members() if name not in model.dead]
        keep = [name for name in living if self.drawn.random() < 0.5]
        num_new = self.drawn.randint(0 if keep else 1, 2)
        model.ask(keep + [f"w{self.count + index}" for index in range(num_new)])
        self.count += num_new

    def do_switch(self):
        """A change, up to the step with which it is made."""
        self.do_ask()
        for _ in range(UNTIL_ANNOUNCED):
            if any(peer.announced for peer in self.model.alive()):
                break
            self.do_next()
        self.model.make_step()

    def do_kill(self, *, led=False):
        model = self.model
        holders = [peer for peer in model.alive() if peer.step >= 0]
        victims = [peer for peer in model.alive() if len(holders) > 1 or peer.step < 0]
        if not victims or not self.recovers:
            return
        victim = self.drawn.choice(victims)
        others = [peer for peer in model.alive() if peer is not victim]
        if not self.can_go_on(others):
            return
        group = model.training()
        if victim in group and len(group) > 2:
            rest = [peer.name for peer in group if peer is not victim]
            model.make_step(behind=self.drawn.choice([None, *rest]))
        if any(peer.step >= victim.step for peer in others) and model.can_go_on(others):
            model.kill(victim.name)
            if (led or victim.name == model.leader) and model.candidates():
                self.do_elect()

    def can_go_on(self, others):
        """Also after the switch that follows the next step, if one does."""
        model = self.model
        ahead = [peer.topology.get(peer.announced) for peer in model.training()[:1]]
        switch = next(filter(None, ahead), None)
        members = [o.name for o in others] if switch is None else switch.membership.members
        return model.can_go_on(others) and any(o.name in members for o in others)

    def do_kill_leader(self):
        self.do_kill(led=True)

    def do_elect(self):
        candidates = self.model.candidates()
        if candidates:
            self.model.elect(self.drawn.choice(candidates))

    def do_withdraw(self):
        # Without recovery a new leader cannot find out what the one before has announced: the
        # driver ends what it hears of a change that it was told had failed.
        if self.model.next_change > 1 and (self.recovers or not self.model.num_elections):
            self.model.withdraw()

    def do_step(self):
        self.model.make_step()

    def do_greet(self):
        self.model.greet_one(self.drawn.randint(0, 9))

    def do_deliver(self):
        self.model.deliver_one(self.drawn.randint(0, 9))

    def do_speak(self):
        self.model.speak_one(self.drawn.randint(0, 9))

    def do_next(self):
        model = self.model
        return any(way(0) for way in (model.greet_one, model.deliver_one, model.speak_one))

    def do_several(self):
        for _ in range(self.drawn.randint(2, 20)):
            self.do_next()


def tell_many(tell, way):
    """Many stories of one kind; of one that goes wrong the seed is named."""
    for seed in range(MANY):
        try:
            tell(random.Random(seed), way)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise

"""The model's workers with the real driver of their job (``model_workers``).

The driver is an ``ElasticJob``, whose processes are the model's workers. Each has a line to it and
one from it, which take their time as all others do, and its end is noticed late.
"""

import time
from pathlib import Path
from types import SimpleNamespace

from harness.contracts.change import Change, ChangeKind
from harness.contracts.process import Exit
from systems.backends.stop_free import StopFree
from systems.elastic.driver.job import ElasticJob
from systems.elastic.driver.launch import STORE
from systems.elastic.leader.actions import Tell
from systems.elastic.wire.messages import (
    Adjust,
    Deposed,
    Leads,
    LeadsNot,
    MemberGreeting,
    Recovered,
    RecoveryFailed,
    Suspect,
    Switched,
    WhoLeads,
    Withdraw,
    WorkersLost,
)
from systems.elastic.worker.resend_buffer import ResendBuffer
from systems.runtime.wire.messages import (
    BeatRequest,
    FirstStep,
    Left,
    MayExit,
    Progress,
    StoreGreeting,
    StoreOrder,
    StoreReady,
)
from tests.elastic.model_peer import CHECKPOINT_EVERY, Peer
from tests.elastic.model_workers import Model
from tests.replay.worlds import job

GREETS, VANISHED = "it has connected", "its connection has ended"

NOBODY_HANGS = {"hang_timeout_s": 1e4, "recovery_timeout_s": 3e4, "collective_timeout_s": 3e4}
"""A model's workers answer no beats: their threads that would are not in it."""


ORDER = StoreOrder(address="h")
"""An order of any process: the model looks at none of its fields."""


def progress(peer):
    """The job's progress as a worker tells it; one without the state has made no step."""
    step = max(0, peer.step)
    return Progress(step, 12 * step, 0.1, 0.0)


class Nowhere:
    """A job's folder, of which nothing is kept."""

    def __truediv__(self, name):
        return Path("/dev/null")


class Driver:
    """The job, and what it acts with."""

    def __init__(self, model, transfer, recovery):
        self.model = model
        self.reports = []
        self.names = []
        """Of processes, by handle."""
        self.connections = {}
        self.hears = {}
        """What each process has said, and how it ended, as far as that is not known yet."""
        self.says = {}
        """What was said to each and has not come yet."""
        self.server = self
        processes = SimpleNamespace(
            order=SimpleNamespace(
                job_id="a", target_step=10**6, job_dir=Nowhere(), step_floor_s={}
            ),
            options=StopFree(
                start="cold",
                transfer=transfer,
                recovery=recovery,
                checkpoint_every=CHECKPOINT_EVERY,
                **NOBODY_HANGS,
            )._options,
            services=self,
            where="",
            name_of=str,
            worker_spec=lambda worker, slot: worker,
            store_spec=lambda number, slots: STORE,
            store_order=lambda slots: ORDER,
            worker_order=lambda worker, slot, standing: ORDER,
        )
        self.job = ElasticJob(processes, 0)
        self.spec = job("a")

    def begin(self, slots):
        """Three workers are started, and have made no step yet; their names."""
        self.num_changes = 0
        self.ask(slots, ChangeKind.START)
        self.hears[STORE].append(StoreReady(address="h", port=1))
        for name in (STORE, STORE, *self.work.members):
            self.hear(name)
        return self.work.members

    @property
    def work(self):
        return self.job._present

    def ask(self, slots, kind=ChangeKind.RESCALE):
        """A change, as the scheduler asks for it."""
        self.num_changes += 1
        change = Change(self.num_changes, kind, self.spec, (), tuple(slots), 12)
        (self.job.begin if kind is ChangeKind.START else self.job.alter)(change)
        self.job.check()

    def lose_patience(self):
        """With a change that nobody has given up or made yet."""
        adjusting = self.work.adjusting if self.job.is_alive else None
        if adjusting is not None and adjusting.verdict == "open" and not adjusting.reason:
            adjusting.deadline = time.monotonic()
            self.job.check()

    def hear(self, name):
        """The next that a process has said, or its end."""
        what = self.hears[name].pop(0)
        connection = self.connections[name]
        if what == GREETS:
            self.job.greeted(connection)
        elif what == VANISHED:
            self.job.disconnected(connection)
        elif isinstance(what, Exit):
            self.job.exited(what.handle, what)
        else:
            self.job.heard(connection, what)
        self.job.check()

    def hear_one(self, index):
        busy = [name for name, said in self.hears.items() if said]
        if busy:
            self.hear(busy[index % len(busy)])
        return bool(busy)

    # JobServices, and their server.

    def report(self, report):
        self.reports.append(report)

    def launch(self, name):
        self.names.append(name)
        greeting = MemberGreeting(job_id="a", token="", worker=name, pid=1)
        if name == STORE:
            greeting = StoreGreeting(job_id="a", token="", pid=1)
        self.connections[name] = SimpleNamespace(greeting=greeting, name=name, heard_at=0.0)
        self.hears[name], self.says[name] = [], []
        self.model.launched(name)
        return len(self.names) - 1

    def send(self, connection, message):
        if not isinstance(message, BeatRequest):
            self.says[connection.name].append(message)

    def kill(self, handle):
        if self.names[handle] == STORE:
            self.hears[STORE][:] = [Exit(handle, -9, "")]
        else:
            self.model.killed(self.names[handle])

    def drain(self, connection):
        while self.hears[connection.name]:
            self.hear(connection.name)

    def close_connection(self, connection):
        pass


class DrivenModel(Model):
    """Workers that train, of whom a real driver knows what they and their leader tell it."""

    def __init__(self, **options):
        self.peers = {}
        self.lines = {}
        self.ordered = set()
        """Who has had its order from the driver."""
        self.exits = set()
        """Whom the driver lets go."""
        self.parted = set()
        """Who has said that no step of its own follows."""
        self.departing = set()
        """Who has taken its leave of the present leader."""
        self.arrived = {}
        """Changes that workers have not made a step after."""
        self.recovered = set()
        """Who has made none after a recovery."""
        self.losses_told = {}
        self.cannot_go_on = False
        """Whether nobody is left who is to train: the job begins anew from a checkpoint."""
        self.driver = Driver(self, options["transfer"], options["recovery"])
        members = self.driver.begin((0, 1, 2))
        self.losses_told = {name: ResendBuffer() for name in members}
        super().__init__(members, generation=self.driver.work._generation, **options)
        self.tell_that_it_leads()
        first = self.peers[members[0]]
        self.tell_driver(first, FirstStep(progress=progress(first), started=0.0, phases_s={}))
        while self.driver.hear_one(0) or self.hear_one(0):
            pass

    def ways(self):
        return [*super().ways(), self.driver.hear_one, self.hear_one, self.depart_one]

    def is_busy(self):
        lines = [*self.driver.hears.values(), *self.driver.says.values()]
        return super().is_busy() or any(lines)

    # Processes.

    def launched(self, name):
        self.driver.hears[name].append(GREETS)
        if self.peers:
            self.peers[name] = Peer(name)
            self.losses_told[name] = ResendBuffer()

    def killed(self, name):
        """By the driver."""
        if self.peers[name] in self.alive():
            self.kill(name)

    def kill(self, name):
        self.dead.add(name)
        if self.peers[name].follows:
            self.lines.setdefault(name, []).append(("closed",))
        self.ended(name, -9)

    def leave(self, peer):
        self.says_that_it_left(peer)
        super().leave(peer)
        self.ended(peer.name, 0)

    def ended(self, name, code):
        self.driver.says[name].clear()
        handle = self.driver.names.index(name)
        self.driver.hears[name] += [VANISHED, Exit(handle, code, "")]

    # What workers tell the driver.

    def tell_driver(self, peer, message):
        if peer in self.alive():
            self.driver.hears[peer.name].append(message)

    def act(self, actions):
        for action in actions:
            if isinstance(action, Tell):
                super().act([action])
                continue
            if isinstance(action.message, RecoveryFailed):
                assert not super().can_go_on(self.alive())
                self.cannot_go_on = True
            self.tell_driver(self.peers[self.leader], action.message)

    def committed(self, peer):
        told = {
            "progress": progress(peer),
            "generation": peer.generation,
            "members": peer.membership.members,
            "phases_s": {},
        }
        has_recovered = peer.name in self.recovered
        self.recovered.discard(peer.name)
        if has_recovered and peer.name == peer.membership.members[0]:
            self.tell_driver(peer, Recovered(**told, lost=(), change_id=peer.made))
        if peer.name in self.arrived:
            change_id = self.arrived.pop(peer.name)
            made = Switched(**told, change_id=change_id, started=0.0, stopping_time_s=0.0)
            self.tell_driver(peer, made)

    def says_that_it_left(self, peer):
        if peer.name not in self.parted:
            self.parted.add(peer.name)
            self.tell_driver(peer, Left(progress=progress(peer), finished=False, overruns=0))

    # What they hear of it.

    def hear_one(self, index):
        busy = [name for name, said in self.driver.says.items() if said]
        if not busy:
            return False
        name = busy[index % len(busy)]
        message = self.driver.says[name].pop(0)
        peer = self.peers.get(name)
        if peer is None or peer not in self.alive():
            return True
        match message:
            case StoreOrder():
                self.ordered.add(name)
                if peer.membership is None:
                    self.say(peer, "prepared")
            case Adjust() | Withdraw() if name != self.leader:
                self.tell_driver(peer, LeadsNot())
            case Adjust() | Withdraw() if message.term != self.num_elections:
                pass
            case Adjust():
                self.ask_leader(peer, ("adjust", message))
            case Withdraw():
                self.ask_leader(peer, ("withdraw", message.change_id, message.attempt))
            case WorkersLost():
                self.losses_told[name].lost(message.workers)
                if peer.follows:
                    self.lines.setdefault(name, []).append(self.losses(peer))
            case WhoLeads() if name == self.leader:
                self.tell_that_it_leads()
            case MayExit():
                self.exits.add(name)
        return True

    def ask_leader(self, peer, request):
        if peer.follows:
            self.lines.setdefault(peer.name, []).append(request)
        else:
            peer.passes_on[:] = [request]

    def losses(self, peer):
        told = self.losses_told[peer.name].lost([])
        return "lost", told.workers, told.parted

    # What they do otherwise than in a model without a driver.

    def can_go_on(self, survivors):
        """The driver gives the job up where it knows of nobody else that has the state."""
        known = self.driver.work.survivors() if self.driver.job.is_alive else []
        return super().can_go_on(survivors) and any(peer.name in known for peer in survivors)

    def strangers(self):
        return [peer for peer in super().strangers() if peer.name in self.ordered]

    def candidates(self):
        return [peer for peer in super().candidates() if peer.name in self.ordered]

    def wanted(self):
        return False  # the driver itself asks again

    def elect(self, peer):
        before, had_halted = self.peers[self.leader], self.lead.recovery is not None
        super().elect(peer)
        self.departing.clear()
        if had_halted:
            self.tell_driver(before, Deposed())
        self.tell_that_it_leads()

    def tell_that_it_leads(self):
        leader = self.peers[self.leader]
        self.tell_driver(leader, Leads(term=self.num_elections))

    def speak_one(self, index):
        busy = [name for name, line in self.lines.items() if line]
        name = busy[index % len(busy)] if busy else ""
        if name and self.lines[name][0] == ("closed",):
            del self.lines[name]
            if name not in self.departing:
                leader = self.peers[self.leader]
                self.tell_driver(leader, Suspect(worker=name, silent_s=0.0))
                self.act(self.lead.lost([name]))
            return True
        if name and self.lines[name][0] == ("left",):
            self.departing.add(name)
        if name and self.lines[name][0][0] == "meeting_failed":
            self.act(self.lead.meeting_failed(name, *self.lines[name].pop(0)[1:]))
            return True
        return super().speak_one(index)

    def make_step(self, behind=None):
        """Where none can be made, those that wait tell the leader in the end."""
        if not self.training():
            for peer in self.alive():
                told = ("meeting_failed", peer.generation, "its group was lost")
                is_known = peer.facts.get("meeting_failed") == told
                if self.has_lost_its_group(peer) and not is_known and peer.awaits is None:
                    self.say(peer, *told)
        super().make_step(behind)

    def switch(self, peer, generation, step):
        if peer.generation < generation and not peer.halted:
            self.arrived[peer.name] = peer.topology[generation].change_id
        super().switch(peer, generation, step)

    def stand(self, peer, *, has_recovered=False):
        super().stand(peer, has_recovered=has_recovered)
        self.losses_told[peer.name].entered(peer.generation, peer.membership.members)
        peer.facts.pop("meeting_failed", None)
        if has_recovered:
            self.recovered.add(peer.name)

    def let_go(self):
        """Who is not to train says so."""
        for peer in self.alive():
            if peer.awaits is not None:
                self.says_that_it_left(peer)

    def depart_one(self, index):
        """Whom the driver has let go goes, unless it trains."""
        free = [peer for peer in self.alive() if peer.name in self.exits and self.waits(peer)]
        if free:
            self.leave(free[index % len(free)])
        return bool(free)

    def waits(self, peer):
        """Whether it has stopped, or waits to hear how to go on."""
        has_stopped = bool(peer.halted or peer.stopped_for or peer.awaits is not None)
        return has_stopped or self.has_lost_its_group(peer)

    def has_lost_its_group(self, peer):
        group = [self.peers[name] for name in peer.membership.members] if peer.membership else []
        return any(p not in self.alive() or p.generation > peer.generation for p in group)

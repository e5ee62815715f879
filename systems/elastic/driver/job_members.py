"""Workers of an elastic job as the driver sees them: members, changes, deaths.

There is one ``JobMembers`` for each life of a job, from a start or a resume to the end of the last
process. The job (``job.py``) passes on the workers' messages and their ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import Change
from systems.elastic.driver.launch import ElasticProcesses, Standing
from systems.elastic.driver.leader_of_job import LeaderOfJob
from systems.elastic.driver.pending_change import PendingChange, Verdict
from systems.elastic.driver.processes import Process, ProcessTable
from systems.elastic.driver.recovery_deadline import RecoveryDeadline
from systems.elastic.driver.remove_stragglers import removal_of
from systems.elastic.wire.messages import (
    AdjustFailed,
    AdjustKept,
    AdjustRetry,
    Deposed,
    Leads,
    LeadsNot,
    Recovered,
    Recovering,
    RecoveryFailed,
    Straggler,
    Suspect,
    Switched,
    WorkersLost,
)
from systems.elastic.wire.order import ElasticOrder
from systems.runtime.driver.ending import Fate, Phase
from systems.runtime.driver.job_status import JobStatus
from systems.runtime.wire.messages import MayExit
from systems.runtime.wire.protocol import ControlError, encode

End = Callable[[Fate, str], None]
"""Callback that ends the job, with what follows and why."""
LEAVING = (Phase.STOPPING, Phase.FINISHING)
"""Phases in which a worker that has left waits, with the last step's state, for the job's end."""


class JobMembers:
    """Membership of one life of a job, and every decision that the driver makes about it.

    Each method ``on_...`` takes the workers' messages of one class (``job.OF_MEMBERS``).
    """

    def __init__(
        self, processes: ElasticProcesses, status: JobStatus, change: Change, end: End
    ) -> None:
        self.process_table = ProcessTable(processes, self._order_of)
        self.members = tuple(_name(status) for _ in change.slots)
        """Members by rank, as far as the driver knows; at first the founders."""
        self.adjusting: PendingChange | None = None
        self.recovery = RecoveryDeadline(processes.options.recovery_timeout_s)
        self._status = status
        self._options = processes.options
        self._recovered: Recovered | None = None
        """Message of the survivors when they went on; None once it was reported."""
        self._made: int | None = None
        """Id of the last change that was answered as made."""
        self._processes = processes
        self._end = end
        self._life = self._generation = status.next_number()
        self._founders = self.members
        self._slots = change.slots
        """Slots of all workers that train, or are to train."""
        self._batch = change.global_batch
        self._virtual_workers = change.virtual_workers or ()
        self._job = change.job
        self._leadership = LeaderOfJob(self.process_table)

    @property
    def recover_by(self) -> float | None:
        """Time by which the workers must train again after losing their group; None: no loss."""
        return self.recovery.at

    def is_joining(self, process: Process) -> bool:
        """Return whether the worker is a joiner whose change is still open."""
        adjusting = self.adjusting
        return (
            adjusting is not None
            and process.name in adjusting.joiners
            and not adjusting.switched
            and adjusting.verdict is Verdict.OPEN
        )

    def is_wanted(self, process: Process) -> bool:
        """Return whether the job needs this worker now."""
        adjusting = self.adjusting
        if self._status.phase in LEAVING:
            trains = adjusting is not None and process.name in adjusting.switched
            return process.name in self.members or trains
        if process.left is not None and process.failure == "":
            if adjusting is not None and process.name in adjusting.leavers:
                return False
            return process.name in self.members and self.recover_by is None
        if adjusting is not None and adjusting.switched:
            return process.name in adjusting.new
        return process.name in self.members

    @property
    def has_state(self) -> bool:
        """True if the members have the job's state, because the job has begun and has not ended."""
        return self._status.phase in (Phase.RUNNING, *LEAVING)

    @property
    def can_recover(self) -> bool:
        """True if the job can survive a death now: it recovers, and the members have the state."""
        return self._options.recovery != "none" and self.has_state

    @property
    def is_over(self) -> bool:
        """True if the first worker has made its last step, and lives to report how the job ended.

        What happens to the other workers then has no effect.
        """
        if self._status.phase not in LEAVING:
            return False
        adjusting = self.adjusting
        members = adjusting.new if adjusting is not None and adjusting.switched else self.members
        first = self.process_table.workers[members[0]]
        return first.left is not None and not first.is_dead and first.end is None

    def survivors(self) -> list[str]:
        """Return the living workers that have the state."""
        trained = set(self.members)
        if self.adjusting is not None and self.adjusting.switched:
            trained |= set(self.adjusting.new)
        # A worker that has left waits, with the state, until no other worker can need it.
        return [worker for worker in self.process_table.living(or_left=True) if worker in trained]

    @property
    def firsts(self) -> tuple[str, ...]:
        """Workers that may be the first worker now, as far as the driver knows."""
        if self.adjusting is not None:
            return (self.members[0], self.adjusting.new[0])
        living = [w for w in self.members if not self.process_table.workers[w].is_dead]
        return (self.members[0], *living[:1])

    def open_change(self, change_id: int, attempt: int) -> PendingChange | None:
        """Return the change under way if this answer of a leader is about it, else None.

        The change must be undecided, and the attempt the last request that the driver made for it.
        So answers to earlier requests are ignored.
        """
        adjusting = self.adjusting
        if adjusting is None or adjusting.change.change_id != change_id:
            return None
        if adjusting.num_attempts != attempt:
            return None
        return adjusting if adjusting.verdict is Verdict.OPEN else None

    def not_dead(self, workers: Iterable[str]) -> set[str]:
        """Return the given workers that are not known to be dead."""
        return {worker for worker in workers if not self.process_table.workers[worker].is_dead}

    def found(self) -> None:
        """Start the founders and the store at once; they get their orders when the store serves.

        Raises:
            ControlError: an order holds an option that cannot be sent.
            Exception: any error of the launcher.
        """
        # Encoded once here, so that an option that cannot be sent fails the start, not a worker.
        encode(self._standing_order(self.members[0], self._slots[0], ("", 0)))
        self.process_table.spawn_store(self._status.next_number(), self._slots[0])
        for worker, slot in zip(self.members, self._slots, strict=True):
            self.process_table.spawn(worker, slot)

    def adjust(self, change: Change) -> None:
        """Start the joiners at once, and ask the leader for the new members."""
        process_table = self.process_table
        deadline = time.monotonic() + self._options.adjust_timeout_s
        if self.recover_by is not None:  # a recovery under way comes first: the change then fails
            members = self.members
            why = "the workers are recovering"
            self.adjusting = PendingChange(change, members, members, (), deadline, reason=why)
            return
        holder = {process_table.workers[worker].slot: worker for worker in self.members}
        joiners = {slot: _name(self._status) for slot in change.slots if slot not in holder}
        new = tuple((holder | joiners)[slot] for slot in change.slots)
        adjusting = PendingChange(change, self.members, new, tuple(joiners.values()), deadline)
        self.adjusting = adjusting
        self._slots = change.slots
        self._status.next_number()  # reserved for the generation that the leader will make
        try:
            for slot, worker in joiners.items():
                process_table.spawn(worker, slot)
        except Exception as error:  # a launcher may raise any error
            adjusting.joiners = tuple(w for w in joiners.values() if w in process_table.workers)
            self._give_up(adjusting, f"no workers: {error}; {self._processes.where}")
            return
        self._ask_leader()

    # Messages, by class.

    def on_leads(self, process: Process, message: Leads) -> None:
        """Record the new leader, and repeat the request that the leader before left unanswered."""
        if self._leadership.claimed(process, message.term):
            self._ask_leader()

    def on_leads_not(self, process: Process, message: LeadsNot) -> None:
        """Record that this worker, which was asked for something, leads no more."""
        self._leadership.ended(process)

    def on_suspect(self, process: Process, message: Suspect) -> None:
        """Kill the accused worker, so that it is dead for certain.

        Its end is then handled like any other.
        """
        accused = self.process_table.workers.get(message.worker)
        # A worker killed for its silence may have accused others before; its word does not count.
        is_heard = not process.is_dead and process.end is None and not process.is_killed
        if accused is None or not is_heard:
            return
        if accused.end is not None:  # the accuser may never have been connected to it
            self.process_table.tell([process.name], WorkersLost(workers=(accused.name,)))
        # A leaver closes its connections in order, but others may wait for a silent leaver.
        elif accused.left is None or message.silent_s > 0 or self._status.phase in LEAVING:
            self.process_table.accuse(accused, process.name, message.silent_s)

    def on_switched(self, process: Process, message: Switched) -> None:
        """Record that a worker's first step among the new members has ended."""
        adjusting = self.adjusting
        self._check(message.members)
        self._note_generation(message.generation)
        if message.change_id == self._made:
            return  # the change was answered without this message
        if adjusting is None or adjusting.change.change_id != message.change_id:
            if self.not_dead(message.members) != self.not_dead(self.members):
                self._end(Fate.LOST, "the workers made a change that had been given up")
            return
        if process.name in adjusting.joiners:
            adjusting.spawn_s[process.name] = process.ordered_at - process.spawned_at
        adjusting.switched[process.name] = message
        recovered = self._recovered
        if recovered is not None and recovered.generation < message.generation:
            self._recovered = None  # the change was made after that recovery
        adjusting.write_phases(self._processes.order.job_dir, process.name, message)

    def on_adjust_failed(self, process: Process, message: AdjustFailed) -> None:
        """Give up the change that the leader gave up; all members train as before."""
        adjusting = self.open_change(message.change_id, message.attempt)
        if adjusting is not None:
            self._give_up(adjusting, message.reason)

    def on_adjust_kept(self, process: Process, message: AdjustKept) -> None:
        """Wait without limit for a change that the leader can no longer give up."""
        adjusting = self.open_change(message.change_id, message.attempt)
        if adjusting is not None:
            adjusting.deadline = math.inf

    def on_adjust_retry(self, process: Process, message: AdjustRetry) -> None:
        """Fail a change: the leader is still at an earlier one, which the driver has given up."""
        adjusting = self.open_change(message.change_id, message.attempt)
        if adjusting is not None:
            self._give_up(adjusting, "another change is under way")

    def on_recovering(self, process: Process, message: Recovering) -> None:
        """Set the recovery's deadline: the leader has halted all workers, perhaps without a death.

        A late message is ignored: the workers have gone on already.
        """
        if message.generation > self._generation and self.can_recover:
            self.recovery.halted(process.name)

    def on_deposed(self, process: Process, message: Deposed) -> None:
        """Record that a leader leads no more, and that no worker went on with it."""
        self.recovery.deposed(process.name)

    def on_recovered(self, process: Process, message: Recovered) -> None:
        """Record that the survivors' first step without the dead workers has ended."""
        self._check(message.members)
        if message.generation < self._generation:
            return  # another worker has reported a later change already
        self._note_generation(message.generation)
        if any(self.process_table.workers[worker].is_dead for worker in message.members):
            return  # about an earlier death; the recovery from a later one is under way
        self._recovered = message

    def on_recovery_failed(self, process: Process, message: RecoveryFailed) -> None:
        """End the job as lost: no worker can go on."""
        self._end(Fate.LOST, f"no recovery: {message.reason}; {self.process_table.deaths()}")

    def on_straggler(self, process: Process, message: Straggler) -> None:
        """Remove stragglers, unless a change or a recovery is under way.

        The workers name a straggler again later if it is still slow.
        """
        status = self._status
        is_free = status.phase is Phase.RUNNING and status.change is None
        if not is_free or self.adjusting is not None or self.recover_by is not None:
            return
        if message.members != self.members:
            return
        slots = {worker: self.process_table.workers[worker].slot for worker in self.members}
        number = status.next_number()  # numbers the generation, too
        adjusting = removal_of(
            message.slowness, slots, self._job, self._batch, number, self._options
        )
        if adjusting is not None:
            self.adjusting, self._slots = adjusting, adjusting.change.slots
            self._ask_leader()

    def left(self, process: Process) -> None:
        """Record that a worker has left the job in order."""
        self._leadership.ended(process)
        if self.is_joining(process):  # an earlier leader may have dismissed it
            self._withdraw(f"worker {process.name} was sent away")

    # Deaths.

    def died(self, process: Process) -> None:
        """Record that a worker has died or must die, and tell the others at once."""
        if process.is_dead or process.is_dismissed or self._status.phase is Phase.ENDING:
            return
        if not self.is_wanted(process) and not self.is_joining(process):  # it was about to leave
            if process.is_killed:  # for its silence: a recovery may wait for it
                self.process_table.tell_all(WorkersLost(workers=(process.name,)))
            return
        process.is_dead = True
        self._leadership.ended(process)
        if self.is_joining(process):
            adjusting = self.adjusting
            assert adjusting is not None
            adjusting.blamed = adjusting.blamed or process.name
            self._withdraw(self.process_table.end_of(process))
        elif not self.is_over:
            if not self.can_recover or not self.survivors():
                self._end(Fate.LOST, "")  # the reason is known when the process has ended
                return
            self._status.next_number()  # reserved for the generation that follows
            recovered = self._recovered
            if recovered is not None and process.name in recovered.members:
                self._recovered = None  # else that recovery was from this death: keep it
            self.recovery.died()
        self.process_table.tell_all(WorkersLost(workers=(process.name,)))

    # What follows.

    def overdue(self, now: float) -> None:
        """Give up a recovery or a change that has taken too long."""
        adjusting = self.adjusting
        if self.recover_by is not None and now > self.recover_by:
            limit_s = self._options.recovery_timeout_s
            self._end(Fate.LOST, f"no recovery within {limit_s} s; {self.process_table.deaths()}")
        elif adjusting is not None and now > adjusting.deadline:
            if adjusting.verdict is not Verdict.OPEN:
                self.process_table.dismiss(adjusting.awaited)
            elif adjusting.switched:
                adjusting.deadline = math.inf  # the change is made; some first step takes long
            elif not adjusting.reason:
                limit_s = self._options.adjust_timeout_s
                self._withdraw(f"not done within {limit_s} s")
            elif adjusting.is_withdrawn and not adjusting.joiners:
                limit_s = self._options.recovery_timeout_s
                why = f"{adjusting.reason}, and not given up within {limit_s} s after that"
                self._end(Fate.LOST, f"a change of the workers was {why}")
            else:
                self._give_up(adjusting, adjusting.reason)

    def settle(self) -> None:
        """Answer what can be answered by now: first a change, then a loss."""
        recovered, adjusting = self._recovered, self.adjusting
        if self._status.phase is not Phase.RUNNING:
            if recovered is not None:  # the job is about to end: only its end is reported
                self.members = recovered.members
                self._status.stand(recovered.progress)
                self._recovered = None
                self.recovery.met()
            return
        if adjusting is not None:
            self._look_at(adjusting, recovered)
            if self.recover_by is not None and recovered is None:
                return
            if adjusting.verdict is Verdict.OPEN or not self.process_table.are_gone(
                adjusting.awaited
            ):
                return
            self._answer(adjusting)
        if recovered is not None:
            self._shrink(recovered)
        elif adjusting is None and self.recover_by is None and not self.survivors():
            self._end(Fate.LOST, f"no worker with the state is left; {self.process_table.deaths()}")

    def _look_at(self, adjusting: PendingChange, recovered: Recovered | None) -> None:
        """Set the verdict of a change if it is clear by now whether the workers made it."""
        if adjusting.verdict is not Verdict.OPEN:
            return
        process_table = self.process_table
        living = [worker for worker in adjusting.new if not process_table.workers[worker].is_dead]
        if adjusting.switched and living and set(living) <= set(adjusting.switched):
            adjusting.verdict = Verdict.DONE
            if len(living) == len(adjusting.new):
                self.recovery.met()  # only leavers died, so no recovery follows
        elif recovered is not None:
            why = adjusting.reason or "the workers had to recover"
            if adjusting.switched or recovered.change_id == adjusting.change.change_id:
                adjusting.verdict = Verdict.DONE
            elif not adjusting.num_attempts:
                self._give_up(adjusting, why)
            else:  # a new leader may be making the change: let it give the change up
                self._withdraw(why)
        if adjusting.verdict is Verdict.DONE:
            self.process_table.tell(adjusting.leavers, MayExit())
            adjusting.deadline = time.monotonic() + self._options.leave_timeout_s

    def _answer(self, adjusting: PendingChange) -> None:
        self.adjusting = None
        if adjusting.removal is not None and self._status.change is not None:
            self._status.retry("stragglers were being removed")
        if adjusting.verdict is Verdict.FAILED:
            if adjusting.removal is None:
                blamed = adjusting.blamed  # its process has ended by now, so the reason is known
                reason = (
                    self.process_table.end_of(self.process_table.workers[blamed]) if blamed else ""
                )
                self._status.failed(reason or adjusting.reason)
            return
        self._made = adjusting.change.change_id
        self.members = adjusting.new
        self._batch = adjusting.change.global_batch
        said = adjusting.first or self._recovered
        if said is not None:
            self._status.stand(said.progress)
        left = {p.name: p.left for p in self.process_table.workers.values() if p.left is not None}
        adjusting.write_leaving(self._processes.order.job_dir, self.process_table.workers)
        stopping_time_s = adjusting.stopping_time_s(left)
        self._status.phases_s = adjusting.phases_s()
        if stopping_time_s is not None:  # if no worker stayed, none has timed its switch
            self._status.phases_s.setdefault("switch", stopping_time_s)
        if adjusting.removal is None:
            self._status.done(stopping_time_s)
        else:
            details = adjusting.removed(adjusting.removal, self._processes.name_of)
            self._status.say(ReportKind.SHRUNK, stopping_time_s=stopping_time_s, **details)

    def _shrink(self, recovered: Recovered) -> None:
        """Report that the survivors go on, once the dead workers' processes are gone."""
        process_table = self.process_table
        lost = [worker for worker in self.members if worker not in recovered.members]
        if not process_table.are_gone(lost):
            return
        self._recovered = None
        self.recovery.met()
        self.members = recovered.members
        self._status.stand(recovered.progress)
        aside = [
            p.name for p in process_table.workers.values() if p.left and p.name not in self.members
        ]
        process_table.tell(aside, MayExit())
        if lost:
            slots = tuple(process_table.workers[worker].slot for worker in self.members)
            lost_slots = tuple(process_table.workers[worker].slot for worker in lost)
            self._status.say(
                ReportKind.SHRUNK,
                slots=slots,
                lost_slots=lost_slots,
                phases_s=dict(recovered.phases_s),
                reason=process_table.deaths(lost),
            )

    def _withdraw(self, reason: str) -> None:
        """Ask the leader to give the change up, if it still can."""
        adjusting = self.adjusting
        if adjusting is None or adjusting.is_withdrawn:
            return
        adjusting.is_withdrawn = True
        adjusting.reason = adjusting.reason or reason
        adjusting.deadline = time.monotonic() + self._options.recovery_timeout_s
        self._ask_leader()

    def _give_up(self, adjusting: PendingChange, reason: str) -> None:
        """Fail a change: kill its joiners; the job trains on as before."""
        adjusting.verdict = Verdict.FAILED
        adjusting.reason = reason
        unaware = [w for w in adjusting.joiners if not self.process_table.workers[w].is_dead]
        self.process_table.dismiss(adjusting.joiners)
        if unaware:
            self.process_table.tell_all(WorkersLost(workers=tuple(unaware)))

    # Small things.

    def _check(self, members: Iterable[str]) -> None:
        """Check that a worker's message names workers of the job.

        Raises:
            ControlError: it names others.
        """
        if unknown := sorted(set(members) - self.process_table.workers.keys()):
            raise ControlError(f"it names workers that the job does not have: {unknown}")

    def _note_generation(self, generation: int) -> None:
        self._generation = max(self._generation, generation)
        self._status.serial = max(self._status.serial, generation)

    def _ask_leader(self) -> None:
        """Ask the leader for the change, or to give it up; an unknown leader is asked later."""
        adjusting = self.adjusting
        if adjusting is None or adjusting.verdict is not Verdict.OPEN or adjusting.switched:
            return
        if self._leadership.is_known and (adjusting.is_withdrawn or not adjusting.reason):
            adjusting.num_attempts += 1
            what = adjusting.withdrawal if adjusting.is_withdrawn else adjusting.request
            self._leadership.ask(what)

    def _order_of(self, process: Process, store: tuple[str, int]) -> ElasticOrder:
        return self._standing_order(process.name, process.slot, store)

    def _standing_order(self, worker: str, slot: int, store: tuple[str, int]) -> ElasticOrder:
        """Return the present order of a founder or, if the worker is none, of a joiner."""
        is_founder = worker in self._founders
        checkpoint = self._status.checkpoint if is_founder else None
        standing = Standing(
            members=self.members if is_founder else (),
            generation=self._generation if is_founder else 0,
            global_batch=self._batch,
            logical_workers=self._job.num_logical_workers,
            virtual_workers=self._virtual_workers if is_founder else (),
            target_step=self._status.target_step,
            checkpoint=checkpoint.path if checkpoint else None,
            slots=self._slots,
            store=store,
            life=self._life,
        )
        return self._processes.worker_order(worker, slot, standing)


def _name(status: JobStatus) -> str:
    return f"w{status.next_number()}"

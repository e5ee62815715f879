"""Who works for an elastic job: its members, how they change, and what their deaths mean.

One object for each life of a job, from a start or a resume to the last process' end. The job
(``elastic_job``) tells it what workers say and how they end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from harness.contracts.engine import Change
from harness.contracts.training import ReportKind
from systems.elastic.account import Account
from systems.elastic.adjusting import Adjusting, Verdict
from systems.elastic.crew import Crew, Process
from systems.elastic.elastic_processes import ElasticProcesses, Standing
from systems.elastic.leadership import Leadership
from systems.elastic.removing import removal_of
from systems.elastic.roll import LEAVING, Roll
from systems.runtime.control import encode
from systems.runtime.job_life import Fate, Phase

End = Callable[[Fate, str], None]
"""Ends the job: what is to follow, and why."""


class Workforce(Roll):
    """See the module's text. Methods named ``on_...`` take workers' messages of that kind."""

    def __init__(
        self, processes: ElasticProcesses, account: Account, change: Change, end: End
    ) -> None:
        members = tuple(_name(account) for _ in change.slots)
        super().__init__(Crew(processes, self._order_of), account, processes.options, members)
        self._recovered: Mapping[str, Any] | None = None
        """What the survivors of a death said when they went on, until it has been reported."""
        self._made: int | None = None
        """The last change that was answered as made."""
        self._processes = processes
        self._end = end
        self._life = self._generation = account.next_number()
        self._founders = self.members
        self._slots = change.slots
        """Of all workers that train, or are to."""
        self._batch = change.global_batch
        self._virtual_workers = change.virtual_workers or ()
        self._job = change.job
        self._leadership = Leadership(self.crew)

    def found(self) -> None:
        """Start the founders and the store at once; orders follow when the store serves.

        Raises:
            ControlError: an order holds an option that cannot be sent.
            Exception: whatever the launcher raises.
        """
        # What cannot be sent is refused here rather than when a worker asks for it.
        encode(self._standing_order(self.members[0], self._slots[0], ("", 0)))
        self.crew.spawn_store(self._account.next_number(), self._slots[0])
        for worker, slot in zip(self.members, self._slots, strict=True):
            self.crew.spawn(worker, slot)

    def adjust(self, change: Change) -> None:
        """Start the joiners at once, and ask the leader for the new members."""
        crew = self.crew
        deadline = time.monotonic() + self._options.adjust_timeout_s
        if self.recover_by is not None:  # what the others make of that death comes first
            members = self.members
            why = "the workers are recovering"
            self.adjusting = Adjusting(change, members, members, (), deadline, reason=why)
            return
        holder = {crew.workers[worker].slot: worker for worker in self.members}
        joiners = {slot: _name(self._account) for slot in change.slots if slot not in holder}
        new = tuple((holder | joiners)[slot] for slot in change.slots)
        adjusting = Adjusting(change, self.members, new, tuple(joiners.values()), deadline)
        self.adjusting = adjusting
        self._slots = change.slots
        self._account.next_number()  # of the generation that the leader will make
        try:
            for slot, worker in joiners.items():
                crew.spawn(worker, slot)
        except Exception as error:  # a launcher may fail in any way it likes
            adjusting.joiners = tuple(w for w in joiners.values() if w in crew.workers)
            self._give_up(adjusting, f"no workers: {error}; {self._processes.where}")
            return
        self._ask_leader()

    # Messages, by kind.

    def on_leader(self, process: Process, message: Mapping[str, Any]) -> None:
        """It leads from now on; what the one before left unanswered is asked again."""
        if self._leadership.claimed(process, message["term"]):
            self._ask_leader()

    def on_leads_not(self, process: Process, message: Mapping[str, Any]) -> None:
        """It was asked for something, and leads no more."""
        self._leadership.ended(process)

    def on_suspect(self, process: Process, message: Mapping[str, Any]) -> None:
        """Kill the accused, so that it is dead for certain; its end then takes its way."""
        accused = self.crew.workers.get(message["worker"])
        # One that was killed for its silence may still have said that others were silent.
        is_heard = not process.is_dead and process.end is None and not process.is_killed
        if accused is None or not is_heard:
            return
        if accused.end is not None:  # its accuser may never have had a line to it
            self.crew.tell([process.name], {"kind": "lost", "workers": [accused.name]})
        # The end of a leaver's line is no death, but one that is silent may be waited for.
        elif accused.left is None or message["silent_s"] > 0 or self._account.phase in LEAVING:
            self.crew.accuse(accused, process.name, message["silent_s"])

    def on_switched(self, process: Process, message: Mapping[str, Any]) -> None:
        """Its first step among the new members has ended."""
        adjusting = self.adjusting
        self._note_generation(message["generation"])
        if message["change_id"] == self._made:
            return  # it was clear without this
        if adjusting is None or adjusting.change.change_id != message["change_id"]:
            if self.not_dead(message["members"]) != self.not_dead(self.members):
                self._end(Fate.LOST, "the workers made a change that had been given up")
            return
        if process.name in adjusting.joiners:
            adjusting.spawn_s[process.name] = process.ordered_at - process.spawned_at
        adjusting.switched[process.name] = message
        recovered = self._recovered
        if recovered is not None and recovered["generation"] < message["generation"]:
            self._recovered = None  # the change was made after it
        adjusting.write_phases(self._processes.order.job_dir, process.name, message)

    def on_adjust_failed(self, process: Process, message: Mapping[str, Any]) -> None:
        """The leader gave a change up; everybody trains as before."""
        adjusting = self.open_change(message["change_id"], message["attempt"])
        if adjusting is not None:
            self._give_up(adjusting, message["reason"])

    def on_adjust_kept(self, process: Process, message: Mapping[str, Any]) -> None:
        """A change that was to be given up is as good as made: it may take its time."""
        adjusting = self.open_change(message["change_id"], message["attempt"])
        if adjusting is not None:
            adjusting.deadline = math.inf

    def on_retry(self, process: Process, message: Mapping[str, Any]) -> None:
        """The leader is still at an earlier change, which the driver has given up."""
        self.on_adjust_failed(process, {**message, "reason": "another change is under way"})

    def on_recovering(self, process: Process, message: Mapping[str, Any]) -> None:
        """The leader has halted all, perhaps though nobody has died: they have to go on in time,
        unless they have already and this comes late."""
        if message["generation"] > self._generation and self.can_recover:
            self.recovery.halted(process.name)

    def on_deposed(self, process: Process, message: Mapping[str, Any]) -> None:
        """It leads no more, and nobody had gone on with it."""
        self.recovery.deposed(process.name)

    def on_recovered(self, process: Process, message: Mapping[str, Any]) -> None:
        """The survivors' first step without the dead has ended."""
        if message["generation"] < self._generation:
            return  # others have told of a change that was made after it
        self._note_generation(message["generation"])
        if any(self.crew.workers[worker].is_dead for worker in message["members"]):
            return  # of an earlier death; the later one is being recovered from
        self._recovered = message

    def on_recovery_failed(self, process: Process, message: Mapping[str, Any]) -> None:
        """Nobody can go on."""
        self._end(Fate.LOST, f"no recovery: {message['reason']}; {self.crew.deaths()}")

    def on_straggler(self, process: Process, message: Mapping[str, Any]) -> None:
        """Some workers are slower than the others: take them out, unless something else goes
        on; they are named again if they are still slow later."""
        account = self._account
        is_free = account.phase is Phase.RUNNING and account.change is None
        if not is_free or self.adjusting is not None or self.recover_by is not None:
            return
        if tuple(message["members"]) != self.members:
            return
        slots = {worker: self.crew.workers[worker].slot for worker in self.members}
        number, slowness = account.next_number(), message["slowness"]  # and of a generation
        adjusting = removal_of(slowness, slots, self._job, self._batch, number, self._options)
        if adjusting is not None:
            self.adjusting, self._slots = adjusting, adjusting.change.slots
            self._ask_leader()

    def left(self, process: Process) -> None:
        """It has parted from the others in order."""
        self._leadership.ended(process)
        if self.is_joining(process):  # an earlier leader may have sent it away
            self._withdraw(f"worker {process.name} was sent away")

    # Deaths.

    def died(self, process: Process) -> None:
        """A worker has died, or will: the others hear of it at once."""
        if process.is_dead or process.is_dismissed or self._account.phase is Phase.ENDING:
            return
        if not self.is_wanted(process) and not self.is_joining(process):  # it was about to leave
            if process.is_killed:  # for its silence: it may be waited for in a recovery
                self.crew.tell_all({"kind": "lost", "workers": [process.name]})
            return
        process.is_dead = True
        self._leadership.ended(process)
        if self.is_joining(process):
            adjusting = self.adjusting
            assert adjusting is not None
            adjusting.blamed = adjusting.blamed or process.name
            self._withdraw(self.crew.end_of(process))
        elif not self.is_over:
            if not self.can_recover or not self.survivors():
                self._end(Fate.LOST, "")  # the reason is known when it has ended
                return
            self._account.next_number()  # of the generation that follows
            recovered = self._recovered
            if recovered is not None and process.name in recovered["members"]:
                self._recovered = None  # else the others were quicker to notice than we
            self.recovery.died()
        self.crew.tell_all({"kind": "lost", "workers": [process.name]})

    # What follows.

    def overdue(self, now: float) -> None:
        """Give up what has taken too long."""
        adjusting = self.adjusting
        if self.recover_by is not None and now > self.recover_by:
            limit_s = self._options.recovery_timeout_s
            self._end(Fate.LOST, f"no recovery within {limit_s} s; {self.crew.deaths()}")
        elif adjusting is not None and now > adjusting.deadline:
            if adjusting.verdict is not Verdict.OPEN:
                self.crew.dismiss(adjusting.awaited)
            elif adjusting.switched:
                adjusting.deadline = math.inf  # it is made, and the last first step is a long one
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
        if self._account.phase is not Phase.RUNNING:
            if recovered is not None:  # it is about to end: only its end is reported
                self.members = tuple(recovered["members"])
                self._account.stand(recovered)
                self._recovered = None
                self.recovery.met()
            return
        if adjusting is not None:
            self._look_at(adjusting, recovered)
            if self.recover_by is not None and recovered is None:
                return
            if adjusting.verdict is Verdict.OPEN or not self.crew.are_gone(adjusting.awaited):
                return
            self._answer(adjusting)
        if recovered is not None:
            self._shrink(recovered)
        elif adjusting is None and self.recover_by is None and not self.survivors():
            self._end(Fate.LOST, f"no worker with the state is left; {self.crew.deaths()}")

    def _look_at(self, adjusting: Adjusting, recovered: Mapping[str, Any] | None) -> None:
        """Whether it is clear by now what became of a change."""
        if adjusting.verdict is not Verdict.OPEN:
            return
        crew = self.crew
        living = [worker for worker in adjusting.new if not crew.workers[worker].is_dead]
        if adjusting.switched and living and set(living) <= set(adjusting.switched):
            adjusting.verdict = Verdict.DONE
            if len(living) == len(adjusting.new):
                self.recovery.met()  # it was a leaver that died
        elif recovered is not None:
            why = adjusting.reason or "the workers had to recover"
            if adjusting.switched or recovered["change_id"] == adjusting.change.change_id:
                adjusting.verdict = Verdict.DONE
            elif not adjusting.num_attempts:
                self._give_up(adjusting, why)
            else:  # not given up by us: a new leader may be making it, asked for since
                self._withdraw(why)
        if adjusting.verdict is Verdict.DONE:
            self.crew.tell(adjusting.leavers, {"kind": "exit"})
            adjusting.deadline = time.monotonic() + self._options.leave_timeout_s

    def _answer(self, adjusting: Adjusting) -> None:
        self.adjusting = None
        if adjusting.removal is not None and self._account.change is not None:
            self._account.retry("stragglers were being removed")
        if adjusting.verdict is Verdict.FAILED:
            if adjusting.removal is None:
                blamed = adjusting.blamed  # how it ended is known by now
                reason = self.crew.end_of(self.crew.workers[blamed]) if blamed else ""
                self._account.failed(reason or adjusting.reason)
            return
        self._made = adjusting.change.change_id
        self.members = adjusting.new
        self._batch = adjusting.change.global_batch
        said = adjusting.first or self._recovered
        if said is not None:
            self._account.stand(said)
        left = {p.name: p.left for p in self.crew.workers.values() if p.left is not None}
        adjusting.write_leaving(self._processes.order.job_dir, self.crew.workers)
        stopping_time_s = adjusting.stopping_time_s(left)
        self._account.phases_s = adjusting.phases_s()
        if stopping_time_s is not None:  # where nobody stayed, nobody could time its switch
            self._account.phases_s.setdefault("switch", stopping_time_s)
        if adjusting.removal is None:
            self._account.done(stopping_time_s)
        else:
            details = adjusting.removed(adjusting.removal, self._processes.name_of)
            self._account.say(ReportKind.SHRUNK, stopping_time_s=stopping_time_s, **details)

    def _shrink(self, recovered: Mapping[str, Any]) -> None:
        """The survivors go on: say so, once those that died are gone."""
        crew = self.crew
        lost = [worker for worker in self.members if worker not in recovered["members"]]
        if not crew.are_gone(lost):
            return
        self._recovered = None
        self.recovery.met()
        self.members = tuple(recovered["members"])
        self._account.stand(recovered)
        aside = [p.name for p in crew.workers.values() if p.left and p.name not in self.members]
        crew.tell(aside, {"kind": "exit"})
        if lost:
            slots = tuple(crew.workers[worker].slot for worker in self.members)
            lost_slots = tuple(crew.workers[worker].slot for worker in lost)
            self._account.say(
                ReportKind.SHRUNK,
                slots=slots,
                lost_slots=lost_slots,
                phases_s=dict(recovered["phases_s"]),
                reason=crew.deaths(lost),
            )

    def _withdraw(self, reason: str) -> None:
        """The change is not wanted any more: the leader says whether it can still be given up."""
        adjusting = self.adjusting
        if adjusting is None or adjusting.is_withdrawn:
            return
        adjusting.is_withdrawn = True
        adjusting.reason = adjusting.reason or reason
        adjusting.deadline = time.monotonic() + self._options.recovery_timeout_s
        self._ask_leader()

    def _give_up(self, adjusting: Adjusting, reason: str) -> None:
        """A change fails: its joiners are killed, and the job runs on as before."""
        adjusting.verdict = Verdict.FAILED
        adjusting.reason = reason
        unaware = [w for w in adjusting.joiners if not self.crew.workers[w].is_dead]
        self.crew.dismiss(adjusting.joiners)
        if unaware:
            self.crew.tell_all({"kind": "lost", "workers": unaware})

    # Small things.

    def _note_generation(self, generation: int) -> None:
        self._generation = max(self._generation, generation)
        self._account.serial = max(self._account.serial, generation)

    def _ask_leader(self) -> None:
        """Tell it what is wanted; one that is not known yet is told once it is."""
        adjusting = self.adjusting
        if adjusting is None or adjusting.verdict is not Verdict.OPEN or adjusting.switched:
            return
        if self._leadership.is_known and (adjusting.is_withdrawn or not adjusting.reason):
            adjusting.num_attempts += 1
            what = adjusting.withdrawal if adjusting.is_withdrawn else adjusting.request
            self._leadership.ask(what)

    def _order_of(self, process: Process, store: tuple[str, int]) -> Mapping[str, Any]:
        return self._standing_order(process.name, process.slot, store)

    def _standing_order(self, worker: str, slot: int, store: tuple[str, int]) -> dict[str, Any]:
        """The order of a founder or, if it is none, of a joiner, as things stand."""
        is_founder = worker in self._founders
        checkpoint = self._account.checkpoint if is_founder else None
        standing = Standing(
            members=self.members if is_founder else (),
            generation=self._generation if is_founder else 0,
            global_batch=self._batch,
            logical_workers=self._job.num_logical_workers,
            virtual_workers=self._virtual_workers if is_founder else (),
            target_step=self._account.target_step,
            checkpoint=checkpoint.path if checkpoint else None,
            slots=self._slots,
            store=store,
            life=self._life,
        )
        return self._processes.worker_order(worker, slot, standing).message()


def _name(account: Account) -> str:
    return f"w{account.next_number()}"

"""Decisions of an elastic job's leader, as a state machine without clock, socket or thread.

Every input is a method, which returns the actions that follow. An input may come twice or late:
the method records what it says, and ``_advance`` then acts on all that is recorded.

Source: EDL, sections 4.1 to 4.3. Scale-out, scale-in and migration are one adjustment from the
present members to new ones. Differs: joiners count as members only when they have finished
preparing, so that no worker waits for a slow one. The first worker announces the switch in its
words (``step_sync.py``), which all members see at the same step; EDL sends a message in advance.
"""

from __future__ import annotations

from collections.abc import Sequence

from systems.elastic.leader.actions import Action, Answer, Tell
from systems.elastic.leader.adjustment import Adjustment, refusal
from systems.elastic.leader.change_log import Changes
from systems.elastic.leader.paused_workers import Stop, Stops
from systems.elastic.leader.registry import WorkerRegistry
from systems.elastic.wire.messages import (
    Adjust,
    Announce,
    Dismissed,
    Halt,
    MemberStatus,
    Pause,
    Recovering,
    RecoveryFailed,
    Resume,
)
from systems.elastic.wire.recovery_plan import Halted, Membership, Recovery, plan_resume


class Coordinator:
    """State of one leader's term. A new leader makes a new one and fills it from greetings."""

    def __init__(
        self,
        membership: Membership,
        generation: int,
        *,
        transfer: str,
        recovery: str,
        stops_first: bool = False,
    ) -> None:
        """Begin a term.

        Args:
            membership: the workers that train now.
            generation: number of their generation.
            transfer: as in ``ElasticOrder``.
            recovery: as in ``ElasticOrder``.
            stops_first: let all workers stop before a change is prepared, as a restart does.
        """
        self._memberships = {generation: membership}
        """Memberships by generation: the present one and the one before it."""
        self.generation = generation
        self._highest = generation
        """Highest generation number given so far, also by earlier leaders."""
        self._transfer = transfer
        self._mode = recovery
        self._stops_first = stops_first
        self._attendance = WorkerRegistry(generation)
        self._changes = Changes()
        self._stops = Stops()
        self.adjustment: Adjustment | None = None
        self.recovery: Recovery | None = None

    @property
    def members(self) -> tuple[str, ...]:
        """The workers of the present generation, by rank."""
        return self._memberships[self.generation].members

    def missing(self) -> set[str]:
        """Return the workers that have not connected to this leader, but should have."""
        attendance, recovery = self._attendance, self.recovery
        newcomers = set() if recovery is None else recovery.newcomers
        return attendance.missing(self.generation, self.members) | attendance.awaited(newcomers)

    # Inputs.

    def registered(self, worker: str, status: MemberStatus) -> list[Action]:
        """Record that a worker has connected; ``status`` is what it says of itself."""
        if worker in self._attendance.dead:
            return []
        is_new = self._attendance.came(worker, status)
        self._highest = max(self._highest, status.highest)
        self._note_made(status.change_id, is_placed=False)
        if self.recovery is not None:
            if is_new and status.highest >= self.recovery.number:
                return self._halt()  # an earlier leader has used this number
            if worker not in self._concerned():
                return []
            self.recovery.told.add(worker)
            return [Tell(worker, Halt(generation=self.recovery.number))]
        is_to_go_on = {worker}.intersection(self.members)
        if self._attendance.are_hurt(is_to_go_on, self._attendance.dead):
            return self._halt()
        return self._advance()

    def adjust(self, request: Adjust) -> list[Action]:
        """Begin the change of members that the driver asks for, or answer why not."""
        target, change_id = request.membership, request.change_id
        settled = self._changes.heard(change_id, request.attempt)
        if self.adjustment is not None and self.adjustment.change_id == change_id:
            return []  # the driver asked again
        if settled is not None:
            return [*settled]
        if self.adjustment is not None:
            return [self._changes.retry(change_id)]
        if self.recovery is not None:
            self._changes.postponed = change_id
            return []
        joiners = request.joiners
        reason = refusal(target, self.members, joiners, self._attendance.dead)
        if reason:
            return [self._changes.fail(change_id, reason)]
        self._changes.ask(change_id)
        self.adjustment = Adjustment(change_id, target, joiners)
        actions = self._advance()
        if self._stops_first:
            actions.insert(0, Tell(self.members[0], Pause(change_id=change_id)))
        return actions

    def withdraw(self, change_id: int, reason: str, attempt: int) -> list[Action]:
        """Give a change up, since the driver no longer waits for it.

        A change that was announced or made is kept, since workers may already count on it.
        If an earlier leader may have announced it, all workers halt, and the recovery decides.
        """
        changes = self._changes
        if has_failed := changes.heard(change_id, attempt):
            return [*has_failed]
        changes.withdraw(change_id)
        adjustment = self.adjustment
        is_present = adjustment is not None and adjustment.change_id == change_id
        # An earlier leader may have begun this change without this leader's knowledge.
        is_unknown = not is_present and not changes.is_known(change_id)
        if self.recovery is not None:
            if not is_present:
                changes.postponed = change_id
            return []
        if is_unknown and self._attendance.awaited(self.members):
            changes.deferred = change_id, reason, attempt
            return []
        is_open = is_present and adjustment is not None and not adjustment.is_announced
        if (is_open or is_unknown) and self._may_have_been_announced:
            changes.postponed = change_id
            return self._halt("a change was given up")
        if is_open:
            return self._cancel(reason)
        if is_present or change_id in changes.done:
            return [changes.kept(change_id)]
        return [changes.fail(change_id, reason)]

    def prepared(self, worker: str, address: str, port: int) -> list[Action]:
        """Record that a joiner can receive the state now, at this address."""
        self._attendance.receivers[worker] = (address, port)
        return self._advance()

    def stopped(self, worker: str, at: Stop, *, goes_on: bool) -> list[Action]:
        """Record that a worker has stopped training for a change, at the end of a step.

        Args:
            worker: its name.
            at: where it stopped, and for which change.
            goes_on: whether a leader has told it since to go on in the same generation.
        """
        self._stops.note(worker, at, goes_on=goes_on)
        return self._advance()

    def built(self, worker: str, generation: int) -> list[Action]:
        """Record that a worker has built a generation's group, or knows that it is no member."""
        if self.adjustment is not None and self.adjustment.generation == generation:
            self.adjustment.built.add(worker)
        return self._advance()

    def caught_up(self, worker: str, generation: int) -> list[Action]:
        """Record that a joiner has the state and keeps up with the other workers."""
        if self.adjustment is not None and self.adjustment.generation == generation:
            self.adjustment.caught_up.add(worker)
        return self._advance()

    def switched(
        self, worker: str, generation: int, membership: Membership, change_id: int | None = None
    ) -> list[Action]:
        """Record that a worker works in a generation, so all its members will, or have died.

        Args:
            worker: its name.
            generation: the generation that it has entered.
            membership: the members of that generation.
            change_id: the last change that the worker went through; None: none.
        """
        self._attendance.switched(worker, generation, membership)
        self._note_made(change_id)  # perhaps one that an earlier leader announced
        self._highest = max(self._highest, generation)
        if generation <= self.generation:
            return []
        answers: list[Action] = []
        self._enter(generation, membership)
        if self.recovery is not None and self.recovery.number == generation:
            self.recovery = None
            answers += self._changes.recovered(change_id)
        return [*answers, *self._advance()]

    def halted(self, worker: str, number: int, report: Halted) -> list[Action]:
        """Record that a survivor has stopped at a step boundary and waits."""
        if self.recovery is None and number > self.generation:
            return self._halt()  # an earlier leader began this recovery, and is gone
        if self.recovery is not None and self.recovery.number == number:
            self.recovery.halted[worker] = report
            self._learn(report)
        return self._advance()

    def lost(self, workers: Sequence[str], parted: Sequence[str] = ()) -> list[Action]:
        """Record deaths; a worker may report the same death again.

        Args:
            workers: the workers that have died.
            parted: those of them that the reporting worker has gone on without since, in its
                present generation; they are to join no later generation.
        """
        new = self._attendance.died(workers)
        if not new:
            return []
        adjustment = self.adjustment
        is_hurt = bool(new & self._concerned(dead=True))
        is_hurt |= self._attendance.are_hurt(self.members, new)
        if self._may_have_been_announced and not new <= set(parted):
            return self._halt() if is_hurt or self.recovery is None else self._advance()
        if is_hurt:
            if adjustment is None or not new <= set(adjustment.joiners) or adjustment.is_announced:
                return self._halt()
        elif adjustment is None or not new & set(adjustment.joiners):
            return self._advance()  # a recovery may have waited for a dead leaver
        actions = self._cancel(f"{', '.join(sorted(new))} died before it had joined")
        return [*actions, *self._advance()]  # a recovery may have waited for the dead joiner

    def left(self, worker: str) -> list[Action]:
        """Record that a worker has left this leader in order."""
        self._attendance.parted(worker)
        if self.recovery is not None:
            self.recovery.halted.pop(worker, None)
        return self._advance()

    def meeting_failed(self, worker: str, generation: int, reason: str) -> list[Action]:
        """Record that a worker could not build a generation's group, or did not get its state.

        The adjustment to that generation is cancelled. If workers may already count on the
        generation, all halt instead and recover into a new one.
        """
        why = f"{worker} could not meet the others: {reason}"
        if self.recovery is not None:
            return self._halt(why) if self.recovery.number == generation else []
        if generation == self.generation:
            return self._halt(why)
        if self.adjustment is not None and self.adjustment.generation == generation:
            counts = self.adjustment.is_announced or self._may_have_been_announced
            return self._halt(why) if counts else self._cancel(why)
        entered = self._attendance.entered.get(worker, 0)
        if worker in self.members and entered <= generation < self.generation:
            return self._halt(why)  # its group broke in the last step before the others' switch
        return []

    # What follows.

    @property
    def _may_have_been_announced(self) -> bool:
        """Return whether an earlier leader may have announced a change unknown to this one.

        Workers have then heard of a generation number above the present one. The reports of halted
        workers settle the question, so without recovery the answer is False.
        """
        return self._mode != "none" and self._attendance.heard > self.generation

    def _note_made(self, change_id: int | None, *, is_placed: bool = True) -> None:
        """Record that a worker has gone through a change; None: through none."""
        if change_id is not None:
            self._changes.made(change_id, is_placed=is_placed)
        if self.adjustment is not None and self.adjustment.change_id in self._changes.done:
            self.adjustment = None

    def _concerned(self, *, dead: bool = False) -> set[str]:
        """Return the workers that a recovery must hear from; with ``dead``, the dead ones too.

        These are the present members, the members to come once a topology was sent, and leavers.
        A leaver that is still connected may be the only worker with the last step's state.
        """
        workers = set(self.members)
        for membership in self._memberships.values():
            workers |= set(membership.members) & self._attendance.here
        if self.adjustment is not None and self.adjustment.generation:
            workers |= set(self.adjustment.target.members)
        if self.recovery is not None:
            workers |= self.recovery.newcomers - self._attendance.left
        return workers if dead else workers - self._attendance.dead

    def _enter(self, generation: int, membership: Membership) -> None:
        before = self._memberships[self.generation]
        self._memberships = {self.generation: before, generation: membership}
        self.generation = generation

    def _next_generation(self) -> int:
        self._highest += 1
        return self._highest

    def _advance(self) -> list[Action]:
        if self.recovery is not None:
            return self._advance_recovery(self.recovery)
        deferred = self._changes.deferred
        if deferred is not None and not self._attendance.awaited(self.members):
            self._changes.deferred = None
            return [*self.withdraw(*deferred), *self._advance()]
        announced = self._attendance.announced
        freed = self._stops.free(self.generation, announced, self.members, self._is_open)
        actions: list[Action] = [*freed]
        if self.adjustment is not None:
            actions += self._advance_adjustment(self.adjustment)
        return actions

    def _advance_adjustment(self, adjustment: Adjustment) -> list[Action]:
        new = set(adjustment.target.members)
        if not adjustment.generation:
            are_here = new | set(self.members) <= self._attendance.here
            if are_here and set(adjustment.joiners) <= set(self._attendance.receivers):
                return self._send_topology(adjustment)
        elif not adjustment.is_announced and self._are_ready(adjustment):
            adjustment.is_announced = True
            self._stops.told(adjustment.change_id)
            message = Announce(generation=adjustment.generation)
            # Workers that train hear it in a step's words; stopped ones need a message each.
            told = self.members if self._stops_first else self.members[:1]
            return [Tell(worker, message) for worker in told]
        return []

    def _are_ready(self, adjustment: Adjustment) -> bool:
        """Return whether the new members could switch at any step from now on."""
        waiting = self._transfer == "background" and set(adjustment.joiners) - adjustment.caught_up
        # Leavers must be ready too: they read the switch in the words and need its topology.
        everybody = set(adjustment.target.members) | set(self.members)
        return not waiting and everybody <= adjustment.built

    def _send_topology(self, adjustment: Adjustment) -> list[Action]:
        adjustment.generation = self._next_generation()
        message = adjustment.topology(self.members, self._attendance.receivers)
        everybody = dict.fromkeys([*self.members, *adjustment.target.members])
        return [Tell(worker, message) for worker in everybody]

    def _is_open(self, change_id: int) -> bool | None:
        """Return ``Changes.is_open``, or True for the adjustment under way."""
        if self.adjustment is not None and self.adjustment.change_id == change_id:
            return True
        return self._changes.is_open(change_id)

    def _cancel(self, reason: str) -> list[Action]:
        adjustment = self.adjustment
        assert adjustment is not None
        self.adjustment = None
        actions: list[Action] = [
            Tell(worker, Dismissed())
            for worker in adjustment.joiners
            if worker in self._attendance.here
        ]
        self._stops.told(adjustment.change_id)
        if adjustment.generation or self._stops_first:
            cancel = adjustment.cancellation()
            actions += [
                Tell(worker, cancel)
                for worker in self.members
                if worker not in self._attendance.dead
            ]
        return [*actions, self._changes.fail(adjustment.change_id, reason)]

    def _halt(self, reason: str = "a worker died") -> list[Action]:
        """Begin a recovery: halt the survivors at a step boundary.

        A death during a recovery begins another recovery with a number of its own.
        """
        if self._mode == "none":
            return []  # the driver ends the job
        self._stops.clear()
        self._changes.halted()
        self.recovery = Recovery(self._next_generation(), reason)
        # The driver limits how long a recovery takes, and may not know of this one.
        known = Answer(Recovering(generation=self.recovery.number))
        return [*self._tell_halt(self.recovery), known]

    def _tell_halt(self, recovery: Recovery) -> list[Action]:
        """Return halt messages to the concerned workers that were not told yet."""
        new = (self._concerned() & self._attendance.here) - recovery.told
        recovery.told |= new
        return [Tell(worker, Halt(generation=recovery.number)) for worker in sorted(new)]

    def _learn(self, report: Halted) -> None:
        """Take from a halted worker's report the membership of a generation that is unknown here.

        That happens, for instance, when a leaver leads because the leader that sent it away died.
        """
        adjustment, generation = self.adjustment, report.generation
        is_known = adjustment is not None and adjustment.generation == generation
        if generation <= self.generation or is_known or report.membership is None:
            return
        self._enter(generation, report.membership)
        self._note_made(report.change_id)

    def _advance_recovery(self, recovery: Recovery) -> list[Action]:
        if recovery.resumed is not None:
            return []
        # This leader may have learned only now of workers that the recovery concerns.
        halts = self._tell_halt(recovery)
        if not self._concerned() <= set(recovery.halted):
            return halts
        known = dict(self._memberships)
        adjustment = self.adjustment
        if adjustment is not None and adjustment.generation:
            known[adjustment.generation] = adjustment.target
        plan = plan_resume(recovery.halted, known, self._attendance.dead, self._mode)
        if plan is None:
            return [Answer(RecoveryFailed(reason="no survivor has the whole state"))]
        recovery.resumed = plan.membership
        resume = Resume(generation=recovery.number, plan=plan)
        actions: list[Action] = [Tell(worker, resume) for worker in sorted(recovery.halted)]
        if adjustment is not None:
            self.adjustment = None
            if plan.from_generation == adjustment.generation:
                self._enter(adjustment.generation, adjustment.target)
                self._changes.made(adjustment.change_id)
            else:
                actions += [
                    Tell(worker, Dismissed())
                    for worker in adjustment.joiners
                    if worker in self._attendance.here and worker not in recovery.halted
                ]
                actions.append(self._changes.fail(adjustment.change_id, recovery.reason))
        return actions

"""Everything that has to be warm before a job needs it: the driver's part of ``start``.

The pre-importing process is started, and spares are prepared, when a backend is opened. A spare
that was used is replaced when training is at rest again: no change is in flight, and every job
has done as many steps since the last one as count towards its cost. So no replacement disturbs
what is measured; a change that comes sooner finds fewer spares, and has forks instead, which is
counted (``spares_missed``). Low priority would not do: without privileges a process that has
lowered its own cannot raise it again; and where the kernel groups tasks by session (autogroups),
priorities do not count between workers.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.cluster import Cluster, Slot
from harness.contracts.engine import Change
from harness.contracts.launcher import Launcher, ProcessSpec, Spares, SpareSpec, Warmth
from harness.contracts.training import TrainingOrder
from harness.samples_lost import STEPS_UNTIL_KNOWN
from systems.runtime.driven_job import LOSING_WAIT_S, DrivenJob
from systems.runtime.kernels import kernels_of
from systems.runtime.options import RuntimeOptions
from systems.runtime.processes import slot_environment
from systems.runtime.recipe import Recipe

PREPARE_ENTRIES = {
    Warmth.SPARE: "systems.runtime.rehearsal:rehearse",
    Warmth.STANDBY: "systems.runtime.standby:prepare",
}


class RuntimeSetupError(Exception):
    """The runtime cannot be made ready; the text says why and what can be done."""


class Warming:
    """See the module's text."""

    def __init__(
        self,
        options: RuntimeOptions,
        cluster: Cluster,
        launcher: Launcher,
        wait: Callable[[float], None],
    ) -> None:
        """Args: ``wait`` waits so many seconds, and may be cut short."""
        self._options = options
        self._cluster = cluster
        self._launcher = launcher
        self._wait = wait
        self._is_keeping = False
        """Whether there are to be spares."""
        self._recipes: dict[str, Recipe] = {}
        """Of all jobs that have begun, by their identity: what standbys are to have built."""
        self._is_outdated = False
        """Whether standbys are to be made anew, by the recipes as they are now."""
        self._proven: set[str] = set()
        """Recipes that standbys have followed."""
        self._given_up: set[str] = set()
        """Those that they did not live through."""
        self._is_one_by_one = False
        """Whether one of several was such a recipe, and it is to be found out which."""
        self._ready, self._since = 0, time.monotonic()
        """How many spares were ready, and since when it has been so many while others were not."""
        self._rest: dict[str, int] | None = None
        """The step of every job when the last change had ended; None: one is in flight."""

    def open(self) -> None:
        """Do what ``start`` asks for, and wait until it is done.

        Raises:
            RuntimeSetupError: modules cannot be imported, spares cannot be prepared.
        """
        warmth = self._options.warmth
        if warmth is Warmth.COLD:
            return
        deadline = time.monotonic() + self._options.start_timeout_s
        self._import(deadline)
        if warmth.is_kept:
            self._is_keeping = True
            try:
                self._prepare(deadline)
            except BaseException:
                self.close()
                raise

    def begins(self, order: TrainingOrder, change: Change) -> None:
        """A job begins: standbys are to have built what it trains."""
        options, spec = self._options, order.workload
        if options.warmth is not Warmth.STANDBY or "." not in spec.target:  # a script
            return
        is_reduced, common = options.reduction == "ordered", options.common_kernels
        recipe = Recipe.of(spec, order.seed, change, is_reduced=is_reduced, common=common)
        try:
            identity = recipe.identity
        except TypeError:  # options that cannot be sent: the job's own start says so
            return
        if identity not in {*self._recipes, *self._given_up}:
            self._recipes[identity] = recipe
            self._is_outdated = True

    def check(self, jobs: Mapping[str, DrivenJob]) -> None:
        """Have spares replaced if some are lacking and training is at rest."""
        if not self._is_keeping:
            return
        if any(job.change is not None for job in jobs.values()):
            self._rest, self._since = None, time.monotonic()
            return
        steps = {name: job.step for name, job in jobs.items() if job.is_alive}
        if self._rest is None:
            self._rest = steps
        spares = self._launcher.spares()
        if not self._is_outdated:
            self._judge(spares)
        if (self._is_outdated or spares.alive < spares.wanted) and all(
            step >= self._rest.get(name, step) + STEPS_UNTIL_KNOWN for name, step in steps.items()
        ):
            if self._is_outdated:
                self._is_outdated, self._since = False, time.monotonic()
            self._keep()
            self._rest = steps  # should these die at once, the next ones take as long

    def _judge(self, spares: Spares) -> None:
        """Go on without programs that end the standbys which build them, or hang them."""
        now, on_trial = time.monotonic(), self._on_trial()
        if spares.ready != self._ready or spares.ready >= spares.alive:
            self._ready, self._since = spares.ready, now
        if not on_trial:
            return
        is_late = now - self._since > self._options.start_timeout_s
        if spares.failure or is_late:
            if len(on_trial) > 1:
                self._is_one_by_one = True
            else:
                (culprit,) = on_trial
                why = spares.failure or f"preparing one {self._too_long()}"
                named = self._recipes.pop(culprit).workload
                print(f"standbys do without {named}: {why}", file=sys.stderr)
                self._given_up.add(culprit)
            self._is_outdated = True
        elif spares.ready >= spares.wanted:
            self._proven |= set(on_trial)
            self._is_outdated = bool(self._on_trial())

    def _on_trial(self) -> list[str]:
        """Recipes that standbys are to follow, of which none has done so yet."""
        unproven = [identity for identity in self._recipes if identity not in self._proven]
        return unproven[:1] if self._is_one_by_one else unproven

    def _keep(self) -> None:
        """Want a spare for every slot, in place of any that is to be another by now."""
        self._launcher.keep([self._spec(slot) for slot in self._cluster.slots])

    def close(self) -> None:
        """End the spares that nobody has used; ``are_gone`` says when they have."""
        if self._is_keeping:
            self._launcher.keep(())

    def are_gone(self) -> bool:
        """Whether no spare is left."""
        return not self._is_keeping or self._launcher.spares().alive == 0

    def _spec(self, slot: Slot) -> SpareSpec:
        address, kernels = self._cluster.hosts[slot.host].address, kernels_of(slot)
        argv: tuple[str, ...] = (self._options.device, slot.device_type)
        if self._options.warmth is Warmth.STANDBY:
            known = {*self._proven, *self._on_trial()}
            recipes = [one.to_json() for name, one in self._recipes.items() if name in known]
            argv = (*argv, str(kernels.num_threads), *recipes)
        return SpareSpec(
            host=address,
            cores=slot.cores,
            env=slot_environment(slot, address, kernels),
            prepare=PREPARE_ENTRIES[self._options.warmth],
            argv=argv,
        )

    def _import(self, deadline: float) -> None:
        """Have a process forked on every host, so that the pre-import is over when jobs come."""
        addresses = sorted({host.address for host in self._cluster.hosts})
        handles = {}
        for address in addresses:
            spec = ProcessSpec(
                name=f"warm-up-{address}",
                entry="systems.runtime.worker:warm_up",
                argv=(),
                env={},
                host=address,
                cores=(),
                log_path=Path("/dev/null"),
                warmth=Warmth.PREIMPORTED,
            )
            handles[self._launcher.start(spec)] = address
        while handles:
            for end in self._launcher.ended():
                address = handles.pop(end.handle)
                if end.returncode != 0:
                    raise RuntimeSetupError(f"pre-import on {address} failed: {end.reason}")
            if time.monotonic() > deadline:
                for handle in handles:
                    self._launcher.signal(handle, signal.SIGKILL)
                where = ", ".join(sorted(handles.values()))
                raise RuntimeSetupError(f"pre-import on {where} {self._too_long()}")
            self._wait(LOSING_WAIT_S)

    def _prepare(self, deadline: float) -> None:
        """Have all spares prepared."""
        self._keep()
        while True:
            self._launcher.ended()  # of nothing: no job has begun
            spares = self._launcher.spares()
            if spares.failure:
                raise RuntimeSetupError(
                    f"start={self._options.start}: {spares.failure}; correct that, or use"
                    " start=preimported"
                )
            if spares.ready >= spares.wanted:
                return
            if time.monotonic() > deadline:
                raise RuntimeSetupError(
                    f"preparing {spares.wanted} spares {self._too_long()}, or use start=preimported"
                )
            self._wait(LOSING_WAIT_S)

    def _too_long(self) -> str:
        return f"took longer than {self._options.start_timeout_s} s; raise start_timeout_s"

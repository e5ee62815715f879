"""The driver's part of the option ``start``: processes that are made ready before a job needs them.

When a backend is opened, the fork server imports the libraries and spares are prepared. A used
spare is replaced only when training is at rest. At rest means: no change is in flight, and every
job has since done as many steps as count towards the cost of a change. So replacements do not
disturb what is measured. A change that comes sooner finds fewer spares and forks instead, which
``spares_missed`` counts.

Low priority would not replace this rule. An unprivileged process that has lowered its priority
cannot raise it again. Where the kernel groups tasks by session (autogroups), priorities do not
count between workers.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.cluster import Cluster, Slot
from harness.contracts.change import Change
from harness.contracts.launcher import Launcher
from harness.contracts.process import ProcessSpec, Spares, SpareSpec, Warmth
from harness.contracts.training_order import TrainingOrder
from harness.errors import RunError
from harness.metrics.samples_lost import STEPS_UNTIL_KNOWN
from systems.runtime.driver.job_protocol import LOSING_WAIT_S, DrivenJob
from systems.runtime.driver.launch import slot_environment
from systems.runtime.wire.kernels import kernels_of
from systems.runtime.wire.options import RuntimeOptions
from systems.runtime.wire.recipe import Recipe

PREPARE_ENTRIES = {
    Warmth.SPARE: "systems.runtime.worker.warm_up:warm_up_spare",
    Warmth.STANDBY: "systems.runtime.worker.standby:prepare",
}


class RuntimeSetupError(RunError):
    """The runtime cannot be made ready; the text gives the reason and a remedy."""


class WarmPool:
    """Keeper of the fork servers, spares and standbys of a backend."""

    def __init__(
        self,
        options: RuntimeOptions,
        cluster: Cluster,
        launcher: Launcher,
        wait: Callable[[float], None],
    ) -> None:
        """Store the settings; ``open`` starts the work.

        Args:
            options: options of the backend.
            cluster: cluster whose slots get spares.
            launcher: launcher of the processes.
            wait: waits for up to the given number of seconds.
        """
        self._options = options
        self._cluster = cluster
        self._launcher = launcher
        self._wait = wait
        self._is_keeping = False
        """True if spares are wanted."""
        self._recipes: dict[str, Recipe] = {}
        """Recipes that standbys must build, by identity: those of all jobs that have begun."""
        self._is_outdated = False
        """True if standbys must be made again to match the present recipes."""
        self._proven: set[str] = set()
        """Identities of recipes that standbys have built."""
        self._given_up: set[str] = set()
        """Identities of recipes that ended or hung the standbys which built them."""
        self._is_one_by_one = False
        """True if one of several recipes ended or hung standbys, and they are tried singly to find
        it."""
        self._ready, self._since = 0, time.monotonic()
        """Number of ready spares, and the time since which it has been so while others were not
        ready."""
        self._rest: dict[str, int] | None = None
        """Step of every job when the last change had ended; None while a change is in flight."""

    def open(self) -> None:
        """Make ready what ``start`` asks for, and wait until it is ready.

        Raises:
            RuntimeSetupError: modules cannot be imported, or spares cannot be prepared.
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
        """Record that a job begins: standbys must build its program from now on."""
        options, spec = self._options, order.workload
        if options.warmth is not Warmth.STANDBY or "." not in spec.target:  # a script
            return
        is_reduced, common = options.reduction == "ordered", options.common_kernels
        recipe = Recipe.of(spec, order.seed, change, is_reduced=is_reduced, common=common)
        try:
            identity = recipe.identity
        except TypeError:  # options that cannot be sent: the job's own start reports them
            return
        if identity not in {*self._recipes, *self._given_up}:
            self._recipes[identity] = recipe
            self._is_outdated = True

    def check(self, jobs: Mapping[str, DrivenJob]) -> None:
        """Replace spares that are used or outdated, if training is at rest."""
        if not self._is_keeping:
            return
        if any(job.status.change is not None for job in jobs.values()):
            self._rest, self._since = None, time.monotonic()
            return
        steps = {name: job.status.step for name, job in jobs.items() if job.is_alive}
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
            self._rest = steps  # should these die at once, the next ones are made no sooner

    def _judge(self, spares: Spares) -> None:
        """Give up programs that end or hang the standbys which build them.

        If several programs are on trial, they are tried one by one first, to find the culprit.
        """
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
        """Return the recipes that standbys must build but that no standby has built yet."""
        unproven = [identity for identity in self._recipes if identity not in self._proven]
        return unproven[:1] if self._is_one_by_one else unproven

    def _keep(self) -> None:
        """Ask the launcher for one spare for every slot; it replaces those with another
        specification."""
        self._launcher.keep([self._spec(slot) for slot in self._cluster.slots])

    def close(self) -> None:
        """End the unused spares; ``are_gone`` tells when they have ended."""
        if self._is_keeping:
            self._launcher.keep(())

    def are_gone(self) -> bool:
        """Return whether no spare is left."""
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
        """Fork a process on every host, so that the pre-import is over when jobs come."""
        addresses = sorted({host.address for host in self._cluster.hosts})
        handles = {}
        for address in addresses:
            spec = ProcessSpec(
                name=f"warm-up-{address}",
                entry="systems.restart.main:warm_up",
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
        """Prepare all spares and wait until they are ready."""
        self._keep()
        while True:
            self._launcher.ended()  # returns nothing of interest: no job has begun
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

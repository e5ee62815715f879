"""Options of stop-free training, in addition to those of every backend on this runtime."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from systems.elastic.election.etcd_keystore import DEFAULT_ENDPOINT, endpoint_problems
from systems.elastic.wire.stragglers import StragglerRule
from systems.runtime.wire.options import RuntimeOptions

_KNOWN = {
    "transfer": ("background", "peer", "broadcast"),
    "recovery": ("none", "consistent", "approximate", "exact"),
    "straggler": ("off", "remove"),
    "store": ("embedded", "etcd"),
    "collectives": ("gloo", "nccl"),
}
_TIMES = (
    "heartbeat_s",
    "leader_expiry_s",
    "leader_refresh_s",
    "adjust_timeout_s",
    "leave_timeout_s",
    "recovery_timeout_s",
)


@dataclass(frozen=True, slots=True)
class ElasticOptions:
    """Options of stop-free training, the same for every worker of a job.

    Raises:
        ValueError: options out of range or in the wrong order, all at once, one a line.
    """

    runtime: RuntimeOptions = field(default_factory=RuntimeOptions)
    transfer: str = "background"
    """Transfer of the training state to joiners.

    ``background``: while the others train; ``peer``: at the switch, from one of them;
    ``broadcast``: at the switch, over the new group (EDL's way).
    """
    recovery: str = "exact"
    """Recovery after a worker's death.

    ``none``: the job is lost; ``consistent``: the others go back to the last checkpoint;
    ``approximate``: they go on, perhaps without the last step; ``exact``: they go on from the last
    step that any of them committed.
    """
    store: str = "embedded"
    """Store in which the workers elect their leader.

    ``embedded``: the job's own store process, in which their groups meet in any case; ``etcd``: an
    etcd cluster that runs already.
    """
    etcd_endpoints: tuple[str, ...] = (DEFAULT_ENDPOINT,)
    """Addresses of the members of etcd, for ``store=etcd``; the first that answers is used."""
    collectives: str = "gloo"
    """Backend of the collectives that sum gradients.

    ``gloo``: in host memory, also for several slots on one device; ``nccl``: between devices, where
    each slot has a CUDA device of its own. ``nccl`` was never tried on such a machine.
    """
    heartbeat_s: float = 0.1
    """Interval of the heartbeats between leader and workers."""
    leader_expiry_s: float = 3.0
    """Age of the leader's claim, since its last refresh, at which another worker takes over."""
    leader_refresh_s: float = 1.0
    """Interval at which the leader refreshes its claim."""
    switch_allowance_s: float = 0.0
    """Least time between the leader's announcement and the switch (T_a of the EDL paper)."""
    adjust_timeout_s: float = 300.0
    """Longest time from the request of a change of workers until they have switched."""
    leave_timeout_s: float = 30.0
    """Longest time that a leaving worker may take after the switch; then it is killed."""
    recovery_timeout_s: float = 30.0
    """Longest time from a worker's death until the others go on; then the job is lost."""
    straggler: str = "off"
    """Treatment of a worker that is slow by ``straggler_ratio`` and ``straggler_window``.

    ``off``: nothing; ``remove``: the worker leaves in order (EDL, section 5.2), and the scheduler
    is told that the grant has shrunk.
    """
    straggler_ratio: float = 1.2
    """Ratio of a worker's step time to the median of all workers, above which it is slow."""
    straggler_window: int = 10
    """Number of consecutive steps in which a straggler was slow."""
    stops_first: bool = False
    """Whether all workers stop before a change is prepared, as in a restart (``warm_restart``)."""

    @property
    def hang_timeout_s(self) -> float:
        """Time without a heartbeat after which a worker counts as hanging and is killed.

        Its peers report the silence, or the driver notices it.
        """
        return self.runtime.hang_timeout_s

    def __post_init__(self) -> None:
        problems = []
        for name, known in _KNOWN.items():
            if getattr(self, name) not in known:
                problems.append(f"{name} is {getattr(self, name)!r}; known: {', '.join(known)}")
        if self.store == "etcd":
            problems += endpoint_problems(self.etcd_endpoints)
        for name in _TIMES:
            if not getattr(self, name) > 0:
                problems.append(f"{name} is {getattr(self, name)}; it must be > 0")
        if not self.switch_allowance_s >= 0:
            problems.append(
                f"switch_allowance_s is {self.switch_allowance_s}; use 0 for the next step"
            )
        for smaller, larger, why in (
            ("heartbeat_s", "hang_timeout_s", "one late heartbeat would be a death"),
            ("leader_refresh_s", "leader_expiry_s", "every leader would expire"),
            ("hang_timeout_s", "recovery_timeout_s", "a second death would never be noticed"),
        ):
            if not 2 * getattr(self, smaller) <= getattr(self, larger):
                problems.append(
                    f"{smaller} is {getattr(self, smaller)} and {larger} is"
                    f" {getattr(self, larger)}: {why}; make {larger} at least twice as long"
                )
        silent_s = self.leader_expiry_s + self.hang_timeout_s
        if not silent_s < self.recovery_timeout_s:
            problems.append(
                f"recovery_timeout_s is {self.recovery_timeout_s}, not above leader_expiry_s and"
                f" hang_timeout_s together ({silent_s:g}): a worker that does not come to a new"
                " leader would be noticed too late; raise recovery_timeout_s"
            )
        if not self.runtime.collective_timeout_s > self.hang_timeout_s:
            problems.append(
                f"collective_timeout_s is {self.runtime.collective_timeout_s}, not above"
                f" hang_timeout_s ({self.hang_timeout_s}): a sum would be given up before the"
                " worker that hangs in it is known; raise collective_timeout_s"
            )
        is_given_late = self.transfer != "background"
        if is_given_late and not self.recovery_timeout_s > self.switch_allowance_s:
            problems.append(
                f"recovery_timeout_s is {self.recovery_timeout_s}, not above switch_allowance_s"
                f" ({self.switch_allowance_s}): newcomers wait no longer for a state that comes at"
                " the switch; raise recovery_timeout_s"
            )
        if not self.adjust_timeout_s > self.switch_allowance_s:
            problems.append(
                f"adjust_timeout_s is {self.adjust_timeout_s}, not above switch_allowance_s"
                f" ({self.switch_allowance_s}): no change could ever be done"
            )
        try:
            StragglerRule(self.straggler_ratio, self.straggler_window)
        except ValueError as error:
            problems.append(str(error))
        if self.straggler == "remove" and self.runtime.warmth.is_kept:
            problems.append(
                f"straggler is 'remove', but start is {self.runtime.start!r}: spares are prepared"
                " on the cores of workers, which are slow meanwhile and would be removed; use"
                " start=preimported"
            )
        if self.recovery == "consistent" and not self.runtime.checkpoint_every:
            problems.append(
                "recovery is 'consistent', but checkpoint_every is 0: there is no checkpoint to"
                " go back to; set checkpoint_every, or recovery=exact"
            )
        if problems:
            raise ValueError("\n".join(problems))


_HANG_TIMEOUT_S = 2.0
"""Default of ``hang_timeout_s`` here; workers watch each other's heartbeats, so it can be short."""


def elastic_options(**options: Any) -> ElasticOptions:
    """Return options from their names, with those of ``RuntimeOptions`` among them.

    Raises:
        ValueError: options out of range or in the wrong order, all at once, one a line.
    """
    names = {field.name for field in fields(RuntimeOptions)}
    of_runtime = {name: value for name, value in options.items() if name in names}
    others = {name: value for name, value in options.items() if name not in names}
    problems = []
    of_runtime = {"data_order": "blocks", "hang_timeout_s": _HANG_TIMEOUT_S, **of_runtime}
    try:
        runtime = RuntimeOptions(reduction="ordered", **of_runtime)
    except ValueError as error:
        problems.append(str(error))
        # The other options are still compared with the user's hang_timeout_s, unless that is
        # refused.
        hang_timeout_s = of_runtime["hang_timeout_s"]
        given_s = hang_timeout_s if hang_timeout_s > 0 else _HANG_TIMEOUT_S
        runtime = RuntimeOptions(hang_timeout_s=given_s)
    try:
        found = ElasticOptions(runtime=runtime, **others)
    except ValueError as error:
        problems.append(str(error))
    if problems:
        raise ValueError("\n".join(problems))
    return found

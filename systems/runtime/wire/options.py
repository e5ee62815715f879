"""Options that all backends on this runtime share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from harness.contracts.process import Warmth


class RuntimeChoices(TypedDict, total=False):
    """Options that every backend on this runtime has: fields of ``RuntimeOptions``."""

    start: str
    device: str
    bind: str
    data_order: str
    block_samples: int
    start_timeout_s: float
    stop_timeout_s: float
    hang_timeout_s: float
    collective_timeout_s: float


class FetchingChoices(RuntimeChoices, total=False):
    """Options of the backends whose workers can fetch samples in advance."""

    prefetch_steps: int
    loader_processes: int


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """Options of all backends on this runtime.

    Raises:
        ValueError: options are out of range; the text lists all of them, one a line.
    """

    start: str = "cold"
    """Kind of start of a worker. ``cold``: a fresh interpreter for each worker. ``preimported``: a
    fork of a process that has already imported the training library. ``spare``: such forks made in
    advance, one or more for each slot, with their device open. ``standby``: spares that have also
    built the programs of the run's jobs."""
    device: str = "auto"
    """``cpu``, ``cuda`` or ``auto``; auto means cuda if one exists and the slot is not a CPU."""
    bind: str = "127.0.0.1"
    """Address of this machine on which workers reach the driver."""
    checkpoint_every: int = 0
    """Number of steps between two checkpoints; 0: only when a change needs one."""
    start_timeout_s: float = 300.0
    """Longest time from a start to the end of the first step."""
    stop_timeout_s: float = 120.0
    """Longest time from the request to save and leave to the end of all workers."""
    hang_timeout_s: float = 10.0
    """Silence after which a worker is taken for stopped, and killed. The driver's own check takes
    at least 2 s. The check begins only after a worker's first step, which ``start_timeout_s``
    limits."""
    collective_timeout_s: float = 1800.0
    """Time-out of the workers' collectives. The launcher reports a death long before it."""
    replay_layout: bool = True
    """Make one pass whose results are discarded after a restart on more than two workers. Gradient
    buckets are then those of an uninterrupted job, so training stays bitwise the same."""
    reduction: str = "ddp"
    """``ddp``: stock DistributedDataParallel. ``ordered``: its buckets, laid out before the first
    step and all-reduced by a process group that can be abandoned, as in stop-free training."""
    data_order: str = "positions"
    """``positions``: slices of a permutation of all samples; ``blocks``: EDL's pipeline."""
    block_samples: int = 64
    """Number of samples in a block of ``blocks``."""
    prefetch_steps: int = 0
    """Number of steps whose samples each worker fetches in advance; 0: none. Fetching in advance
    pays if fetching takes long and the worker has spare cores, as next to a GPU. It does not pay on
    a slot of one core."""
    accumulation_steps: int = 1
    """Number of micro-batches of each virtual worker in a step, whose gradients are added."""
    random_states: str = "per_step"
    """``per_step``: random states are seeded from seed, step and worker before every step.
    ``streams``: every virtual worker has its own, which continue like those of a process."""
    virtual: bool = False
    """True if a job's logical workers are virtual workers that take turns on its slots. Otherwise
    every slot has one worker, and a job has as many workers as slots."""
    carries_ranks: bool = True
    """True if the ranks of virtual workers in the sum, and the layout of its buckets, survive a
    restart (EasyScale's D1). Otherwise slots are the ranks, and the layout is that of a new job
    (D0)."""
    common_kernels: bool = False
    """True if operators use kernels that all types of slots have (EasyScale's D2)."""
    executors: int = 1
    """Number of processes in which a slot runs its virtual workers in parallel."""
    loader_processes: int = 0
    """Number of processes per worker that fetch in advance; 0: a thread of the worker fetches."""
    drawn_samples: bool = False
    """True if samples depend on random states (torch's, NumPy's, Python's). Every virtual worker
    then uses the states of its own ``loader_processes``; without such processes it draws from its
    own."""

    def __post_init__(self) -> None:
        problems = []
        for name, known in (
            ("start", tuple(Warmth)),
            ("device", ("auto", "cpu", "cuda")),
            ("reduction", ("ddp", "ordered")),
            ("data_order", ("positions", "blocks")),
            ("random_states", ("per_step", "streams")),
        ):
            if getattr(self, name) not in known:
                problems.append(f"{name} is {getattr(self, name)!r}; known: {', '.join(known)}")
        if self.checkpoint_every < 0:
            problems.append(
                f"checkpoint_every is {self.checkpoint_every}; use 0 for none but those needed"
            )
        if self.block_samples < 1:
            problems.append(f"block_samples is {self.block_samples}; it must be >= 1")
        if self.accumulation_steps < 1:
            problems.append(f"accumulation_steps is {self.accumulation_steps}; use 1 for none")
        if self.virtual and self.start == Warmth.STANDBY:
            problems.append(
                "start is 'standby', but what virtual workers train is not built in advance; use"
                " start=spare"
            )
        if self.executors < 1:
            problems.append(f"executors is {self.executors}; use 1 for one process on each slot")
        if self.executors > 1 and not self.virtual:
            problems.append(
                f"executors is {self.executors}, but only virtual workers can share a slot; use"
                " backend=virtual_thread"
            )
        for name in ("prefetch_steps", "loader_processes"):
            if getattr(self, name) < 0:
                problems.append(f"{name} is {getattr(self, name)}; use 0 for none")
        if self.loader_processes > 0 and self.prefetch_steps == 0:
            problems.append(
                f"loader_processes is {self.loader_processes}, but prefetch_steps=0 gives them"
                " nothing to do; raise it, or set loader_processes=0"
            )
        if self.drawn_samples and not (self.virtual and self.random_states == "streams"):
            problems.append(
                "drawn_samples is true, but every worker's random states are drawn again in every"
                " step; use backend=virtual_thread with random_states=streams"
            )
        if self.drawn_samples and self.prefetch_steps > 0 and self.loader_processes == 0:
            problems.append(
                f"drawn_samples is true and prefetch_steps is {self.prefetch_steps}, but a thread"
                " would draw from the random states that training draws from; set"
                " loader_processes, or prefetch_steps=0"
            )
        for name in (
            "start_timeout_s",
            "stop_timeout_s",
            "hang_timeout_s",
            "collective_timeout_s",
        ):
            if not getattr(self, name) > 0:
                problems.append(f"{name} is {getattr(self, name)}; it must be > 0")
        if problems:
            raise ValueError("\n".join(problems))

    @property
    def warmth(self) -> Warmth:
        """Value of ``start`` in the type that launchers use."""
        return Warmth(self.start)

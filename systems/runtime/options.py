"""Options that all backends on this runtime share."""

from __future__ import annotations

from dataclasses import dataclass

from harness.contracts.launcher import Warmth


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """What all backends on this runtime let their user choose.

    Raises:
        ValueError: options out of range, all at once, one a line.
    """

    start: str = "cold"
    """``cold``: a fresh interpreter for each worker; ``preimported``: workers are forked
    from a process that has imported the training library already; ``spare``: they are such
    forks made in advance, one or more for each slot, with their device open; ``standby``: spares
    that have built what the run's jobs train."""
    device: str = "auto"
    """``cpu``, ``cuda``, or ``auto``: cuda where there is one and the slot is not a CPU."""
    bind: str = "127.0.0.1"
    """Address of this machine on which workers reach the driver."""
    checkpoint_every: int = 0
    """Write a checkpoint each so many steps; 0: only when a change needs one."""
    start_timeout_s: float = 300.0
    """Longest time from a start to the end of the first step."""
    stop_timeout_s: float = 120.0
    """Longest time from the request to save and leave until all workers are gone."""
    hang_timeout_s: float = 10.0
    """Silence after which a worker is taken for stopped, and killed. The driver's own look takes
    2 s at least, and none before a worker's first step, which ``start_timeout_s`` limits."""
    collective_timeout_s: float = 1800.0
    """Time-out of the workers' collectives. The launcher's exit notice comes long before."""
    replay_layout: bool = True
    """After a restart on more than two workers, make one pass that is forgotten, so that
    gradient buckets are those of an uninterrupted job and training stays bitwise the same."""
    reduction: str = "ddp"
    """``ddp``: stock DistributedDataParallel; ``ordered``: its buckets, laid out before the
    first step and summed by a group that can be given up, as stop-free training does it."""
    data_order: str = "positions"
    """``positions``: a permutation of all samples, sliced; ``blocks``: EDL's pipeline."""
    block_samples: int = 64
    """Samples of a block of ``blocks``."""
    prefetch_steps: int = 0
    """Steps whose samples each worker fetches in advance; 0: none. Pays where fetching takes
    long and the worker has cores to spare, as beside a GPU; not on a slot of one core."""
    accumulation_steps: int = 1
    """Micro-batches of each virtual worker in a step, whose gradients are added up."""
    random_states: str = "per_step"
    """``per_step``: drawn anew from seed, step and worker before every step; ``streams``: every
    virtual worker has some of its own that go on, as those of a process do."""
    virtual: bool = False
    """Whether a job's logical workers are virtual ones that take turns on its slots; else every
    slot has one worker, and a job as many workers as slots."""
    carries_ranks: bool = True
    """Whether the ranks of virtual workers in the sum, and the layout of its buckets, outlive a
    restart (EasyScale's D1); else slots are the ranks, and the layout is that of a new job (D0)."""
    common_kernels: bool = False
    """Whether operators have kernels that all types of slots have (EasyScale's D2)."""
    executors: int = 1
    """Processes that a slot runs its virtual workers in, side by side."""
    loader_processes: int = 0
    """Processes per worker that fetch in advance; 0: a thread of the worker."""
    drawn_samples: bool = False
    """Whether samples come out of random states (torch's, NumPy's, Python's). Every virtual worker
    then has those of ``loader_processes`` of its own or, without such, draws from its own."""

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
                "drawn_samples is true, but every worker's random states are drawn anew in every"
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
        """``start``, as launchers know it."""
        return Warmth(self.start)

"""Random lives of an elastic job, and the same membership history forced through stop_resume."""

import random
from dataclasses import dataclass

import psutil

from harness.contracts.backend_reports import ReportKind
from harness.contracts.change import ChangeKind
from harness.engines.live.consumed_samples import count_samples, read_consumed
from systems.backends.stop_free import StopFree
from systems.backends.stop_resume import StopResume
from systems.backends.warm_restart import WarmRestart
from systems.runtime.wire.step_log import read_lines
from tests.backends.world import CLUSTER, ENDS, World, descendants

DATA = {"data_order": "blocks", "block_samples": 8}
BATCH = 12
TRANSFERS = ("background", "peer", "broadcast")
STOPPED = "stopped"
"""As a transfer: all stop first, as under ``warm_restart``."""
RECOVERIES = ("exact", "approximate", "consistent")
CHECKPOINT_EVERY = 7
"""Steps, where a recovery goes back to a checkpoint."""
SOON = {"adjust_timeout_s": 20.0, "leave_timeout_s": 5.0}
"""Where workers hang: a newcomer that has not come to the leader yet, and one that leaves, are
silent to nobody but the driver."""
STEP_S = 0.005
"""Least time of a step: the fewer steps a life has, the sooner it is forced again."""


@dataclass(frozen=True)
class Segment:
    """Steps that were made by the same workers."""

    until_step: int
    num_workers: int
    global_batch: int


def history(job_dir, last_step):
    """The steps that count, by who made them, from the job's own log."""
    lines = list(read_lines(job_dir / "generations.jsonl"))
    segments = []
    for index, line in enumerate(lines):
        until = min([last_step, *(later["resumed_at"] for later in lines[index + 1 :])])
        if until > line["resumed_at"]:
            segments.append(Segment(until, line["world"], line["global_batch"]))
    return segments


def stop_free(launcher, folder, transfer="background", cluster=CLUSTER, **options):
    """A world of stop-free training at toy size, or of a warm restart's (``STOPPED``)."""
    options = {"start": "preimported", **DATA, **options}
    is_stopped = transfer == STOPPED
    backend = WarmRestart(**options) if is_stopped else StopFree(transfer=transfer, **options)
    return World(backend, launcher, folder, cluster)


def forced(launcher, folder, segments, start="preimported", **options):
    """The results of a job with this history whose workers all stop for every change."""
    backend = StopResume(start=start, reduction="ordered", checkpoint_every=1, **DATA)
    world = World(backend, launcher, folder)
    try:
        for index, segment in enumerate(segments):
            slots = tuple(range(segment.num_workers))
            if index == 0:
                world.start(slots, segment.until_step, batch=segment.global_batch, **options)
            else:
                backend.set_target_step("job", segment.until_step)
                world.ask(ChangeKind.RESUME, slots, batch=segment.global_batch)
            end = world.until_end()
            assert end.step == segment.until_step
        return end.results
    finally:
        backend.close()


class Life:
    """A job that is changed and hurt at random; ``story`` says how, for whoever debugs it.

    Nobody is struck where that might leave no worker with the state: that ends any job. Of those
    that are struck half hang, where some are to (``hangs``), and the others die.
    """

    def __init__(self, world, seed, story, *, hangs=False, step_s=STEP_S, num_steps=3):
        """``num_steps``: that are made at least between two acts."""
        self.world = world
        self.hangs = hangs
        self.num_quiet = num_steps
        self.rng = random.Random(seed)
        self.slots = (0,)
        self.story = story
        self.num_steps = 0
        self._asked = {}
        self._victims = []
        self._num_read = 0
        world.until_change(world.start(self.slots, batch=BATCH, step_s=step_s))

    def change(self):
        """Any other slots, or another batch; somebody may be struck while it is made."""
        rng = self.rng
        slots = tuple(rng.sample(range(4), rng.randint(1, 4)))
        batch = rng.choice([BATCH, BATCH, 16])
        self.story.append(["change", slots, batch])
        kind = ChangeKind.RESCALE if len(slots) != len(self.slots) else ChangeKind.MIGRATE
        change = self.world.ask(kind, slots, batch=batch)
        self._asked[change] = slots
        if rng.random() < 0.4 and min(len(slots), len(self.slots)) > 1:
            for _ in range(rng.randint(0, 12)):
                self.world.poll(0.01)
            self._strike()
        self.world.until_answered(change, self._until)
        self._settle()

    def strike(self):
        """A worker, or the store, is struck while nothing else happens."""
        if len(self.slots) > 1:
            self._strike()
            self._settle()

    def _strike(self):
        victims = descendants()
        victim = self.rng.choice(victims)
        how = self.rng.choice(["kill", "hang"]) if self.hangs else "kill"
        victim.suspend() if how == "hang" else victim.kill()
        self._victims.append(victim)
        self.story.append([how, victims.index(victim)])

    def _settle(self):
        """Until the workers have made some steps, after which all deaths are known.

        What is reported next may be from before a death. So steps are awaited once more: none
        is reported between the moment when a death is known and when it has been survived.
        """
        for _ in range(2 if self._victims else 1):
            while any(map(_is_there, self._victims)):
                self.world.poll(0.005)
            self.world.poll(0)
            seen = max(report.step for report in self.world.reports)
            self._until(lambda report, seen=seen: report.step >= seen + self.num_quiet)
        self._victims.clear()
        for report in self.world.reports[self._num_read :]:
            if report.kind is ReportKind.SHRUNK:
                self.slots = report.slots
            elif report.kind is ReportKind.DONE and report.change_id in self._asked:
                self.slots = self._asked[report.change_id]
        self._num_read = len(self.world.reports)

    def _until(self, wanted):
        def is_it(report):
            is_of_a_change = report.kind is ReportKind.FAILED and report.change_id is not None
            assert report.kind not in ENDS or is_of_a_change, str(report)
            return wanted(report)

        if not any(map(is_it, self.world.reports)):
            self.world.until(is_it)

    def finish(self):
        """The end of the job; its results."""
        self.world.backend.set_target_step("job", 0)
        end = self.world.until_end()
        self.num_steps = end.step
        return end


def _is_there(process):
    """Whether a process has not been buried yet."""
    return psutil.pid_exists(process.pid) and process.is_running()


def check_samples(job_dir, end):
    """The workers' own logs hold every sample of each whole epoch exactly once."""
    assert count_samples(job_dir, end.step) == (0, 0)
    consumed = [piece for part in read_consumed(job_dir) for piece in part.ranges]
    assert sum(stop - start for _, start, stop in consumed) == end.samples


def run_life(
    launcher, folder, number, transfer, num_acts, story=None, *, pace=None, hangs=False, **options
):
    """Live one life and hold it to its history; ``story`` is told what happens as it does.

    ``pace``: how quick a ``Life`` is, if it is not as quick as can be.
    """
    options = {"recovery": "exact", **(SOON if hangs else {}), **options}
    if options["recovery"] == "consistent":
        options["checkpoint_every"] = CHECKPOINT_EVERY
    world = stop_free(launcher, folder / "free", transfer, **options)
    story = [] if story is None else story
    try:
        life = Life(world, number, story, hangs=hangs, **(pace or {}))
        for _ in range(num_acts):
            life.rng.choice([life.change, life.change, life.strike])()
        end = life.finish()
    finally:
        world.backend.close()
    assert descendants() == [], story
    segments = history(world.job_dir(), end.step)
    assert end.results == forced(launcher, folder / "forced", segments), story
    check_samples(world.job_dir(), end)
    return life

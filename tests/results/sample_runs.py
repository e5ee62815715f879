"""A small hand-written simulation that fills every kind of record: a test fixture.

It is no engine of the project: first come first served on identical slots, growing the
oldest job when nobody waits, with T(w) = rate * w ** 0.8 and a fixed pause per rescale.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from pathlib import Path

import yaml

from harness.metrics import compute as metrics
from harness.results.records import (
    ChangeRecord,
    DecisionRecord,
    EvaluationRecord,
    GrantRecord,
    JobRecord,
    OutageRecord,
    RunRecords,
    StepRecord,
    SystemRecord,
)
from harness.results.store import RunStore, StoredRun

RATES = {"bert": 40.0, "resnet50": 60.0, "transformer": 80.0, "vgg16": 50.0}
PHASES = {
    "save": 0.2,
    "stop": 0.1,
    "spawn": 0.3,
    "import": 1.2,
    "build": 0.4,
    "group": 0.05,
    "load": 0.15,
    "first_step": 0.1,
}


def speedup(num_slots: int) -> float:
    return num_slots**0.8


def simulate(
    seed: int = 0, num_jobs: int = 12, num_slots: int = 4, live: bool = False, elastic: bool = True
) -> RunRecords:
    """Replay a random trace; ``live`` adds steps, evaluations, system samples and noise."""
    rng = random.Random(7)
    jobs = []
    for index in range(num_jobs):
        workload = rng.choice(sorted(RATES))
        arrival, slots = index * rng.uniform(12, 30), rng.choice((1, 1, 2, 4))
        work = RATES[workload] * speedup(slots) * rng.uniform(15, 60)
        jobs.append((arrival, f"job{index:02d}", workload, min(slots, num_slots), work))
    jobs.sort()
    noise = random.Random(seed)
    world = _World(num_slots, live, noise)
    while jobs or world.queue or world.running:
        next_arrival = jobs[0][0] if jobs else float("inf")
        finish, job_id = world.next_finish()
        if next_arrival <= finish:
            world.advance(next_arrival)
            world.queue.append(jobs.pop(0))
        else:
            world.advance(finish)
            world.end(job_id)
        world.decide(elastic)
    records = world.records
    records.facts |= {
        "num_slots": float(num_slots),
        "num_events": float(3 * num_jobs),
        "replay_wall_s": 0.25,
    }
    if live:
        records.facts |= {"steps_executed": float(len(records.steps)), "steps_credited": 400.0}
        for second in range(0, 120, 5):
            used = 30 + noise.uniform(0, 60)
            records.system.append(SystemRecord(float(second), used, 2_000_000_000, 6))
    return records


class _World:
    def __init__(self, num_slots: int, live: bool, noise: random.Random) -> None:
        self.num_slots, self.live, self.noise = num_slots, live, noise
        self.now, self.queue, self.running = 0.0, [], {}
        self.records = RunRecords()

    def next_finish(self):
        ends = [
            (max(self.now, job["blocked"]) + job["left"] / job["rate"], job_id)
            for job_id, job in self.running.items()
        ]
        return min(ends, default=(float("inf"), ""))

    def advance(self, now):
        for job in self.running.values():
            trained = max(0.0, now - max(self.now, job["blocked"]))
            job["left"] = max(0.0, job["left"] - trained * job["rate"])
        self.now = now

    def free(self):
        held = {slot for job in self.running.values() for slot in job["slots"]}
        return [slot for slot in range(self.num_slots) if slot not in held]

    def decide(self, elastic):
        before = len(self.records.changes)
        while self.queue and len(self.free()) >= self.queue[0][3]:
            arrival, job_id, workload, slots, work = self.queue.pop(0)
            job = {
                "arrival": arrival,
                "workload": workload,
                "asked": slots,
                "work": work,
                "left": work,
                "slots": (),
                "since": self.now,
                "attained": 0.0,
                "rescales": 0,
                "start": self.now,
                "blocked": 0.0,
                "rate": 0.0,
            }
            self.running[job_id] = job
            self.change(job_id, job, tuple(self.free()[:slots]), "start")
        if elastic and not self.queue and self.free() and self.running:
            job_id = min(self.running, key=lambda key: (len(self.running[key]["slots"]), key))
            job = self.running[job_id]
            self.change(job_id, job, (*job["slots"], self.free()[0]), "rescale")
        self.records.latencies_us.append(self.noise.randrange(50, 900))
        if len(self.records.changes) > before:
            changed = len(self.records.changes) - before
            self.records.decisions.append(DecisionRecord(self.now, 1, changed))

    def change(self, job_id, job, slots, kind):
        factor = self.noise.uniform(0.9, 1.2) if self.live else 1.0
        phases = {name: seconds * factor for name, seconds in PHASES.items()}
        pause = sum(phases.values())
        old = job["slots"]
        self.close_grant(job_id, job)
        job |= {"slots": slots, "since": self.now, "blocked": self.now + pause}
        slower = self.noise.uniform(0.93, 1.02) if self.live else 1.0
        job["rate"] = RATES[job["workload"]] * speedup(len(slots)) * slower
        job["rescales"] += kind == "rescale"
        self.records.changes.append(
            ChangeRecord(
                len(self.records.changes),
                job_id,
                kind,
                self.now,
                self.now + pause,
                "done",
                old,
                slots,
                pause if kind == "rescale" else None,
                pause * job["rate"] if kind == "rescale" else None,
                phases,
            )
        )

    def close_grant(self, job_id, job):
        if job["slots"] and self.now > job["since"]:
            width = len(job["slots"])
            self.records.grants.append(
                GrantRecord(job_id, job["since"], self.now, job["slots"], 32, speedup(width))
            )
            job["attained"] += width * (self.now - job["since"])

    def end(self, job_id):
        job = self.running.pop(job_id)
        self.close_grant(job_id, job)
        rate, asked = RATES[job["workload"]], job["asked"]
        alone = job["work"] / (rate * speedup(asked))
        self.records.jobs.append(
            JobRecord(
                job_id,
                job["workload"],
                "owner",
                job["arrival"],
                asked,
                32,
                job["work"],
                job["arrival"] + 1.5 * alone,
                "hard",
                "finished",
                job["start"],
                self.now,
                job["work"],
                job["attained"],
                self.now - job["start"],
                job["rescales"],
                0,
                alone,
                job["work"] / (rate * speedup(self.num_slots)),
                "",
                job["work"] / rate,
            )
        )
        if self.live:
            width = len(job["slots"])
            for step in range(1, 9):
                loss = 2.5 / step + self.noise.uniform(0, 0.1)
                began = job["start"] + step
                self.records.steps.append(
                    StepRecord(job_id, step, width, 32, began, 0.4 / width, loss.hex())
                )
            self.records.evaluations.append(EvaluationRecord(job_id, 8, "accuracy", "0.75"))
            self.records.evaluations.append(
                EvaluationRecord(job_id, 8, "digest_parameters", "ab" * 16)
            )


def write_run(
    root: Path,
    *,
    seed: int = 0,
    live: bool = False,
    scheduler: str = "fifo",
    backend: str = "stop_resume",
    repetition: int = 0,
    outages: Sequence[OutageRecord] = (),
    **changes: object,
) -> StoredRun:
    """A run in a store, with the manifest and configuration that an experiment writes."""
    engine = "live" if live else "simulated"
    run_id = f"five_jobs-{scheduler}-{backend}-{engine}-s{seed}-r{repetition}"
    records = simulate(seed + repetition, live=live, elastic=scheduler != "fifo")
    records.outages.extend(outages)
    config = {
        "scheduler": {"_target_": f"systems.schedulers.{scheduler}.X", "quantum_s": 60},
        "backend": {"_target_": f"systems.backends.{backend}.X", "start": "cold"},
        "engine": {"_target_": f"harness.engines.{engine}.X"} | ({"pace": "none"} if live else {}),
        "tracking": {"enabled": True},
        "choices": {
            "scheduler": scheduler,
            "backend": backend,
            "engine": engine,
            "trace": "five_jobs",
            "workload": "tiny",
            "cluster": "cpu4",
            "placement": "consolidated",
            "profile": "cpu",
            "launcher": "local",
            "tracking": "mlflow",
        },
        "seed": seed,
        "repetition": repetition,
        "scaling": "strong",
        "name": None,
        "sweep": "demo",
    }
    manifest = {
        "created": "2026-01-02T03:04:05+00:00",
        "command": ["python", "-m", "harness", f"scheduler={scheduler}"],
        "config_hash": hashlib.sha256(json.dumps(config).encode()).hexdigest(),
        "name": None,
        "sweep": "demo",
        "choices": config["choices"],
        "seed": seed,
        "repetition": repetition,
        "git_commit": "0123456789abcdef0123456789abcdef01234567",
        "git_dirty": False,
        "hardware": {"cpu": "Example CPU", "cores": 2, "memory_bytes": 8 << 30, "accelerators": []},
        "trace": {
            "name": "five_jobs",
            "digest": "d" * 64,
            "num_jobs": 12,
            "licence": "CC0",
            "source": "made here",
            "history": [],
            "generated": [],
        },
        "profile": {"name": "cpu", "measured_here": False},
        "scheduler": {"checked": "exact", "oracle": False},
        **changes,
    }
    with RunStore(root).create(run_id, manifest, yaml.safe_dump(config)) as writer:
        return writer.finish(records, metrics.compute(records))

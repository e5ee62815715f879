"""Writes two cluster exports: synthetic, true in format.

They belong to docs/tutorials/from-sacct-to-a-comparison.md.

``python docs/examples/cluster_exports.py [FOLDER]`` writes the same bytes on every machine.
"""

from __future__ import annotations

import csv
import io
import json
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

SLURM_FILE, KUBERNETES_FILE = "slurm_week.txt", "kubernetes_days.csv"
_SACCT = (
    "JobID", "JobName", "User", "Partition", "State", "ExitCode", "Submit", "Start", "End",
    "Elapsed", "Timelimit", "AllocTRES", "NodeList",
)  # fmt: skip
_LOCAL = ZoneInfo("Europe/Berlin")
_BEGIN = datetime(2026, 3, 23, 6, 0, tzinfo=UTC)
"""A Monday; clocks in Berlin go forward on the Sunday after it."""
_USERS = {"amara": 1003, "bjoern": 1007, "chen": 1011, "dora": 1012, "emil": 1020}
_PROGRAMS = ("resnet", "bert-ft", "unet", "gpt-small", "tuning", "speech")
_ENDS = ("COMPLETED",) * 12 + ("FAILED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY")
_EXIT_CODES = {"FAILED": "1:0", "CANCELLED": "0:15", "OUT_OF_MEMORY": "0:125"}


def sacct(draw: random.Random, num_jobs: int = 300) -> str:
    """Return what ``sacct --allusers --parsable2`` prints of so many jobs and their steps."""
    lines = ["|".join(_SACCT)]
    at, number, jobs = _BEGIN, 48_211, 0
    while jobs < num_jobs:
        at += timedelta(seconds=round(draw.expovariate(1 / 2600)))
        kind = draw.choices(("job", "array", "het"), (20, 2, 1))[0]
        ids = [f"{number}"]
        if kind == "array":
            ids = [f"{number}_{task}" for task in range(draw.randint(2, 5))]
        elif kind == "het":
            ids = [f"{number}+0", f"{number}+1"]
        ids = ids[: num_jobs - jobs]
        shared = _Submission(draw, at)
        fate = _Fate(draw, shared)
        for job_id in ids:
            is_late = jobs > num_jobs - 12
            fate = fate if kind == "het" else _Fate(draw, shared, is_late)
            if kind == "array" and fate.state == "PENDING":
                job_id = f"{number}_[{job_id.partition('_')[2]}-9]"
            lines += shared.rows(job_id, fate)
            jobs += 1
        number += draw.randint(1, 9)
    return "\n".join(lines) + "\n"


class _Submission:
    """The common properties of the jobs of one ``sbatch``."""

    def __init__(self, draw: random.Random, at: datetime) -> None:
        self.at = at
        self.user, self.program = draw.choice(list(_USERS)), draw.choice(_PROGRAMS)
        self.gpus = draw.choices((0, 1, 2, 4, 8), (3, 10, 5, 4, 2))[0]
        self.limit_s = 3600 * draw.choice((4, 12, 24, 48, 72))

    def rows(self, job_id: str, fate: _Fate) -> Iterator[str]:
        """Yield the lines of one job: its own, and those of its steps."""
        start = self.at + timedelta(seconds=fate.waited_s)
        cpus = 8 * max(self.gpus, 1)
        tres = f"billing={cpus},cpu={cpus},"
        tres += f"gres/gpu={self.gpus},gres/gpu:a100={self.gpus}," if self.gpus else ""
        tres += f"mem={cpus * 4}G,node=1"
        end = _local(start + timedelta(seconds=fate.ran_s))
        times = [_local(start), "Unknown" if fate.state == "RUNNING" else end, _elapsed(fate.ran_s)]
        if fate.never_ran:
            is_waiting = fate.state == "PENDING"
            times = ["Unknown", "Unknown"] if is_waiting else ["None", _local(start)]
            times.append("00:00:00")
            tres = ""
        is_cancelled = fate.state == "CANCELLED"
        state = f"CANCELLED by {_USERS[self.user]}" if is_cancelled else fate.state
        code, partition = _EXIT_CODES.get(fate.state, "0:0"), "gpu" if self.gpus else "cpu"
        head = (job_id, self.program, self.user, partition, state, code, _local(self.at), *times)
        yield "|".join((*head, _elapsed(self.limit_s), tres, fate.node))
        state = "CANCELLED" if fate.state == "TIMEOUT" else fate.state
        for step in fate.steps:
            name = self.program if step == "0" else step
            own = "COMPLETED" if step == "extern" and state != "RUNNING" else state
            row = (f"{job_id}.{step}", name, "", "", own, code, times[0], *times)
            yield "|".join((*row, "", tres.partition(",")[2], fate.node))


class _Fate:
    """How a job, or all components of a heterogeneous one, went."""

    def __init__(self, draw: random.Random, submission: _Submission, is_late: bool = False) -> None:
        self.state = draw.choice(("RUNNING", "PENDING", "COMPLETED") if is_late else _ENDS)
        self.never_ran = self.state == "PENDING" or (
            self.state == "CANCELLED" and draw.random() < 0.3
        )
        self.waited_s = round(draw.expovariate(1 / 900))
        ran_s = min(submission.limit_s, round(draw.lognormvariate(8.9, 1.3)) + 2)
        self.ran_s = submission.limit_s if self.state == "TIMEOUT" else ran_s
        self.node = "None assigned" if self.never_ran else f"gpu{draw.randint(1, 3):02d}"
        self.steps = ("batch", "extern") + (("0",) if draw.random() < 0.6 else ())
        if self.never_ran:
            self.steps = ()


def kubernetes(draw: random.Random, num_jobs: int = 80) -> str:
    """Return a table of training pods, as exporters of the Kubernetes API write it."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(
        ("pod", "namespace", "phase", "created", "started", "finished", "resources", "priority")
    )
    at = _BEGIN
    for number in range(num_jobs):
        at += timedelta(seconds=round(draw.expovariate(1 / 2000)))
        # Pods of two clusters: the exporter of the second writes its local time.
        zone = UTC if draw.random() < 0.7 else ZoneInfo("America/New_York")
        phase = draw.choices(("Succeeded", "Failed", "Running", "Pending"), (16, 3, 1, 1))[0]
        start = at + timedelta(seconds=round(draw.expovariate(1 / 300)))
        end = start + timedelta(seconds=60 + round(draw.lognormvariate(8.6, 1.2)))
        gpus = draw.choices((0, 1, 2, 4, 8), (2, 10, 5, 4, 2))[0]
        asked = {"cpu": f"{4 * max(gpus, 1)}", "memory": "32Gi"}
        if gpus:
            asked["nvidia.com/gpu"] = f"{gpus}"
        started = "<none>" if phase == "Pending" else _zoned(start, zone)
        finished = _zoned(end, zone) if phase in ("Succeeded", "Failed") else "<none>"
        name = f"{draw.choice(_PROGRAMS)}-{draw.getrandbits(20):05x}-{number}"
        priority = draw.choice(("<none>", "<none>", "10", "100"))
        namespace = draw.choice(("vision", "speech", "language"))
        created = _zoned(at, zone)
        table.writerow(
            (name, namespace, phase, created, started, finished, json.dumps(asked), priority)
        )
    return out.getvalue()


def _local(at: datetime) -> str:
    """Return a date as Slurm prints it: the cluster's own time, without its zone."""
    return at.astimezone(_LOCAL).replace(tzinfo=None).isoformat()


def _zoned(at: datetime, zone: tzinfo) -> str:
    return at.astimezone(zone).isoformat().replace("+00:00", "Z")


def _elapsed(seconds: int) -> str:
    """Return a duration as Slurm prints it: ``[days-]hours:minutes:seconds``."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02d}:{minute:02d}:{second:02d}"


def main(folder: Path) -> None:
    """Write both files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SLURM_FILE).write_text(sacct(random.Random(34)), encoding="utf-8")
    (folder / KUBERNETES_FILE).write_text(kubernetes(random.Random(34)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)

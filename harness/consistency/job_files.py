"""Reader of a job's directory for the comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from harness.contracts.evidence import COMMON, Stage
from harness.engines.live.consumed_samples import read_lines
from harness.engines.live.reference_check import last_digests
from harness.errors import StoredDataError
from harness.files.safe_names import file_name
from harness.results.store import StoreError, load_run
from harness.results.tables import TableError

Found = Mapping[str, str]
Array = npt.NDArray[Any]


class JobFilesError(StoredDataError):
    """Error for a path without anything to compare; its text gives the path, the reason and the
    remedy."""


@dataclass(frozen=True)
class JobFiles:
    """Recorded training of one job."""

    folder: Path
    losses: Mapping[int, tuple[str, ...]]
    """Exact losses by step (from 1): of all logical workers if the log has them, else the mean."""
    means: Mapping[int, str]
    """Mean loss of the global batch by step. Its last bits depend on how the mean was computed,
    which differs if the log has every worker's loss."""
    digests: Mapping[int, Mapping[str, str]]
    """Digests of the state by step."""
    end: Mapping[str, str]
    """Digests at the end, as far as they are known."""
    stages: Mapping[tuple[int, Stage, str], Found]
    """Evidence by step, stage and worker."""

    @property
    def evidence_steps(self) -> list[int]:
        """Steps with evidence."""
        return sorted({step for step, _, _ in self.stages})

    def workers(self, step: int) -> list[str]:
        """Return the logical workers with evidence of a step."""
        found = {worker for at, _, worker in self.stages if at == step and worker != COMMON}
        return sorted(found, key=int)

    def tensor(self, step: int, worker: str, stage: Stage, name: str) -> Array | None:
        """Return a tensor that was kept, bfloat16 as float32; None if it was not kept.

        Raises:
            JobFilesError: the tensor's file is damaged.
        """
        path = self.folder / "evidence" / f"step-{step:08d}-{worker}.safetensors"
        if not path.exists():
            return None
        try:
            # safe_open checks the header first: all tensors it announces must be in the file.
            with safe_open(path, framework="numpy") as file:
                key = f"{stage}/{name}"
                if key not in file.keys():  # noqa: SIM118
                    return None
                if file.get_slice(key).get_dtype() == "BF16":
                    return _of_bfloat16(path, key)
                found: Array = file.get_tensor(key)
                return found
        except (SafetensorError, ValueError, TypeError) as error:
            raise JobFilesError(f"{path}: damaged ({error}); train the job again") from error

    def tensors(self, step: int, worker: str, stage: Stage) -> dict[str, Array]:
        """Return all tensors of a stage that were kept."""
        found = {
            name: self.tensor(step, worker, stage, name)
            for name in self.stages.get((step, stage, worker), {})
        }
        return {name: value for name, value in found.items() if value is not None}


def _of_bfloat16(path: Path, key: str) -> Array:
    """Return a bfloat16 tensor, a type that NumPy lacks, as float32, read from the file itself.

    The file has the length of the header, the header, and the tensors.
    """
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(size))[key]
        start, end = entry["data_offsets"]
        file.seek(8 + size + start)
        raw = np.frombuffer(file.read(end - start), np.dtype("<u2"))
    return (raw.astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])


def read_job(path: Path, job_id: str | None = None) -> JobFiles:
    """Return the recorded training of a job.

    Args:
        path: a job's directory (one with steps.jsonl), a run's directory, or the file that
            ``systems.peers.plain_ddp --bitwise`` wrote.
        job_id: id of the job in a run; None: the run has only one job.

    Raises:
        JobFilesError: the path has nothing to compare, or a line in an unknown format.
    """
    try:
        return _read(path, job_id)
    except (ValueError, LookupError, TypeError, AttributeError, TableError) as error:
        raise JobFilesError(f"{path}: damaged ({error}); train the job again") from error


def _read(path: Path, job_id: str | None) -> JobFiles:
    if path.is_file():
        return _read_reference(path)
    folder = _job_folder(path, job_id)
    lines = {line["step"]: line for line in read_lines(folder / "steps.jsonl")}
    losses = {step: tuple(line.get("losses", [line["loss"]])) for step, line in lines.items()}
    digests_path = folder / "digests.jsonl"
    digests = {}
    if digests_path.exists():
        digests = {line.pop("step"): line for line in map(dict, read_lines(digests_path))}
    means = {step: line["loss"] for step, line in lines.items()}
    return JobFiles(folder, losses, means, digests, _end(folder), _stages(folder))


def _job_folder(path: Path, job_id: str | None) -> Path:
    if (path / "steps.jsonl").exists():
        return path
    jobs = path / "jobs"
    if not jobs.is_dir():
        raise JobFilesError(
            f"{path} has neither steps.jsonl nor jobs/; give a job's directory, or the directory"
            " of a live run (results/runs/NAME)"
        )
    known = sorted(folder.name for folder in jobs.iterdir() if (folder / "steps.jsonl").exists())
    if job_id is None and len(known) == 1:
        return jobs / known[0]
    if job_id is None or file_name(job_id) not in known:
        chosen = "no --job was given" if job_id is None else f"there is no job {job_id!r}"
        raise JobFilesError(f"{path}: {chosen}; jobs: {', '.join(known) or 'none that trained'}")
    return jobs / file_name(job_id)


def _end(folder: Path) -> dict[str, str]:
    """Return the digests of this job's end from the run's records, if the run is complete."""
    run = folder.parent.parent
    try:
        records = load_run(run).records
    except StoreError:
        return {}
    for job in records.jobs:
        if file_name(job.job_id) == folder.name:
            return last_digests(records, job.job_id)[0]
    return {}


def _read_reference(path: Path) -> JobFiles:
    lines = list(read_lines(path))
    if not lines or "digest_parameters" not in lines[-1] or "losses" not in lines[0]:
        raise JobFilesError(
            f"{path} is not what plain_ddp --bitwise writes; give that, or a job's directory"
        )
    *steps, end = lines
    losses = {line["step"]: tuple(line["losses"]) for line in steps}
    means = {line["step"]: line["loss"] for line in steps}
    return JobFiles(path.parent, losses, means, {}, end, _stages(path.parent))


def _stages(folder: Path) -> dict[tuple[int, Stage, str], dict[str, str]]:
    stages: dict[tuple[int, Stage, str], dict[str, str]] = {}
    for path in sorted(folder.glob("evidence-*.jsonl")):
        worker = path.stem.removeprefix("evidence-")
        for at, stage, found in _merged(read_lines(path)):
            stages[at, stage, worker] = found
    return stages


def _merged(lines: Iterator[Mapping[str, Any]]) -> Iterator[tuple[int, Stage, dict[str, str]]]:
    """Yield stages with all their findings; consecutive lines of one stage are merged.

    If a stage of a step occurs several times, the caller keeps its last group of lines.
    """
    at: tuple[int, Stage] | None = None
    found: dict[str, str] = {}
    for line in lines:
        here = line["step"], Stage(line["stage"])
        if here != at and at is not None:
            yield *at, found
        found = {**found, **line["found"]} if here == at else dict(line["found"])
        at = here
    if at is not None:
        yield *at, found

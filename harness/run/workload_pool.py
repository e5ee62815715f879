"""Pool of workloads, from the configuration of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.configuration.coerce import show
from harness.configuration.instantiate import is_part
from harness.configuration.named_classes import TARGET, name_problem
from harness.contracts.workload import WorkloadSpec
from harness.errors import Problem, UserError

MEMORY = "memory_bytes_per_worker"
"""Key of a pool's entry that is not an option of the workload's class."""


def read_pool(workload: Mapping[str, Any]) -> dict[str, WorkloadSpec]:
    """Return the workloads of a pool. Their classes are not imported, because they import a
    training library.

    Raises:
        UserError: an entry does not say which class to build.
    """
    pool = workload.get("pool")
    if not isinstance(pool, Mapping) or not pool:
        fact = "has no workloads"
        hint = "map each name to a _target_ and options"
        raise UserError([Problem("workload.pool", fact, hint)])
    hint = "say which class to build: package.module.Class"
    problems: list[Problem | str] = [
        Problem(
            f"workload.pool.{name}", f"has no {TARGET}", "say which class: package.module.Class"
        )
        for name, entry in pool.items()
        if not (is_part(entry) and isinstance(entry[TARGET], str))
    ]
    problems += [
        Problem(f"workload.pool.{name}.{MEMORY}", f"is {show(entry[MEMORY])}", "give bytes > 0")
        for name, entry in pool.items()
        if is_part(entry) and MEMORY in entry and not _is_size(entry[MEMORY])
    ]
    problems += [
        problem
        for name, entry in pool.items()
        if is_part(entry) and isinstance(entry[TARGET], str)
        if (problem := name_problem(entry[TARGET], "workload", f"workload.pool.{name}"))
    ]
    if problems:
        raise UserError(problems)
    return {
        name: WorkloadSpec(
            name, entry[TARGET], {k: v for k, v in entry.items() if k not in (TARGET, MEMORY)}
        )
        for name, entry in pool.items()
    }


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def memory_by_workload(workload: Mapping[str, Any]) -> dict[str, int]:
    """Return each workload's estimated memory per worker, in bytes.

    Workloads without an estimate in the pool of workloads are left out.
    """
    pool = workload.get("pool")
    entries = pool.items() if isinstance(pool, Mapping) else ()
    return {name: entry[MEMORY] for name, entry in entries if MEMORY in entry}

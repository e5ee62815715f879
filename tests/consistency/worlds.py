"""Small live runs whose jobs are held to fixed workers: files of a trace and a pool, and words."""

import csv

import yaml

COLUMNS = ("arrival", "slots", "workload", "batch", "work")
BATCH = 13  # shares of different sizes


def write_files(folder, num_jobs=1, steps=60, logical_workers=2, step_s=0.01):
    """A trace of equal jobs that each ask for one slot, and their pool; paths of both."""
    with (folder / "jobs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows((n, 1, "small", BATCH, steps * BATCH) for n in range(num_jobs))
    transform = "harness.trace.transforms.LogicalWorkers"
    trace = {
        "name": "equal_jobs",
        "source": "written by a test",
        "licence": "Apache-2.0",
        "reader": {
            "_target_": "harness.trace.columns.ColumnsReader",
            "path": "jobs.csv",
            "columns": {name: name for name in COLUMNS},
        },
        "transforms": [{"_target_": transform, "least": logical_workers}],
    }
    small = {"_target_": "tests.backends.tiny_workload.Tiny", "step_s": step_s}
    paths = folder / "equal_jobs.yaml", folder / "small.yaml"
    for path, document in zip(paths, (trace, {"pool": {"small": small}}), strict=True):
        path.write_text(yaml.safe_dump(document))
    return paths


def checked(paths, *words):
    """Words of a live run on two slots whose jobs are held to fixed workers."""
    trace, pool = paths
    return [
        *(f"trace={trace}", f"workload={pool}", "cluster=cpu2", "profile=recorded"),
        *("engine=live", "engine.fast_forward=false", "engine.check_reference=true"),
        *("backend=virtual_thread", "backend.start=preimported", *words),
    ]


def grow_and_shrink(grow_at=10, shrink_at=30):
    """The first job gets a second slot, and gives it back."""
    grow = f"{{job: 0, at_step: {grow_at}, slots: 2}}"
    shrink = f"{{job: 0, at_step: {shrink_at}, slots: 1}}"
    return ("scheduler=scripted", f"scheduler.script=[{grow},{shrink}]")

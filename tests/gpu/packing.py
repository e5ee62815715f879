"""Several workers of a job on one device: a process each, or virtual workers that take turns.

Source: EasyScale, section 5.1.3, figure 12.
"""

import statistics

from harness.engines.live.consumed_samples import read_lines
from systems.backends.static import Static
from systems.backends.virtual_thread import VirtualThread
from tests.gpu.jobs import free_bytes, shared_cluster, worlds
from tests.virtual.run_memory import workload

WARM_UP = 4
"""Steps until layouts are settled and all memory is allocated."""
TIMEOUT_S = 300.0


def packing(device, folder, model, pool="paper", counts=(1, 2, 4, 8), batch=32, steps=10):
    """Step time and memory on the device by the number of workers, each with ``batch`` samples.

    Packed workers are those of a job of fixed size, on slots that share the device; gradients are
    reduced in the host's memory either way.
    """
    spec, found = workload(pool, model), {"packed": {}, "virtual": {}}
    for count in counts:
        slots = tuple(range(count))
        case = {"spec": spec, "count": count, "batch": batch, "steps": steps}
        own = folder / str(count)
        found["packed"][str(count)] = _trained(device, own / "packed", Static, slots, **case)
        found["virtual"][str(count)] = _trained(
            device, own / "virtual", VirtualThread, (0,), **case
        )
    return {"pool": pool, "batch_each": batch, "steps": steps, **found}


def _trained(device, folder, kind, slots, *, spec, count, batch, steps):
    """Medians over steps; memory is what the device has less than before, once all is allocated."""
    cluster = shared_cluster(device, max(len(slots), 2))
    before = free_bytes(device)
    with worlds(device, folder, cluster) as make:
        world = make(kind)
        asked = {"batch": batch * count, "logical_workers": count, "workload": spec}
        world.until_change(world.start(slots, **asked))
        world.until(lambda report: report.step >= WARM_UP + steps, TIMEOUT_S)
        taken_bytes = before - free_bytes(device)
        world.backend.set_target_step("job", 0)
        world.until_end()
        lines = [*read_lines(world.job_dir() / "steps.jsonl")]
    own = [line["duration_s"] for line in lines if line["step"] > WARM_UP]
    step_s = statistics.median(own)
    return {
        "step_s": step_s,
        "steps": len(own),
        "samples_per_s": batch * count / step_s,
        "device_bytes": taken_bytes,
    }

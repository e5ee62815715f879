"""One cluster whose devices jobs may share, under a scheduler that asks for it and one that does
not."""

from harness.results.store import load_run

SHARED = ("cluster=a100x128_shared", "cluster.num_hosts=1")


def run(command, *words):
    before = set(command.results.iterdir()) if command.results.exists() else set()
    answer = command("trace=five_jobs", *words)
    assert answer.code == 0, answer.err
    (path,) = [
        path
        for path in command.results.iterdir()
        if path not in before and not path.name.startswith(".")
    ]
    return load_run(path)


def test_who_does_not_share_has_one_slot_a_device(command):
    shared = run(command, *SHARED, "scheduler=gandiva")
    whole = run(command, "scheduler=gandiva", "cluster=dgx8")
    assert shared.records.jobs == whole.records.jobs
    assert shared.facts["num_slots"] == 8.0
    assert "num_devices" not in shared.facts


def test_who_shares_has_all_slots_and_is_through_sooner(command):
    """One device for five jobs: turns of ten seconds, then pairs."""
    few = (
        *SHARED,
        "cluster.devices_per_host=1",
        "scheduler.quantum_s=10",
        "engine.rescale_cost=zero",
    )
    turns = run(command, *few, "scheduler=gandiva")
    pairs = run(command, *few, "scheduler=gandiva_pack")
    assert (pairs.facts["num_slots"], pairs.facts["num_devices"]) == (2.0, 1.0)
    assert {slot for grant in pairs.records.grants for slot in grant.slots} == {0, 1}
    assert pairs.metrics["jct_mean_s"] < turns.metrics["jct_mean_s"]

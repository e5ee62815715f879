"""Mistakes on the command line: each refused with place, fact and way out, all at once."""

import pytest

from tests.config.commands import assert_refused

CASES = {
    "unknown key": (["sed=1"], "sed: unknown key; did you mean 'seed'?"),
    "a key of an earlier version": (
        ["snapshot_every_s=60"],
        "snapshot_every_s: is no key any more; leave it out: a run that was stopped begins again",
    ),
    "unknown option": (["scheduler=tiresas"], "did you mean 'tiresias'? known: afs, chronus,"),
    "no value": (["seed"], "argument 'seed': is no key=value; write"),
    "grammar": (["name=a,,b"], "argument 'name=a,,b': is not understood"),
    "wrong type": (["seed=one"], "seed: is 'one'; give a whole number"),
    "a number beyond all floats": (
        ["+profile.noise_scale.bert=1" + 400 * "0"],
        "profile.noise_scale.bert: has a number of more than 250 digits; give one of at",
    ),
    "one in a list": (
        ["+profile.x={a: [1" + 400 * "0" + "]}"],
        "profile.x: has a number of more than 250 digits",
    ),
    "number for a truth": (["force=3"], "force: is 3; give true or false"),
    "out of range": (["seed=-1"], "seed: is -1; use a number from 0 up"),
    "time limit": (["max_wall_s=0"], "max_wall_s: is 0; use a number above 0"),
    "not one of": (["scaling=medium"], "scaling: is 'medium'; give one of strong, weak"),
    "a batch that the backend cannot choose": (
        ["scaling=adaptive", "backend=virtual_thread", "engine=live_accuracy"],
        "scaling=adaptive, backend=virtual_thread: jobs would choose their own batch, but this",
    ),
    "a batch that nobody simulates": (
        ["scaling=adaptive", "engine=simulated"],
        "engine=simulated: scaling=adaptive needs the gradients of real training",
    ),
    "a batch that is known only once it is used": (
        ["scaling=adaptive", "engine=live", "engine.pace=profile"],
        "engine=live: scaling=adaptive with pace=profile: the batch of a step is not known",
    ),
    "devices that nobody can share": (
        ["scheduler=gandiva_pack", "cluster=a100x128"],
        "scheduler=gandiva_pack, cluster=a100x128: gandiva_pack lets jobs share devices, but the",
    ),
    "a backend whose jobs cannot share devices": (
        ["scheduler=gandiva_pack", "cluster=a100x128_shared", "backend=static"],
        "gandiva_pack needs a backend that can share a device and static cannot",
    ),
    "steps credited at the speed of another neighbourhood": (
        ["scheduler=gandiva_pack", "cluster=cpu2_shared", "trace=five_jobs", "engine=live"],
        "engine=live: fast_forward=true on cluster 'cpu2_shared', whose devices jobs share",
    ),
    "padded steps that no neighbour slows": (
        [
            *("scheduler=gandiva_pack", "cluster=cpu2_shared", "trace=five_jobs", "engine=live"),
            "engine.pace=profile",
        ],
        "engine=live: pace=profile on cluster 'cpu2_shared', whose devices jobs share",
    ),
    "factors of speed that are none": (
        ["cluster=a100x128_shared", "cluster.shared_speed=[1.0,fast]"],
        "cluster.shared_speed: is [1.0, 'fast']; give a list, each a number",
    ),
    "speeds that a scheduler is shown of programs without a curve, live": (
        ["engine=live", "scheduler=afs", "trace=five_jobs", "cluster=cpu8", "profile=recorded"],
        "scheduler=afs: profile recorded: no throughput curve for workload 'resnet50_cifar10'",
    ),
    "the same in simulation, told once": (
        ["engine=simulated", "scheduler=afs", "trace=five_jobs", "profile=recorded"],
        "engine=simulated: profile recorded: no throughput curve for workload",
    ),
    "speeds that steps are padded to": (
        [
            *("engine=live", "engine.pace=profile", "trace=five_jobs", "cluster=cpu8"),
            *("scheduler=afs", "profile=recorded"),
        ],
        "engine=live: pace=profile: profile recorded: no throughput curve for workload 'resnet50_",
    ),
    "unknown class option": (
        ["scheduler.queue_limit_slot_s=[1]"],
        "scheduler.queue_limit_slot_s: unknown option of systems.schedulers.tiresias.Tiresias;"
        " did you mean 'queue_limits_slot_s'?",
    ),
    "class option of a wrong type": (
        ["cluster.num_hosts=many"],
        "cluster.num_hosts: is 'many'; give a whole number",
    ),
    "what a constructor refuses": (
        ["engine.rescale_cost=half"],
        "engine: rescale_cost is 'half'; known: profile, zero",
    ),
    "an endpoint with a user": (
        ["backend=stop_free", "backend.store=etcd", "backend.etcd_endpoints=[http://me:pw@here]"],
        "backend: etcd_endpoints has a user in its URL of here, and options are stored with",
    ),
    "an etcd that is not there": (
        [
            *("engine=live", "backend=warm_restart", "backend.store=etcd"),
            "backend.etcd_endpoints=[http://127.0.0.1:1]",
        ],
        "engine=live: backend.etcd_endpoints: no etcd at http://127.0.0.1:1: [Errno 111]"
        " Connection refused; start etcd there",
    ),
    "unknown class": (
        ["scheduler._target_=systems.schedulers.tiresias.Tiresia"],
        "scheduler._target_: module systems.schedulers.tiresias has no class 'Tiresia';"
        " did you mean 'Tiresias'?",
    ),
    "unknown module": (
        ["scheduler._target_=systems.schedulers.tiresia.Tiresias"],
        "scheduler._target_: there is no module 'systems.schedulers.tiresia'",
    ),
    "list without -m": (["scheduler=fifo,edf"], "scheduler: has several values; add -m"),
    "below a value of a class": (
        ["cluster.num_hosts.x=1"],
        "cluster.num_hosts: is a mapping with x; give a whole number",
    ),
    "removed group": (["~trace"], "trace: cannot be removed; choose another"),
    "below a value": (["seed.x=1"], "seed: is a mapping with x; give a whole number"),
    "file that is not there": (["cluster=mine.yaml"], "cluster: there is no file mine.yaml"),
    "unknown flag": (["--dry"], "argument '--dry': unknown flag; known: --cfg, --from"),
    "unknown study": (["study=mian"], "study: unknown study 'mian'; did you mean 'main'?"),
    "tracking": (["tracking.url=http://x"], "tracking.url: unknown option"),
    "workload without class": (["+workload.pool.mine={size: tiny}"], "has no _target_"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(command, case):
    words, problem = CASES[case]
    assert_refused(command(*words), problem)
    assert not command.results.exists()


def test_all_mistakes_at_once(command):
    answer = command(
        "sed=1",
        "seed=x",
        "scheduler=nobody",
        "cluster.num_hosts=0",
        "cluster.hosts=4",
        "trace.reader.pth=a.csv",
        "profile.throughput.bert.unit=miles",
        "engine.rescale_cost=half",
        "placement.x=1",
        "nonsense",
        "--nonsense",
    )
    assert_refused(answer, "11 problems; nothing was started:")
    places = ("sed:", "seed:", "scheduler:", "cluster.hosts:", "trace.reader.pth:", "placement.x:")
    for place in places:
        assert len(answer.lines_about(place)) == 1, place


def test_a_scheduler_that_suspends_on_a_backend_that_cannot(command):
    answer = command("scheduler=tiresias", "backend=static")
    assert_refused(answer, "scheduler=tiresias, backend=static: tiresias needs a backend that can")
    assert_refused(answer, "suspend jobs and static cannot", "choose another backend")


def test_jobs_larger_than_the_cluster(command):
    answer = command("cluster=dgx8")
    assert_refused(answer, "trace=itp195, cluster=dgx8: ", "of 195 jobs ask for more than the")
    assert_refused(answer, "cluster's 8 slots", "choose a larger cluster")


@pytest.mark.parametrize("scheduler", ["saxena_dp", "saxena_max_bs", "saxena_min_bs"])
def test_saxenas_autoscaler_is_not_given_several_device_types(command, scheduler):
    """Section II-D: its devices are alike, so no job of its can have slots of two types."""
    answer = command(f"scheduler={scheduler}", "cluster=v100_p100_k80", "profile=v100_p100_k80")
    place = f"scheduler={scheduler}, cluster=v100_p100_k80: "
    assert_refused(
        answer, place, "devices of a single type, but the cluster has 3 (k80, p100, v100)"
    )
    assert_refused(answer, "choose a cluster of one device type", "scheduler=easyscale")


def test_a_workload_that_nobody_can_train(command):
    answer = command("trace=philly", "cluster=slots400", "engine=live", "engine.pace=none")
    assert_refused(answer, "workload 'recorded' of the trace is not in the pool; known: ")


def test_a_workload_without_a_curve(command):
    answer = command("trace=five_jobs", "profile=recorded")
    assert_refused(answer, "no throughput curve for workload 'resnet50", "known: recorded")


def test_accelerators_that_are_not_here(command, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    answer = command("trace=five_jobs", "cluster=dgx8", "engine=live")
    assert_refused(answer, "shows 0 CUDA devices", "engine.pace=profile")


def test_a_base_that_is_no_configuration(command, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("- 1\n")
    assert_refused(command("--from", str(path)), f"--from {path}: holds no configuration")
    assert_refused(command("--from", str(path) + "x"), "--from: there is no file")


def test_a_placement_that_moves_jobs_needs_a_backend_that_can(command):
    answer = command("trace=five_jobs", "backend=static", "placement=buddy_migrating")
    assert_refused(
        answer,
        "placement=buddy_migrating, backend=static",
        "cannot migrate jobs",
        "placement=buddy",
    )

"""Bad traces, profiles and clusters, given on the command line: refused before the start."""

import pytest

from tests.config.commands import assert_refused

HEADER = "submitted,gpus,seconds,model,batch"
ROW = "0,1,600,bert,32"
TRACE = """\
name: mine
source: made for a test
licence: none
reader:
  _target_: harness.trace.columns.ColumnsReader
  path: jobs.csv
  columns: {arrival: submitted, slots: gpus, duration: seconds, workload: model, batch: batch}
"""

TRACES = {
    "text for a number": ("soon,1,600,bert,32", "submitted is 'soon'"),
    "no slots": ("5,0,600,bert,32", "gpus is 0"),
    "half a slot": ("5,1.5,600,bert,32", "gpus is '1.5'"),
    "no time": ("5,1,0,bert,32", "seconds is 0"),
    "negative time": ("5,1,-4,bert,32", "seconds is -4"),
    "not a number": ("5,1,nan,bert,32", "seconds is 'nan'"),
    "no batch": ("5,1,600,bert,0", "batch is 0"),
    "missing cell": ("5,1,600,bert", "has 4 cells"),
    "empty cell": (",1,600,bert,32", "submitted is empty"),
}


def write_trace(folder, *rows, text=TRACE):
    (folder / "jobs.csv").write_text("\n".join([HEADER, ROW, *rows]) + "\n")
    path = folder / "mine.yaml"
    path.write_text(text)
    return f"trace={path}"


@pytest.mark.parametrize("case", TRACES)
def test_bad_rows_of_a_trace(command, tmp_path, case):
    row, fact = TRACES[case]
    answer = command(write_trace(tmp_path, row))
    assert_refused(answer, fact)
    assert "jobs.csv:3: " in answer.err
    assert len(answer.err.splitlines()) == 2


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("jobs.csv", "absent.csv", "absent.csv"),
        ("gpus", "devices", "devices"),
        ("ColumnsReader", "ColumnReader", "did you mean 'ColumnsReader'?"),
        ("licence: none", "license: none", "unknown key 'license'; did you mean 'licence'?"),
        ("path: jobs.csv", "path: jobs.csv\n  unit: {}", "did you mean 'units'?"),
    ],
)
def test_bad_descriptions_of_a_trace(command, tmp_path, old, new, fact):
    text = TRACE.replace(old, new, 1)
    assert_refused(command(write_trace(tmp_path, text=text)), fact)


def test_all_rows_at_once(command, tmp_path):
    cells = [TRACES[case] for case in ("no slots", "no time", "negative time", "no batch")]
    answer = command(write_trace(tmp_path, *(row for row, _ in cells)))
    for _, fact in cells:
        assert fact in answer.err
    assert_refused(answer, f"{len(cells)} problems")


def test_a_long_list_stays_one_screen(command, tmp_path):
    answer = command(write_trace(tmp_path, *(f"{i},0,600,bert,32" for i in range(500))))
    assert_refused(answer, "more like these")


PROVENANCE = """\
name: mine
provenance: {hardware: one, versions: none, source: mine, licence: none, trials: 1, spread: none,
  measured_here: true, rescale_costs: measured}
"""
PROFILE = (
    PROVENANCE
    + """\
throughput:
  bert: {device: cpu, samples_per_s: {32: {1: 10.0, 2: 19.0}}}
rescale_costs:
  - {preparation_s: 0.0, pause_s: 1.0}
"""
)

PROFILES = {
    "no provenance": (PROVENANCE, "name: mine\n", "provenance"),
    "no source": ("source: mine, ", "", "source is missing"),
    "not measured or measured": ("measured_here: true", "measured_here: perhaps", "true or false"),
    "unknown key": ("rescale_costs:\n", "rescale_cost:\n", "unknown key 'rescale_cost'"),
    "negative speed": ("10.0", "-10.0", "-10"),
    "text for a speed": ("10.0", "fast", "fast"),
    "no slots": ("{1: 10.0", "{0: 10.0", "0"),
    "negative pause": ("pause_s: 1.0", "pause_s: -1.0", "-1"),
    "no device": ("device: cpu, ", "", "device is missing"),
    "both sources": ("device: cpu", "device: cpu, file: a.csv", "either file or samples_per_s"),
    "broken YAML": ("throughput:", "throughput: [", "cannot be read"),
}


@pytest.mark.parametrize("case", PROFILES)
def test_bad_profiles(command, tmp_path, case):
    old, new, fact = PROFILES[case]
    assert old in PROFILE
    path = tmp_path / "mine.yaml"
    path.write_text(PROFILE.replace(old, new, 1))
    assert_refused(command("trace=five_jobs", f"profile={path}"), fact, "mine.yaml")


CLUSTER = """\
_target_: harness.cluster.uniform_cluster
name: mine
num_hosts: 2
devices_per_host: 4
device_type: a100
"""

CLUSTERS = {
    "no hosts": ("num_hosts: 2", "num_hosts: 0", "num_hosts is 0; it must be at least 1"),
    "no devices": ("devices_per_host: 4", "devices_per_host: -1", "devices_per_host is -1"),
    "half a host": ("num_hosts: 2", "num_hosts: 1.5", "num_hosts: is 1.5; give a whole number"),
    "no type": ("device_type: a100", "device_type: ''", "device_type is empty"),
    "type missing": ("device_type: a100\n", "", "option 'device_type' of"),
    "misspelt": ("num_hosts", "num_host", "did you mean 'num_hosts'?"),
    "unknown level": ("name: mine", "bandwidth_gbytes_per_s: {node: 1}", "'node'; known: device,"),
    "no bandwidth": ("name: mine", "bandwidth_gbytes_per_s: {host: 0}", "it must be > 0 GB/s"),
    "cores": ("name: mine", "cores_per_slot: 2", "num_cores is 0 but a slot asks for 2 cores"),
    "no list": (CLUSTER, "- 1\n- 2\n", "holds no mapping"),
    "broken YAML": ("name: mine", "name: [", "cannot be read"),
    "class": ("uniform_cluster", "uniform", "did you mean 'uniform_cluster'?"),
}


@pytest.mark.parametrize("case", CLUSTERS)
def test_bad_clusters(command, tmp_path, case):
    old, new, fact = CLUSTERS[case]
    text = CLUSTER.replace(old, new, 1)
    if "name:" not in text and case != "no list":
        text += "name: mine\n"
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    answer = command(f"cluster={path}")
    assert_refused(answer, fact)
    assert len(answer.err.splitlines()) <= 3

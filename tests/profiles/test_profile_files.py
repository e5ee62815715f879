"""A bad profile is refused: every mistake at once, with its place and the way out."""

import pickle
import re

import pytest

from harness.contracts.change import ChangeKind
from harness.contracts.process import Warmth
from harness.profiles import ProfileError, load_profile

GOOD = """\
name: mine
provenance:
  hardware: a laptop
  versions: torch 2.13
  source: measured
  licence: Apache-2.0
  trials: 3
  spread: 2%
  rescale_costs: measured
  measured_here: true
throughput:
  toy:
    device: cpu
    samples_per_s:
      64: {1: 100.0, 2: 180.0, 4: null}
  net:
    device: cpu
    file: net.csv
    unit: iterations_per_s
rescale_costs:
  - {backend: b, workload: toy, kind: rescale, from: 1, to: 2, preparation_s: 0.5, pause_s: 0.1,
     phases_s: {save: 0.1}}
  - {preparation_s: 0, pause_s: 1}
"""
TABLE = "global_batch_size,1,2,4\r\n64,2.0,,0.0\r\n128,nan,1.5,1.75"


@pytest.fixture
def write(tmp_path):
    def write(text=GOOD, table=TABLE):
        (tmp_path / "net.csv").write_bytes(table.encode())
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return path

    return write


def test_good_file_with_missing_cells_and_crlf(write):
    profile = load_profile(write())
    assert profile.workloads == ("net", "recorded", "toy")
    assert profile.throughput("toy", 64).samples_per_s(4) == 180.0
    assert profile.throughput("net", 64).samples_per_s(4) == 128.0
    assert profile.throughput("net", 128).samples_per_s(3) == pytest.approx(128 * 1.625)
    cost = profile.rescale_cost("b", "toy", ChangeKind.RESCALE, 1, 2)
    assert (cost.preparation_s, cost.pause_s, cost.phases_s) == (0.5, 0.1, {"save": 0.1})
    assert profile.rescale_cost("b", "net", ChangeKind.START, 0, 4).pause_s == 1.0


def test_profile_survives_pickling(write):
    profile = pickle.loads(pickle.dumps(load_profile(write())))
    assert profile.throughput("toy", 64).samples_per_s(2, 64) == 180.0


BAD_YAML = [
    ("name: mine", "name: ''", r":1: name: is ''; give the profile a name"),
    ("  licence: Apache-2.0\n", "", r":2: provenance: licence is missing"),
    ("measured_here: true", "measured_here: maybe", r":10: .*'maybe'; use true or false"),
    ("{1: 100.0", "{1: -3", r":15: throughput\.toy\.samples_per_s\.64\.1: throughput -3 is not"),
    ("{1: 100.0", "{0: 100.0", r":15: .*0 is not a slot count; use 1, 2, 4"),
    ("64: {1: 100.0, 2: 180.0, 4: null}", "64: {1: null}", r":14: .*no throughput was measured"),
    ("unit: iterations_per_s", "unit: parsecs", r":19: .*'parsecs'; known: iterations_per_s"),
    ("file: net.csv", "file: gone.csv", r"gone\.csv: cannot be read \(No such file"),
    ("    device: cpu\n    samples", "    samples", r":12: throughput\.toy: device is missing"),
    ("  toy:", "  recorded:", r":12: .*'recorded' is built in"),
    ("kind: rescale", "kind: explode", r":21: .*'explode' is unknown; known: start, rescale"),
    ("workload: toy", "workload: tyo", r":21: .*'tyo' has no throughput here; known: net, rec"),
    ("from: 1, ", "", r":21: .*only one of from and to; give both"),
    ("pause_s: 0.1", "pause_s: .nan", r":21: .*pause_s is nan; give finite seconds >= 0"),
    ("preparation_s: 0, pause_s: 1", "pause_s: 1", r":23: .*preparation_s is None; give finite"),
    ("rescale_costs:\n", "rescale_cost:\n", r":20: .*unknown key 'rescale_cost'; known: name"),
    ("name: mine", "name: mine\nname: yours", r":2: 'name' is given twice, first on line 1"),
    ("name: mine", "name: [mine", r":2: not valid YAML"),
    (GOOD, "", r"mine\.yaml:1: is empty; docs/reference/configuration\.md has the format"),
    (
        "    device: cpu\n    samples",
        "    device: cpu\n    spread: 5%\n    samples",
        r":14: throughput\.toy\.spread: is '5%'; give largest minus smallest trial over the median",
    ),
    (
        "    device: cpu\n    samples",
        "    device: cpu\n    spread: {64: {two: 0.1}}\n    samples",
        r":14: throughput\.toy\.spread: is 64: \{'two': 0\.1\}; give",
    ),
    ("name: mine", "name: mine\ncosts: no.yaml", r":2: costs: .*no\.yaml has no rescale_costs"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_YAML, ids=[row[2] for row in BAD_YAML])
def test_bad_profile_file(write, old, new, message):
    assert GOOD.count(old) == 1
    with pytest.raises(ProfileError) as caught:
        load_profile(write(GOOD.replace(old, new)))
    assert re.search(message, str(caught.value)), str(caught.value)
    assert all("mine.yaml" in line or ".csv" in line for line in caught.value.problems)


BAD_CSV = [
    ("global_batch_size", "batch", r"net\.csv:1: the first column is not 'global_batch_size'"),
    (",1,2,4", ",1,two,4", r"net\.csv:1: column 'two' is not a slot count"),
    (",1,2,4", ",1,2,2", r"net\.csv:1: slot count 2 has two columns"),
    ("64,2.0", "64,fast", r"net\.csv:2: throughput 'fast' at 1 slots is not a finite number"),
    ("64,2.0", "64,inf", r"net\.csv:2: throughput 'inf' at 1 slots"),
    ("64,2.0,", "64,2.0", r"net\.csv:2: 3 cells under a header of 4"),
    ("128,nan", "64,nan", r"net\.csv:3: global batch 64 is given twice"),
    ("128,nan", "x,nan", r"net\.csv:3: global batch 'x' is not a whole number"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_CSV, ids=[row[2] for row in BAD_CSV])
def test_bad_table(write, old, new, message):
    assert TABLE.count(old) == 1
    with pytest.raises(ProfileError, match=message):
        load_profile(write(table=TABLE.replace(old, new)))


def test_all_problems_are_told_at_once(write):
    text = GOOD.replace("name: mine", "name: ''").replace("kind: rescale", "kind: explode")
    with pytest.raises(ProfileError) as caught:
        load_profile(write(text, TABLE.replace("2.0", "fast")))
    assert len(caught.value.problems) == 3


ACROSS = GOOD.replace(
    "throughput:\n",
    "throughput:\n"
    "  far:\n"
    "    device: a100\n"
    "    samples_per_s: {64: {1: 10.0, 2: 18.0, 4: 30.0}}\n"
    "    across_hosts:\n"
    "      samples_per_s: {64: {2: 12.0, 4: 20.0}}\n",
)


def test_speeds_across_hosts_are_kept_apart(write):
    profile = load_profile(write(ACROSS))
    assert profile.throughput("far", 64).samples_per_s(2) == 18.0
    assert profile.across_hosts("far").curve(64).samples_per_s(2) == 12.0
    assert profile.across_hosts("toy") is None
    slower = load_profile(write(ACROSS.replace("2: 12.0", "2: 11.0")))
    assert profile.digest != slower.digest
    for wrong, fact in (
        ("across_hosts: 3\n    #", "across_hosts: is not a mapping"),
        ("across_hosts:\n      device: x\n      #", "unknown key 'device'"),
        ("across_hosts:\n      #", "give file or samples_per_s"),
    ):
        with pytest.raises(ProfileError, match=fact):
            load_profile(write(ACROSS.replace("across_hosts:\n      ", wrong)))


WARM = GOOD.replace(
    "rescale_costs:\n",
    "rescale_costs:\n"
    "  - {backend: b, warmth: cold, workload: toy, preparation_s: 0, pause_s: 9}\n"
    "  - {backend: b, warmth: spare, workload: toy, preparation_s: 0, pause_s: 2}\n",
)


def test_costs_may_depend_on_how_workers_start(write):
    profile = load_profile(write(WARM))
    asked = ("b", "toy", ChangeKind.START, 0, 4)
    assert profile.rescale_cost(*asked, Warmth.COLD).pause_s == 9.0
    assert profile.rescale_cost(*asked, Warmth.SPARE).pause_s == 2.0
    assert profile.rescale_cost(*asked, Warmth.PREIMPORTED).pause_s == 1.0  # the cell for all
    # A cell that names the kind as well is asked before one that names the warmth only.
    assert profile.rescale_cost("b", "toy", ChangeKind.RESCALE, 1, 2, Warmth.COLD).pause_s == 0.1
    with pytest.raises(ProfileError, match="warmth 'hot' is unknown; known: cold, preimported"):
        load_profile(write(WARM.replace("warmth: cold", "warmth: hot")))


def test_a_cost_that_is_missing_names_the_warmth(write):
    only_cold = WARM.replace("  - {preparation_s: 0, pause_s: 1}\n", "")
    with pytest.raises(ProfileError, match="backend 'b', start=preimported, workload 'toy'"):
        load_profile(write(only_cold)).rescale_cost(
            "b", "toy", ChangeKind.START, 0, 4, Warmth.PREIMPORTED
        )


def test_problems_of_a_composed_node_name_the_key():
    with pytest.raises(ProfileError, match=r"profile\.throughput\.toy: device is missing"):
        load_profile({"name": "x", "throughput": {"toy": {"samples_per_s": {64: {1: 2.0}}}}})


def test_costs_of_another_file_replace_the_own_ones(write, tmp_path):
    (tmp_path / "other.yaml").write_text(
        "provenance: {rescale_costs: 3 trials}\n"
        "rescale_costs: [{preparation_s: 7, pause_s: 8, workload: net}]\n"
    )
    profile = load_profile(write(GOOD + "costs: other.yaml\n"))
    assert profile.rescale_cost("b", "net", ChangeKind.START, 0, 1).preparation_s == 7.0
    assert profile.provenance["rescale_costs"] == "from other.yaml: 3 trials"
    with pytest.raises(ProfileError, match="no rescale cost for backend 'b', workload 'toy'"):
        profile.rescale_cost("b", "toy", ChangeKind.RESCALE, 1, 2)


def test_path_of_a_node_names_a_file(write):
    assert load_profile({"name": "ignored", "path": str(write())}).name == "mine"

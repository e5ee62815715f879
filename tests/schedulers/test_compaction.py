"""Compaction: the locality constraint, and the greatest gain by brute force."""

from __future__ import annotations

import random
from itertools import accumulate, combinations, product
from statistics import mean

from hypothesis import given, settings
from hypothesis import strategies as st

from systems.schedulers.attained_service.compaction import Compaction, Donor, Move
from systems.schedulers.common.slot_claims import SlotClaims
from tests.examples import examples
from tests.replay.worlds import cluster

BENT = (0.0, 1.0, 1.8, 2.4, 2.8, 3.0, 3.1)


def compaction(where, claims, donors):
    """A compaction over jobs that claim slots and may go down to so many."""
    known = SlotClaims(where)
    for job_id, slots in claims.items():
        known.set(job_id, slots)
    donor_of = {
        job_id: Donor(worth, len(claims[job_id]), least, (job_id,))
        for job_id, (worth, least) in donors.items()
    }
    found = Compaction(where, known, donor_of.get)
    found.refresh()
    return found


def test_slots_come_from_as_many_hosts_as_the_request_needs():
    """2 hosts of 2; a and b may each give one slot, on different hosts. A job that asked for 2
    fits on one host: it gets one slot (gain 1 - 0.8). One that asked for 3 may use both hosts."""
    claims = {"a": (0, 1), "b": (2, 3)}
    found = compaction(cluster(2, 2), claims, {"a": (BENT, 1), "b": (BENT, 1)})
    assert found.best(BENT, 1, 2) == Move(((1, "a"),), 1.0 - (BENT[2] - BENT[1]))
    assert found.best(BENT, 2, 2) is None
    line = tuple(range(5))
    both = found.best(line, 2, 3)
    assert both is not None
    assert sorted(both.slots) == [(1, "a"), (3, "b")]


def test_free_slots_are_given_first_and_a_job_may_start_on_them_alone():
    """4 slots, 1 free. The job's second slot is worth 0.8, the last of a's three 0.6."""
    found = compaction(cluster(1, 4), {"a": (0, 1, 2)}, {"a": (BENT, 2)})
    move = found.best(BENT, 1, 2)
    assert move is not None
    assert move.slots == ((3, None), (2, "a"))
    assert found.best(BENT, 1, 1) == Move(((3, None),), 1.0)


def test_of_equal_losses_the_last_in_the_plan_gives():
    claims = {"a": (0, 1), "b": (2, 3)}
    found = compaction(cluster(1, 4), claims, {"a": (BENT, 1), "b": (BENT, 1)})
    move = found.best(BENT, 1, 2)
    assert move is not None
    assert move.slots == ((3, "b"),)  # a second one at 0.8 would gain 0.8 - 0.8


def test_nobody_has_anything_to_give():
    found = compaction(cluster(1, 2), {"a": (0, 1)}, {})
    assert found.is_exhausted


@st.composite
def concave(draw):
    """Worth of 0 to 8 slots, each slot worth no more than the one before."""
    steps = draw(st.lists(st.integers(0, 20), min_size=8, max_size=8))
    return tuple(accumulate((step / 20 for step in sorted(steps, reverse=True)), initial=0.0))


@st.composite
def worlds(draw):
    """A cluster, jobs with claims on it anywhere, and those among them that may give slots."""
    num_hosts, per_host = draw(st.sampled_from([(1, 5), (2, 3), (3, 2), (2, 4)]))
    owners = draw(
        st.lists(
            st.sampled_from([None, "a", "b", "c", "d"]),
            min_size=num_hosts * per_host,
            max_size=num_hosts * per_host,
        )
    )
    claims = {}
    for slot, owner in enumerate(owners):
        if owner is not None:
            claims[owner] = (*claims.get(owner, ()), slot)
    donors = {
        job_id: (draw(concave()), draw(st.integers(1, len(slots))))
        for job_id, slots in claims.items()
        if draw(st.booleans())
    }
    return cluster(num_hosts, per_host), per_host, claims, donors


def greatest_gain(where, claims, donors, worth, least, requested, num_hosts=1):
    """Over all sets of so many hosts, numbers r_j of all donors, and numbers of free slots."""
    sets = combinations(range(len(where.hosts)), min(num_hosts, len(where.hosts)))
    given = (where, claims, donors, worth, least, requested)
    return max(gain_on(hosts, *given) for hosts in sets)


def gain_on(hosts, where, claims, donors, worth, least, requested):
    """The greatest gain by slots of these hosts alone."""
    best = 0.0
    claimed = {slot for slots in claims.values() for slot in slots}
    slots = [slot for host in hosts for slot in where.hosts[host].slots]
    here = {i: sum(slot in slots for slot in claims[i]) for i in donors}
    room = {i: min(here[i], len(claims[i]) - donors[i][1]) for i in donors}
    num_free = sum(slot not in claimed for slot in slots)
    for free, *removed in product(range(num_free + 1), *(range(r + 1) for r in room.values())):
        count = free + sum(removed)
        if not least <= count <= requested:
            continue
        loss = 0.0
        for job_id, number in zip(room, removed, strict=True):
            before = len(claims[job_id])
            loss += donors[job_id][0][before] - donors[job_id][0][before - number]
        best = max(best, worth[count] - loss)
    return best


@settings(deadline=None, max_examples=examples(300))
@given(worlds(), concave(), st.data())
def test_the_greatest_gain_by_brute_force(world, worth, data):
    where, per_host, claims, donors = world
    requested = data.draw(st.integers(1, per_host))
    least = data.draw(st.integers(1, requested))
    move = compaction(where, claims, donors).best(worth, least, requested)
    best = greatest_gain(where, claims, donors, worth, least, requested)
    if move is None:
        assert best < 1e-6
        return
    assert abs(move.gain - best) < 1e-6
    assert least <= len(move.slots) <= requested
    assert where.num_hosts_of([slot for slot, _ in move.slots]) == 1
    for slot, donor in move.slots:
        assert (slot in claims[donor]) if donor else all(slot not in s for s in claims.values())


@settings(deadline=None, max_examples=examples(300))
@given(worlds(), concave(), st.data())
def test_a_request_wider_than_a_host_gains_the_most_that_its_hosts_can_give(world, worth, data):
    """Which hosts it takes is not always the best choice; what it does with them is."""
    where, per_host, claims, donors = world
    requested = data.draw(st.integers(per_host, min(8, where.num_slots)))
    least = data.draw(st.integers(1, requested))
    num_hosts = -(-requested // per_host)
    move = compaction(where, claims, donors).best(worth, least, requested)
    given_all = (where, claims, donors, worth, least, requested)
    best = greatest_gain(*given_all, num_hosts)
    if move is None:
        assert best < 1e-6 or len(where.hosts) > num_hosts > 1
        return
    slots = [slot for slot, _ in move.slots]
    hosts = {where.host_of[slot] for slot in slots}
    assert len(hosts) <= num_hosts
    assert least <= len(slots) <= requested
    assert move.gain <= best + 1e-6
    assert move.gain > gain_on(sorted(hosts), *given_all) - 1e-6
    if num_hosts in (1, len(where.hosts)):
        assert move.gain > best - 1e-6


def random_case(rng):
    """Four hosts of two or three slots, jobs anywhere, and one that waits for more than a host."""
    per_host = rng.choice([2, 3])
    where = cluster(4, per_host)
    claims = {}
    for slot in range(where.num_slots):
        owner = rng.choice([None, "a", "b", "c", "d", "e"])
        if owner is not None:
            claims[owner] = (*claims.get(owner, ()), slot)

    def curve():
        steps = sorted((rng.random() for _ in range(where.num_slots)), reverse=True)
        return tuple(accumulate(steps, initial=0.0))

    donors = {job_id: (curve(), max(1, len(slots) // 2)) for job_id, slots in claims.items()}
    requested = rng.randint(per_host + 1, 2 * per_host)
    return where, claims, donors, curve(), max(1, requested // 2), requested


def test_how_far_from_the_greatest_gain_the_choice_of_hosts_is():
    """The numbers of ``Compaction``'s docstring: 1,000 cases, two of four hosts."""
    rng = random.Random(0)
    shares = []
    for _ in range(1000):
        where, claims, donors, worth, least, requested = random_case(rng)
        best = greatest_gain(where, claims, donors, worth, least, requested, 2)
        move = compaction(where, claims, donors).best(worth, least, requested)
        if best > 1e-6:
            shares.append(move.gain / best if move else 0.0)
    assert len(shares) == 988
    assert round(mean(shares), 2) == 0.90
    assert round(mean(share > 1 - 1e-6 for share in shares), 2) == 0.75
    assert round(mean(share == 0.0 for share in shares), 2) == 0.01

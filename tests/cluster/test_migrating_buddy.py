"""Buddy placement that moves jobs: by hand, and against every arrangement there is."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.contracts.placement import Occupant
from harness.replay.occupancy import Occupancy
from systems.placements.migrating_buddy import MigratingBuddy
from tests.examples import examples
from tests.replay.worlds import cluster


class Slots:
    """A cluster on which every change is done at once."""

    def __init__(self, num_hosts: int, devices: int) -> None:
        self.where = cluster(num_hosts, devices)
        self.free = Occupancy(self.where)
        self.jobs: dict[str, tuple[int, ...]] = {}
        self.placement = MigratingBuddy()

    def put(self, **jobs: tuple[int, ...]) -> Slots:
        """Jobs on these slots."""
        for job_id, slots in jobs.items():
            self.hold(job_id, slots)
        return self

    def hold(self, job_id: str, slots: tuple[int, ...]) -> None:
        self.free.release(self.jobs.pop(job_id, ()))
        self.free.take(slots)
        if slots:
            self.jobs[job_id] = slots

    def arrange(self, leaving=(), staying=(), **wanted: int):
        """What the placement says where these jobs are to have so many slots."""
        waiting = [Occupant(one, count, self.jobs.get(one, ())) for one, count in wanted.items()]
        settled = [
            Occupant(one, len(slots), slots)
            for one, slots in self.jobs.items()
            if one not in wanted and one not in staying
        ]
        return dict(self.placement.arrange(self.where, self.free, leaving, waiting, settled))

    def grant(self, **wanted: int) -> list[str]:
        """Give these jobs so many slots; who moved for them, in order."""
        moved: list[str] = []
        wanted = dict(wanted)
        while wanted:
            answer = self.arrange(**wanted)
            begun = {
                one: slots
                for one, slots in answer.items()
                if self.free.is_free([s for s in slots if s not in self.jobs.get(one, ())])
            }
            assert begun, "who waits, waits for somebody who can move"
            for one, slots in begun.items():
                held = self.jobs.get(one, ())
                assert self.free.is_free([s for s in slots if s not in held]), "not to two jobs"
                if wanted.pop(one, None) is None:
                    assert len(slots) == len(held)
                    moved.append(one)
                self.hold(one, slots)
        return moved


def is_block(slots: tuple[int, ...]) -> bool:
    first, size = min(slots), len(slots)
    return first % size == 0 and {*slots} == {*range(first, first + size)}


def test_whoever_is_least_in_the_way_moves():
    """Five of eight are free, but no block of four: b has less of one than a has of the other."""
    world = Slots(1, 8).put(a=(0, 1), b=(4,))
    assert world.arrange(c=4) == {"c": (4, 5, 6, 7), "b": (2,)}
    assert world.grant(c=4) == ["b"]
    assert world.jobs == {"a": (0, 1), "b": (2,), "c": (4, 5, 6, 7)}


def test_a_job_that_moves_has_others_move():
    """Three hosts' worth of jobs on four: x has no pair free, until c has left one."""
    world = Slots(4, 4).put(a=(0, 1, 2, 3), x=(4, 5), b=(8, 9), c=(10,), d=(12, 13), y=(14,))
    assert world.arrange(e=4) == {"e": (4, 5, 6, 7), "x": (10, 11), "c": (15,)}
    assert world.grant(e=4) == ["c", "x"]  # in the order in which they can
    assert all(map(is_block, world.jobs.values()))


def test_nobody_moves_while_a_block_is_free():
    world = Slots(2, 4).put(a=(0,), b=(4, 5))
    assert world.grant(c=2, d=2) == []
    assert world.jobs == {"a": (0,), "b": (4, 5), "c": (6, 7), "d": (2, 3)}


def test_a_job_grows_around_its_slots_or_goes_where_nobody_has_to_move():
    world = Slots(2, 4).put(a=(1, 0), b=(2,))
    assert world.grant(a=4) == []
    assert world.jobs["a"] == (4, 5, 6, 7)
    world = Slots(2, 4).put(a=(1, 0), b=(2,), c=(4,))
    assert world.grant(a=4) == ["b"]
    assert world.jobs == {"a": (1, 0, 2, 3), "b": (5,), "c": (4,)}  # ranks stay


def test_two_that_grow_in_one_block_do_not_wait_for_each_other():
    world = Slots(1, 4).put(a=(0,), b=(1,))
    assert world.arrange(a=2, b=2) == {"a": (2, 3), "b": (1, 0)}
    assert world.grant(a=2, b=2) == []


def test_slots_that_are_given_up_are_waited_for():
    world = Slots(1, 8).put(a=(0,))
    world.free.take((6, 7))
    assert world.arrange(leaving=(6, 7), b=4) == {"b": (4, 5, 6, 7)}
    assert world.arrange(b=4) == {"b": (0, 1, 2, 3), "a": (4,)}


def test_what_cannot_move_stays_and_slots_are_spread():
    # A job of three, and one whose slots its scheduler named.
    world = Slots(1, 8).put(a=(0, 1, 2), b=(4,))
    assert world.arrange(staying="b", c=4) == {"c": (3, 5, 6, 7)}
    # s could leave the first half, but would find no pair.
    world = Slots(1, 8).put(s=(0, 1), t=(4,), u=(6,))
    assert world.arrange(staying="tu", c=4) == {"c": (2, 3, 5, 7)}
    # A job of three gets what is left when all blocks are given.
    world = Slots(1, 8).put(a=(0,), b=(4,))
    assert world.arrange(c=3, d=2) == {"d": (2, 3), "c": (5, 6, 7)}


def arrangements(first: int, size: int) -> list[list[tuple[int, ...]]]:
    """Every way in which jobs of powers of two can lie in aligned blocks."""
    found = [[], [tuple(range(first, first + size))]]
    if size > 1:
        half = size // 2
        found = found[1:] + [
            left + right
            for left in arrangements(first, half)
            for right in arrangements(first + half, half)
        ]
    return found


def fits(taken: set[int], sizes: list[int], num_slots: int) -> bool:
    """Whether jobs of these sizes have aligned blocks beside what is taken. Largest first, the
    blocks that are free are all alike."""
    taken = set(taken)
    for size in sorted(sizes, reverse=True):
        blocks = (range(first, first + size) for first in range(0, num_slots, size))
        block = next((block for block in blocks if taken.isdisjoint(block)), None)
        if block is None:
            return False
        taken.update(block)
    return True


def fewest_moves(jobs: list[tuple[int, ...]], size: int, num_slots: int) -> int:
    """How many jobs have to move at least so that one of this size has a block."""
    for count in range(len(jobs) + 1):
        for moved in combinations(range(len(jobs)), count):
            stay = {slot for n, job in enumerate(jobs) if n not in moved for slot in job}
            if fits(stay, [size, *(len(jobs[n]) for n in moved)], num_slots):
                return count
    raise AssertionError("there are not enough slots")


def moves_too_many(jobs: list[tuple[int, ...]], size: int, num_hosts: int) -> int:
    """Moves for a job of this size beyond the fewest; it must find a block, and all keep one."""
    world = Slots(num_hosts, 4).put(**{f"j{n}": job for n, job in enumerate(jobs)})
    moved = world.grant(new=size)
    assert len(world.jobs) == len(jobs) + 1
    assert all(map(is_block, world.jobs.values()))
    assert len(moved) == len(set(moved))
    return len(moved) - fewest_moves(jobs, size, 4 * num_hosts)


def test_every_arrangement_of_eight_slots():
    excess = Counter()
    for jobs in arrangements(0, 8):
        num_free = 8 - sum(map(len, jobs))
        for size in (1, 2, 4, 8):
            if size <= num_free:
                excess[moves_too_many(jobs, size, 2)] += 1
    assert excess.total() == 1482
    assert set(excess) == {0}


@st.composite
def crowded(draw, num_slots: int):
    """Jobs in aligned blocks, and the size of a job for which there are enough slots."""
    jobs: list[tuple[int, ...]] = []

    def fill(first: int, size: int) -> None:
        fate = draw(st.sampled_from(["job", "free", "split", "split", "split"]))
        if fate == "job" or (fate == "split" and size == 1):
            jobs.append(tuple(range(first, first + size)))
        elif fate == "split":
            fill(first, size // 2)
            fill(first + size // 2, size // 2)

    fill(0, num_slots)
    num_free = num_slots - sum(map(len, jobs))
    sizes = [size for size in (1, 2, 4, 8, 16) if size <= num_free]
    assume(sizes)
    return jobs, draw(st.sampled_from(sizes))


@settings(deadline=None, max_examples=examples(300))
@given(case=crowded(16))
def test_sixteen_slots_against_the_fewest_moves(case):
    jobs, size = case
    assert moves_too_many(jobs, size, 4) == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["start", "grow", "shrink", "end"]), st.integers(0, 40), st.integers(0, 5)
    ),
    max_size=40,
)


def assert_needed(moved: list[str], before: dict[str, tuple[int, ...]], world: Slots, new: str):
    """Nobody moved who was in nobody's way, and nobody at all if a block was free."""
    for one in moved:
        others = (*(other for other in moved if other != one), new)
        assert any({*before[one]} & {*world.jobs[other]} for other in others)
    taken = {slot for one, slots in before.items() if one != new for slot in slots}
    if fits(taken, [len(world.jobs[new])], 32):
        assert not moved


@settings(deadline=None, max_examples=examples(200))
@given(steps=STEPS)
def test_any_sequence_of_powers_of_two_finds_blocks(steps):
    """Figure 5's promise: a job finds a block whenever there are enough slots for it."""
    world = Slots(4, 8)
    for number, (kind, which, power) in enumerate(steps):
        names = sorted(world.jobs)
        if kind != "start" and not names:
            continue
        job_id = f"j{number}" if kind == "start" else names[which % len(names)]
        held = world.jobs.get(job_id, ())
        if kind == "end" or (kind == "shrink" and len(held) == 1):
            world.hold(job_id, ())
        elif kind == "shrink":
            half = len(held) // 2
            world.hold(job_id, world.placement.place(half, world.where, world.free, held))
        else:
            size = len(held) << (power % 3 + 1) if held else 1 << power
            if size - len(held) > world.free.num_free:
                continue
            before = dict(world.jobs)
            moved = world.grant(**{job_id: size})
            changed = {one for one in before if world.jobs[one] != before[one]}
            assert changed - {job_id} == set(moved)
            assert_needed(moved, before, world, job_id)
        assert all(map(is_block, world.jobs.values()))

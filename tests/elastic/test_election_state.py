"""The rules of the election on a clock of the test's own, in every order of events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems.elastic.election.election_state import ElectionState

EXPIRY_S, REFRESH_S = 3.0, 1.0
LATE = 0.002


class Register:
    """A key, without a store."""

    def __init__(self):
        self.value = None

    def do(self, swap):
        if self.value != swap.expected:
            return False
        self.value = swap.desired
        return True


class Candidate:
    """A state that is asked at times that the test chooses."""

    def __init__(self, name, register, is_candidate=True):
        self.state = ElectionState(f"h:{name}", f"c{name}", EXPIRY_S, REFRESH_S, is_candidate)
        self.register = register
        self.pending = None
        self.next_look = 0.0
        self.sure_until = 0.0
        """As long as it leads, nobody else can have taken the key before this."""

    def is_sure(self, now):
        return self.state.is_leader and now < self.sure_until

    def look(self, now):
        self.pending = (self.state.look(self.register.value, now), now)
        self.next_look = now + self.state.next_look_s(now)

    def act(self):
        """Do what the last look asked for, however long ago; whether it was done."""
        (swap, looked), self.pending = self.pending or (None, 0.0), None
        if swap is None or not self.register.do(swap):
            return False
        self.state.won(swap, looked)
        self.sure_until = looked + EXPIRY_S
        self.next_look = looked + self.state.next_look_s(looked)
        return True

    def round(self, now):
        self.look(now)
        while self.act():
            self.look(now)


def candidates(count):
    register = Register()
    return register, [Candidate(index, register) for index in range(count)]


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.floats(0.0, 2 * EXPIRY_S),
        st.sampled_from(["look", "act", "round", "resign"]),
    ),
    max_size=60,
)


@given(EVENTS)
def test_two_are_never_sure_at_once(events):
    _, all_of_them = candidates(3)
    now = 0.0
    for index, pause_s, what in events:
        now += pause_s
        one = all_of_them[index]
        if what == "resign":
            one.state.is_candidate = False
        elif what == "look":
            one.look(now)
        elif what == "act":
            one.act()
        else:
            one.round(now)
        assert sum(each.is_sure(now) for each in all_of_them) <= 1


@given(EVENTS)
def test_a_look_shows_who_holds_the_key_and_asks_for_another_look_later(events):
    register, all_of_them = candidates(3)
    now = 0.0
    for index, pause_s, what in events:
        now += pause_s
        one = all_of_them[index]
        one.state.is_candidate &= what != "resign"
        one.round(now)
        holder = register.value and register.value.partition("|")[0]
        assert one.state.leader_address == holder
        assert 0 < one.next_look - now <= REFRESH_S + LATE


def run_until(all_of_them, start, end):
    """Everyone looks when their state says so; yields after each round."""
    now = start
    while True:
        one = min(all_of_them, key=lambda each: each.next_look)
        now = max(now, one.next_look)
        if now > end:
            return
        one.round(now)
        yield now


@given(st.lists(st.floats(0.0, REFRESH_S), min_size=2, max_size=5), st.floats(0.0, 10.0))
def test_a_leader_that_stops_is_replaced_in_time(offsets, stops_at):
    _, all_of_them = candidates(len(offsets))
    for each, offset in zip(all_of_them, offsets, strict=True):
        each.next_look = offset
    for _ in run_until(all_of_them, 0.0, 1.0 + stops_at):
        pass
    leader = next(each for each in all_of_them if each.state.is_leader)
    others = [each for each in all_of_them if each is not leader]
    last_refresh = leader.next_look - REFRESH_S
    for now in run_until(others, 1.0 + stops_at, 100.0):
        if any(each.state.is_leader for each in others):
            assert now - last_refresh + LATE >= EXPIRY_S
            assert now - last_refresh <= EXPIRY_S + REFRESH_S + LATE
            break
    else:
        pytest.fail("nobody took over")
    assert not leader.is_sure(now)
    assert leader.state.is_leader
    leader.round(now)
    assert not leader.state.is_leader


@given(st.floats(EXPIRY_S, 1000.0), st.floats(0.01, REFRESH_S))
def test_who_was_stopped_too_does_not_accuse_the_leader(stopped_s, again_s):
    _, (leader, other) = candidates(2)
    leader.round(0.0)
    other.round(0.0)
    other.round(REFRESH_S)
    # All of the machine stood still; the follower happens to run first.
    now = REFRESH_S + stopped_s
    other.round(now)
    assert other.state.leader_address == leader.state.me
    leader.round(now + again_s)
    other.round(now + again_s)
    assert leader.is_sure(now + again_s)
    assert not other.state.is_leader


def test_certain_death_is_not_waited_for_and_lapses():
    register, (leader, other) = candidates(2)
    leader.round(0.0)
    other.round(0.1)
    other.state.presume_dead(leader.state.me, 0.2)
    other.round(0.2)
    assert other.is_sure(0.2)
    # A new process on the dead one's port.
    register.value = f"{leader.state.me}|new|1"
    other.round(0.2 + EXPIRY_S)
    other.round(0.2 + EXPIRY_S + REFRESH_S)
    assert other.state.leader_address == leader.state.me


def test_a_death_that_is_told_before_the_leader_was_seen_counts():
    _, (leader, other) = candidates(2)
    leader.round(0.0)
    other.state.presume_dead(leader.state.me, 0.0)
    other.round(0.1)
    assert other.state.is_leader


def test_nobody_presumes_itself_dead():
    _, (leader, _) = candidates(2)
    leader.round(0.0)
    leader.state.presume_dead(leader.state.me, 0.1)
    leader.round(0.2)
    assert leader.state.is_leader


def test_one_who_is_no_candidate_follows_only():
    register = Register()
    follower, leader = Candidate("f", register, is_candidate=False), Candidate("l", register)
    follower.round(0.0)
    assert follower.state.leader_address is None
    leader.round(0.1)
    for turn in range(20):
        follower.round(1.0 + turn)
        assert follower.state.leader_address == leader.state.me
        assert follower.next_look - (1.0 + turn) == REFRESH_S
    follower.state.is_candidate = True
    follower.round(22.0)
    assert follower.state.is_leader


def test_on_a_new_store_the_sitting_leader_comes_first():
    register, (leader, other) = candidates(2)
    leader.round(0.0)
    other.round(0.1)
    register.value = None
    other.state.replaced(0.5)
    other.round(0.5)
    assert register.value is None
    assert other.state.leader_address == leader.state.me
    leader.state.replaced(0.9)
    assert leader.state.is_leader
    leader.round(0.9)
    other.round(1.0)
    assert other.state.leader_address == leader.state.me


def test_on_a_new_store_a_leader_that_does_not_come_is_replaced():
    register, (leader, other) = candidates(2)
    leader.round(0.0)
    other.round(0.1)
    register.value = None
    other.state.replaced(0.5)
    other.round(0.5)
    led_at = next(now for now in run_until([other], 0.5, 20.0) if other.state.is_leader)
    assert led_at == pytest.approx(0.5 + EXPIRY_S, abs=LATE)


def test_on_a_new_store_nobody_waits_for_the_dead():
    register, (leader, other) = candidates(2)
    leader.round(0.0)
    other.round(0.1)
    register.value = None
    other.state.replaced(0.5)
    other.state.presume_dead(leader.state.me, 0.6)
    other.round(0.6)
    assert other.state.is_leader


def test_a_death_while_the_store_is_lost_is_not_forgotten():
    _, (leader, other) = candidates(2)
    leader.round(0.0)
    other.round(0.1)
    other.state.presume_dead(leader.state.me, 0.5)
    for now in range(1, 20):
        other.state.replaced(now)
    other.round(19.5)  # the store is there again, with the key
    assert other.state.is_leader


def test_a_sitting_leader_that_comes_too_late_steps_down():
    register, (leader, other) = candidates(2)
    leader.round(0.0)
    register.value = None
    other.round(0.1)
    leader.state.replaced(0.2)
    leader.round(0.2)
    assert leader.state.leader_address == other.state.me


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(ValueError, match=r"without '\|'.*refresh_s=2.0.*expiry_s=3.0"):
        ElectionState("a|b", "c", 3.0, 2.0, True)

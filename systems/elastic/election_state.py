"""What one candidate knows and decides in an election: no clock, no store, no thread."""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST_PAUSE_S = 0.001


@dataclass(frozen=True, slots=True)
class Swap:
    """What to ask of the store."""

    expected: str | None
    desired: str | None
    """None: erase it."""
    is_refresh: bool = False


class ElectionState:
    """One candidate's view of the key. ``election.py`` tells what it is for."""

    def __init__(
        self, me: str, candidate: str, expiry_s: float, refresh_s: float, is_candidate: bool
    ) -> None:
        """Know nothing yet.

        Args:
            me: our address.
            candidate: a text that is ours only, also if the address was someone's before.
            expiry_s: how long a key may go without refresh.
            refresh_s: time between two refreshes and two looks.
            is_candidate: whether we would lead.

        Raises:
            ValueError: with everything that is wrong.
        """
        problems = []
        if not me or "|" in me or "|" in candidate:
            problems.append(f"the address {me!r} must be a text without '|'")
        if not 0 < 2 * refresh_s <= expiry_s:
            problems.append(
                f"refresh_s={refresh_s} must be above 0 and at most half of"
                f" expiry_s={expiry_s}: one late refresh must not cost the leader its key"
            )
        if problems:
            raise ValueError("; ".join(problems))
        self.me = me
        self.expiry_s = expiry_s
        self.refresh_s = refresh_s
        self.is_candidate = is_candidate
        self.leader: tuple[str, str] | None = None
        """Address and candidate text of the leader, as far as known."""
        self._self = (me, candidate)
        self._count = 0
        self._value: str | None = None
        self._since = 0.0
        self._looked: float | None = None
        self._refreshed: float | None = None
        self._dead: dict[str, float] = {}
        self._patient_until: float | None = None

    @property
    def leader_address(self) -> str | None:
        """Address of the leader, as far as known."""
        return None if self.leader is None else self.leader[0]

    @property
    def is_leader(self) -> bool:
        """Whether we lead, as far as we know."""
        return self.leader == self._self

    def presume_dead(self, address: str, now: float) -> None:
        """That address is dead; lapses after ``expiry_s``, as the address may be used again."""
        if address == self.me:
            return
        self._dead[address] = now + self.expiry_s
        if self.leader_address == address:
            self._patient_until = None

    def replaced(self, now: float) -> None:
        """The store is lost: what is looked at from now on is another one, or this one again,
        and the key may be void there."""
        self._value, self._since, self._looked = None, now, None
        self._patient_until = None
        if self.leader is None or self.is_leader:
            return
        if self._is_dead(now):
            self._dead[self.leader[0]] = now + self.expiry_s  # nobody can have taken its place
        else:
            self._patient_until = now + self.expiry_s

    def look(self, value: str | None, now: float) -> Swap | None:
        """The key holds ``value``, read just before ``now``; what to do about it."""
        if value != self._value:
            self._value, self._since = value, now
        elif self._looked is not None:
            # While we did not look ourselves, a stopped machine's say, we cannot know that
            # nothing was refreshed in time.
            self._since += max(0.0, now - self._looked - self.refresh_s)
        self._looked = now
        if value is None:
            return self._look_at_void(now)
        self._patient_until = None
        address, candidate = _parse(value)
        self.leader = (address, candidate)
        if self.is_leader:
            if not self.is_candidate:
                return Swap(value, None)
            if self._refreshed is None or now - self._refreshed >= self.refresh_s:
                return Swap(value, self._next(), is_refresh=True)
            return None
        has_expired = now - self._since >= self.expiry_s
        if self.is_candidate and (has_expired or self._is_dead(now)):
            return Swap(value, self._next())
        return None

    def won(self, swap: Swap, now: float) -> None:
        """The store has done what ``look`` asked for at ``now``."""
        self._value, self._since = swap.desired, now
        if swap.desired is None:
            self.leader = self._refreshed = None
        else:
            self.leader = self._self
            self._refreshed = now

    def next_look_s(self, now: float) -> float:
        """How long nothing needs to be looked at, if nobody wakes us."""
        pause_s = self.refresh_s
        if self.is_leader and self._refreshed is not None:
            pause_s = self._refreshed + self.refresh_s - now
        elif self._patient_until is not None:
            pause_s = min(pause_s, self._patient_until - now)
        elif self._value is not None and self.is_candidate:
            pause_s = min(pause_s, self._since + self.expiry_s - now)
        return max(SHORTEST_PAUSE_S, pause_s)

    def _look_at_void(self, now: float) -> Swap | None:
        if self._patient_until is not None and now < self._patient_until:
            return None
        self._patient_until = None
        if not self.is_leader or not self.is_candidate:
            self.leader = None
        return Swap(None, self._next()) if self.is_candidate else None

    def _is_dead(self, now: float) -> bool:
        return self.leader is not None and now < self._dead.get(self.leader[0], now)

    def _next(self) -> str:
        self._count += 1
        address, candidate = self._self
        return f"{address}|{candidate}|{self._count}"


def _parse(value: str) -> tuple[str, str]:
    address, _, rest = value.partition("|")
    return address, rest.partition("|")[0]

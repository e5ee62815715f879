"""Knowledge and decisions of one candidate in an election, without clock, store or thread."""

from __future__ import annotations

from dataclasses import dataclass

# Never 0: a time that has just passed must not make a busy loop.
SHORTEST_PAUSE_S = 0.001


@dataclass(frozen=True, slots=True)
class Swap:
    """Compare-and-swap that the store is to do."""

    expected: str | None
    desired: str | None
    """New value; None: erase the key."""
    is_refresh: bool = False


class ElectionState:
    """One candidate's view of the leader key (``Election``)."""

    def __init__(
        self, me: str, candidate: str, expiry_s: float, refresh_s: float, is_candidate: bool
    ) -> None:
        """Begin without knowledge of the key.

        Args:
            me: this worker's address.
            candidate: a text that only this candidate has, even if its address was used before.
            expiry_s: longest time that the key may go without a refresh.
            refresh_s: time between two refreshes, and between two looks.
            is_candidate: whether this worker may lead.

        Raises:
            ValueError: an argument is wrong; the text names all problems.
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
        """Address and candidate text of the leader, as far as this worker knows."""
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
        """Address of the leader, as far as this worker knows."""
        return None if self.leader is None else self.leader[0]

    @property
    def is_leader(self) -> bool:
        """Return whether this worker leads, as far as it knows."""
        return self.leader == self._self

    def presume_dead(self, address: str, now: float) -> None:
        """Take an address for dead for ``expiry_s``; after that it may be in use again."""
        # A worker that hears of its own death is alive.
        if address == self.me:
            return
        self._dead[address] = now + self.expiry_s
        if self.leader_address == address:
            # A dead leader claims no key, so a wait for its claim would be in vain.
            self._patient_until = None

    def replaced(self, now: float) -> None:
        """Forget the key's value, since the store is lost and the next may lack the key.

        A leader that is not known to be dead gets ``expiry_s`` to claim the key again.
        """
        self._value, self._since, self._looked = None, now, None
        self._patient_until = None
        if self.leader is None or self.is_leader:
            return
        if self._is_dead(now):
            self._dead[self.leader[0]] = now + self.expiry_s  # no worker can have replaced it
        else:
            self._patient_until = now + self.expiry_s

    def look(self, value: str | None, now: float) -> Swap | None:
        """Note that the key held ``value`` just before ``now``. Return the swap to ask for."""
        if value != self._value:
            self._value, self._since = value, now
        elif self._looked is not None:
            # The delay of a late look does not count towards expiry. If this machine was stopped,
            # say, the leader may have been stopped as well.
            self._since += max(0.0, now - self._looked - self.refresh_s)
        self._looked = now
        if value is None:
            return self._look_at_void(now)
        self._patient_until = None
        address, candidate = _parse(value)
        self.leader = (address, candidate)
        if self.is_leader:
            if not self.is_candidate:
                # The leader has resigned. With the key gone, the next leader follows at once.
                return Swap(value, None)
            if self._refreshed is None or now - self._refreshed >= self.refresh_s:
                return Swap(value, self._next(), is_refresh=True)
            return None
        has_expired = now - self._since >= self.expiry_s
        if self.is_candidate and (has_expired or self._is_dead(now)):
            return Swap(value, self._next())
        return None

    def won(self, swap: Swap, now: float) -> None:
        """Record that the store has done the swap that ``look`` asked for at ``now``."""
        self._value, self._since = swap.desired, now
        if swap.desired is None:
            self.leader = self._refreshed = None
        else:
            self.leader = self._self
            self._refreshed = now

    def next_look_s(self, now: float) -> float:
        """Return seconds until the key has to be read, unless a change of it is noticed earlier."""
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
        # A leader whose key has vanished goes on leading while it claims the key again.
        if not self.is_leader or not self.is_candidate:
            self.leader = None
        return Swap(None, self._next()) if self.is_candidate else None

    def _is_dead(self, now: float) -> bool:
        return self.leader is not None and now < self._dead.get(self.leader[0], now)

    def _next(self) -> str:
        # Every refresh is a new text: the others see only by a change that the leader lives.
        self._count += 1
        address, candidate = self._self
        return f"{address}|{candidate}|{self._count}"


def _parse(value: str) -> tuple[str, str]:
    address, _, rest = value.partition("|")
    return address, rest.partition("|")[0]

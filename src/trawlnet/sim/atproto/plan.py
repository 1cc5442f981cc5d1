"""The plan of a simulated world: how many accounts, on which hosts, with which habits."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from trawlnet.sim.habits import Habit

ACCOUNTS_AT_SCALE_1 = 200
_HOSTS_AT_SCALE_1 = 8
_HOSTS_EXPONENT = 0.58  # Scale 500: 100,000 accounts on about 300 hosts.
_HABIT_SHARE = 4  # One host in so many has a habit.
_POPULARITY_EXPONENT = 0.8  # A few hosts hold most of the accounts.

# The first of them come with the smallest worlds, so those a client can live with lead.
HABITS: tuple[Habit, ...] = (
    Habit.FLAPPING,
    Habit.DEAD,
    Habit.THROTTLE_RESET,
    Habit.SLOW,
    Habit.LYING,
    Habit.THROTTLE_RETRY_AFTER,
    Habit.SERVER_ERROR,
    Habit.TRUNCATING,
    Habit.THROTTLE_DATE,
    Habit.ENDLESS_CURSOR,
    Habit.REDIRECT_PRIVATE,
    Habit.THROTTLE_BARE,
    Habit.HUGE,
    Habit.BOMB,
    Habit.DRIP,
)


@dataclass(frozen=True, slots=True)
class SimHost:
    """One PDS."""

    index: int
    address: str
    port: int
    habit: Habit = Habit.GOOD

    @property
    def name(self) -> str:
        return f"{self.address}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.name}"

    @property
    def is_bound(self) -> bool:
        return self.habit is not Habit.DEAD

    @property
    def nameless_errors(self) -> bool:
        """Older servers say that a repository is not there in words only."""
        return self.index % 5 == 4

    @property
    def on_relay(self) -> bool:
        return self.index % 7 != 6

    @property
    def lists_by_collection(self) -> bool:
        """A few servers say which repositories have a collection; the reference is not of them."""
        return self.index % 6 == 5

    @property
    def has_web_account(self) -> bool:
        """Whether one of its accounts is a did:web, which no directory lists."""
        return self.index % 4 == 0 and self.habit is Habit.GOOD

    @property
    def web_did(self) -> str:
        return f"did:web:{self.address}%3A{self.port}"


@dataclass(frozen=True, slots=True)
class WorldPlan:
    seed: int
    accounts: int  # In the directory; did:web accounts come on top.
    hosts: Sequence[SimHost]
    largest_repo: int  # Records.
    popularity: Sequence[float]  # Cumulative shares of the hosts.

    def host_at(self, fraction: float) -> int:
        return min(bisect(self.popularity, fraction), len(self.hosts) - 1)


@dataclass(frozen=True, slots=True)
class Size:
    accounts: int
    hosts: int


def size_of(scale: float, accounts: int | None = None, hosts: int | None = None) -> Size:
    """Scale 1: 200 accounts on 8 hosts. Accounts grow with the scale, hosts more slowly."""
    if scale <= 0:
        raise ValueError(f"scale must be above 0, not {scale}")
    size = Size(
        accounts if accounts is not None else max(1, round(ACCOUNTS_AT_SCALE_1 * scale)),
        hosts if hosts is not None else max(2, round(_HOSTS_AT_SCALE_1 * scale**_HOSTS_EXPONENT)),
    )
    if size.accounts < 1 or not 1 <= size.hosts <= MOST_HOSTS:
        raise ValueError(f"at least 1 account and 1 to {MOST_HOSTS} hosts, not {size}")
    return size


_HOSTS_PER_BLOCK = 250
MOST_HOSTS = 255 * _HOSTS_PER_BLOCK


def address_block(seed: int) -> int:
    """Worlds of different seeds live on different loopback networks: 127.<block>.0.0/16."""
    return 1 + seed % 254


def default_port(seed: int) -> int:
    # Endpoints stand in signed operations, so a world repeats only if its port does. Below the
    # range from which the system takes ports for itself, it is most likely free.
    return 20_000 + seed * 7919 % 10_000


def make_plan(
    seed: int,
    size: Size,
    port: int,
    habits: Mapping[Habit, int] | Collection[Habit] = HABITS,
    largest_repo: int = 2000,
) -> WorldPlan:
    chosen = _habits_of_hosts(seed, size.hosts, habits)
    hosts = [SimHost(n, host_address(seed, n), port, chosen[n]) for n in range(size.hosts)]
    shares = list(accumulate((n + 1) ** -_POPULARITY_EXPONENT for n in range(size.hosts)))
    popularity = [share / shares[-1] for share in shares]
    return WorldPlan(seed, size.accounts, hosts, largest_repo, popularity)


def host_address(seed: int, index: int) -> str:
    block, rest = divmod(index, _HOSTS_PER_BLOCK)
    return f"127.{address_block(seed)}.{block}.{2 + rest}"


def _habits_of_hosts(
    seed: int, hosts: int, habits: Mapping[Habit, int] | Collection[Habit]
) -> list[Habit]:
    """A mapping says how many hosts have each habit; otherwise a share of the hosts goes through
    the habits in their order. The first host, which holds the most accounts, has none."""
    if isinstance(habits, Mapping):
        wanted = [habit for habit, count in habits.items() for _ in range(count)]
    else:
        order = list(habits)
        wanted = [order[n % len(order)] for n in range(hosts // _HABIT_SHARE if order else 0)]
    if len(wanted) >= hosts:
        raise ValueError(f"{len(wanted)} hosts with habits need more than {hosts} hosts")
    chosen = [Habit.GOOD] * hosts
    places = random.Random(f"{seed}/habits").sample(range(1, hosts), len(wanted))
    for place, habit in zip(places, wanted, strict=True):
        chosen[place] = habit
    return chosen

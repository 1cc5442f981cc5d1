"""Accounts of a simulated world: everything about number i follows from the seed and i."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import TypeVar

from trawlnet.sim.atproto.keyring import QuickKey
from trawlnet.sim.atproto.plan import WorldPlan

Choice = TypeVar("Choice")


class AccountStatus(StrEnum):
    ACTIVE = "active"
    DEACTIVATED = "deactivated"
    TAKENDOWN = "takendown"
    SUSPENDED = "suspended"
    DELETED = "deleted"  # Its server knows nothing of it; the directory still does.
    TOMBSTONED = "tombstoned"  # Nor does the directory.
    JUNK = "junk"  # The directory names something that is no server.


class Story(StrEnum):
    """How an account's directory entry came to be what it is."""

    PLAIN = "plain"
    LEGACY = "legacy"  # One operation, of the oldest kind.
    LEGACY_UPDATED = "legacy_updated"
    MOVED = "moved"  # From another server.
    ROTATED = "rotated"  # To another signing key.
    RECOVERED = "recovered"  # A hijack was undone.
    REVIVED = "revived"  # A tombstone was undone.
    BURIED = "buried"  # Ends with a tombstone.
    UNLISTED = "unlisted"  # A did:web: no entry at all.


class Persona(StrEnum):
    """What kind of records an account has."""

    LURKER = "lurker"
    POSTER = "poster"
    SCHOLAR = "scholar"
    TINKERER = "tinkerer"
    ODD = "odd"  # One of everything that trips a parser.


@dataclass(frozen=True, slots=True)
class Account:
    index: int
    host: int
    former_host: int | None  # Where it lived before it moved; that server still knows it.
    status: AccountStatus
    story: Story
    persona: Persona
    records: int  # Besides the odd ones.
    keys: tuple[QuickKey, ...]  # Signing, former signing, recovery, server's rotation.
    luck: float  # In 0..1, for whatever else is left to chance.
    changed_ms: int | None = None  # When its directory entry did, if that was while it is served.

    @property
    def handle(self) -> str:
        return f"user{self.index}.test"

    @property
    def created_ms(self) -> int:
        return created_ms(self.index)

    @property
    def lives_on_host(self) -> bool:
        """Whether its server would list it, in whatever state."""
        return self.status not in (
            AccountStatus.DELETED,
            AccountStatus.TOMBSTONED,
            AccountStatus.JUNK,
        )


def created_ms(index: int) -> int:
    """No two accounts come at the same time."""
    return FIRST_DAY_MS + index * _ARRIVAL_MS


FIRST_DAY_MS = 1_672_531_200_000  # 2023-01-01
_ARRIVAL_MS = 7_001  # Between one account and the next.

_STATUSES = (
    (AccountStatus.ACTIVE, 0.88),
    (AccountStatus.DEACTIVATED, 0.04),
    (AccountStatus.TAKENDOWN, 0.02),
    (AccountStatus.SUSPENDED, 0.02),
    (AccountStatus.DELETED, 0.02),
    (AccountStatus.TOMBSTONED, 0.015),
    (AccountStatus.JUNK, 0.005),
)
_STORIES = (
    (Story.PLAIN, 0.76),
    (Story.LEGACY, 0.08),
    (Story.LEGACY_UPDATED, 0.02),
    (Story.MOVED, 0.06),
    (Story.ROTATED, 0.04),
    (Story.RECOVERED, 0.02),
    (Story.REVIVED, 0.02),
)
_PERSONAS = (
    (Persona.LURKER, 0.50),
    (Persona.POSTER, 0.32),
    (Persona.SCHOLAR, 0.08),
    (Persona.TINKERER, 0.05),
    (Persona.ODD, 0.05),
)
# In any world of twice this size, these accounts show every status once, whatever the seed.
_SHOWCASE = tuple(status for status, _ in _STATUSES)
_SHOWCASE_FROM = 10
_EMPTY_SHARE = 0.02
_LARGE_ACCOUNT = 3  # One account is large in every world ...
_LARGE_RECORDS = 1200  # ... with so many records, unless the world's limit is lower.
_TYPICAL_RECORDS = 3.0
_TAIL_EXPONENT = 0.75  # The mean is four times the typical, the largest far beyond.


def account_at(plan: WorldPlan, keyring: tuple[QuickKey, ...], index: int) -> Account:
    chance = _chances(plan.seed, index)
    status = _status(index, chance[0])
    story = _story(status, chance[1])
    host = plan.host_at(chance[2])
    key = int(chance[3] * len(keyring))
    return Account(
        index=index,
        host=host,
        former_host=_other_host(plan, host, chance[4]) if story is Story.MOVED else None,
        status=status,
        story=story,
        persona=_pick(_PERSONAS, chance[5]),
        records=_record_count(plan, index, chance[6]),
        keys=(
            keyring[key],
            keyring[(key + 1) % len(keyring)],
            # Never the server's own: the one must outrank the other.
            keyring[(host + 5) % len(keyring)],
            keyring[host % len(keyring)],
        ),
        luck=chance[7],
    )


def web_account_at(
    plan: WorldPlan, keyring: tuple[QuickKey, ...], index: int, host: int
) -> Account:
    chance = _chances(plan.seed, index)
    key = keyring[int(chance[3] * len(keyring))]
    records = _record_count(plan, index, chance[6])
    persona = _pick(_PERSONAS, chance[5])
    keys = (key,) * 4
    return Account(
        index, host, None, AccountStatus.ACTIVE, Story.UNLISTED, persona, records, keys, chance[7]
    )


def _chances(seed: int, index: int) -> list[float]:
    digest = blake2b(f"{seed}/{index}".encode(), digest_size=64).digest()
    return [int.from_bytes(digest[at : at + 8], "big") / 2**64 for at in range(0, 64, 8)]


def _pick(table: tuple[tuple[Choice, float], ...], chance: float) -> Choice:
    for choice, share in table:
        chance -= share
        if chance < 0.0:
            return choice
    return table[0][0]


def _status(index: int, chance: float) -> AccountStatus:
    shown = index - _SHOWCASE_FROM
    return _SHOWCASE[shown] if 0 <= shown < len(_SHOWCASE) else _pick(_STATUSES, chance)


def _story(status: AccountStatus, chance: float) -> Story:
    if status is AccountStatus.TOMBSTONED:
        return Story.BURIED
    # Readers would repair junk in the oldest kind of operation.
    return Story.PLAIN if status is AccountStatus.JUNK else _pick(_STORIES, chance)


def _other_host(plan: WorldPlan, host: int, chance: float) -> int | None:
    other = plan.host_at(chance)
    if other == host:
        other = (host + 1) % len(plan.hosts)
    return other if other != host else None


def _record_count(plan: WorldPlan, index: int, chance: float) -> int:
    if index == _LARGE_ACCOUNT:
        return min(_LARGE_RECORDS, plan.largest_repo)
    if chance < _EMPTY_SHARE:
        return 0
    return min(int(_TYPICAL_RECORDS * (1.0 - chance) ** -_TAIL_EXPONENT), plan.largest_repo)

"""The relay's firehose: what the servers tell, merged under numbers of its own, and spoilt in as
many ways as a relay may spoil it."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import libipld

from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.sim.atproto.live.event_log import FirehoseLog, LoggedEvent
from trawlnet.sim.repository.car import CarBlock, header_end, read_frames, write_car
from trawlnet.sim.repository.commit import Commit

Payload = dict[str, Any]


class Mischief(StrEnum):
    DROP = "drop"  # A message is left out.
    REPEAT = "repeat"  # A message is sent twice.
    SWAP = "swap"  # Two messages change places.
    REWIND = "rewind"  # An old message is sent again under a new number.
    GAP = "gap"  # Numbers are left out.
    OMIT_OP = "omit_op"  # A commit does not tell of one of its changes.
    WRONG_PREV = "wrong_prev"  # A commit claims another tree before it.
    NO_PREV = "no_prev"  # A commit does not say which tree was before it.
    FORGE = "forge"  # The signature is another's.
    STRANGER = "stranger"  # A message of a kind that nobody knows.


@dataclass(frozen=True, slots=True)
class Spoiler:
    """Which mischief, and how often; a share of 0 is an honest relay."""

    share: float = 0.0
    kinds: Collection[Mischief] = tuple(Mischief)


HONEST = Spoiler()


class RelayStream:
    """Listens to the logs of the servers that the relay follows."""

    def __init__(self, seed: int, spoiler: Spoiler = HONEST) -> None:
        self.log = FirehoseLog(first=1_000_000)
        self._chance = random.Random(f"{seed}/relay")
        self._spoiler = spoiler
        self._held: LoggedEvent | None = None  # Its place is behind the next one.
        self._past: list[LoggedEvent] = []

    def listen(self, log: FirehoseLog) -> None:
        log.listeners.append(self._hear)

    def _hear(self, event: LoggedEvent) -> None:
        if event.kind == "#account" and event.payload.get("status") == "deleted":
            self.log.erase(event.did)
        self._past = [*self._past[-99:], event]
        if self._chance.random() >= self._spoiler.share or not self._spoiler.kinds:
            self._tell(event)
            return
        kind = self._chance.choice(sorted(self._spoiler.kinds))
        self._spoil(kind, event)

    def _spoil(self, kind: Mischief, event: LoggedEvent) -> None:
        match kind:
            case Mischief.DROP:
                return
            case Mischief.REPEAT:
                self._tell(event)
                self._tell(event)
            case Mischief.SWAP if self._held is None:
                self._held = event
            case Mischief.REWIND:
                self._tell(self._chance.choice(self._past))
                self._tell(event)
            case Mischief.GAP:
                self.log.skip(1 + int(self._chance.random() * 50))
                self._tell(event)
            case Mischief.STRANGER:
                self.log.add(event.did, "#unheard", {"did": event.did, "time": "", "odd": [1, {}]})
                self._tell(event)
            case _ if event.kind == "#commit" and kind in _COMMIT_LIES:
                lie = _COMMIT_LIES[kind](dict(event.payload), self._chance)
                self._tell(LoggedEvent(event.seq, event.did, event.kind, lie))
            case _:
                self._tell(event)

    def _tell(self, event: LoggedEvent) -> None:
        self.log.add(event.did, event.kind, event.payload)
        if (held := self._held) is not None:
            self._held = None
            self.log.add(held.did, held.kind, held.payload)


def _omit_op(payload: Payload, chance: random.Random) -> Payload:
    ops = list(payload["ops"])
    if ops:
        del ops[chance.randrange(len(ops))]
    return {**payload, "ops": ops}


def _wrong_prev(payload: Payload, chance: random.Random) -> Payload:
    return {**payload, "prevData": payload["commit"]}


def _no_prev(payload: Payload, chance: random.Random) -> Payload:
    return {name: value for name, value in payload.items() if name != "prevData"}


def _forge(payload: Payload, chance: random.Random) -> Payload:
    """Every hash is right; only the signature is not the account's."""
    car, head = payload["blocks"], payload["commit"]
    blocks = [
        CarBlock(frame.cid, car[frame.start : frame.end])
        for frame in read_frames(car, header_end(car))
    ]
    fields = libipld.decode_dag_cbor(dict(blocks)[head])
    forged = Commit(fields["did"], Cid(fields["data"]), fields["rev"], None, chance.randbytes(64))
    commit = CarBlock(cid_of(forged.encode()), forged.encode())
    blocks = [commit if block.cid == head else block for block in blocks]
    return {**payload, "commit": commit.cid, "blocks": write_car([commit.cid], blocks)}


_COMMIT_LIES: Mapping[Mischief, Callable[[Payload, random.Random], Payload]] = {
    Mischief.OMIT_OP: _omit_op,
    Mischief.WRONG_PREV: _wrong_prev,
    Mischief.NO_PREV: _no_prev,
    Mischief.FORGE: _forge,
}

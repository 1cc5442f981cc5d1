"""Which operations of a DID stand: worked out from links alone, as the numbered export needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class ChainLink(NamedTuple):
    """One operation as a link of its DID's chain."""

    cid: str
    prev: str  # Empty for a first operation.
    order: int  # Its place in the directory's log: a sequence number or an instant.
    nullified: bool = False  # Already known to be undone.


@dataclass(frozen=True, slots=True)
class Chain:
    head: str  # CID of the operation that counts; empty when none does.
    nullified: frozenset[str]  # CIDs of operations that later ones undid.
    orphans: int  # Operations whose predecessor is missing.


def fold_links(links: Iterable[ChainLink]) -> Chain:
    """Follow the chain in the order of the log; one that goes back undoes all that came after.

    An operation whose predecessor is unknown is believed: the directory checked it, we only missed
    a line. One that follows an undone operation is undone with it."""
    known = {link.cid: link for link in links}
    depths: dict[str, int] = {}
    alive: list[str] = []
    undone = {link.cid for link in known.values() if link.nullified}
    orphans = 0
    for link in sorted(known.values(), key=lambda one: (one.order, _depth(one, known, depths))):
        if link.cid in undone:
            continue
        if link.prev in alive:
            place = alive.index(link.prev) + 1
        elif link.prev in undone:
            undone.add(link.cid)
            continue
        else:
            orphans += bool(link.prev)
            place = 0 if not link.prev else len(alive)
        undone.update(alive[place:])
        alive[place:] = [link.cid]
    return Chain(alive[-1] if alive else "", frozenset(undone), orphans)


def _depth(link: ChainLink, known: Mapping[str, ChainLink], depths: dict[str, int]) -> int:
    """How many links lie before it: tells the order of operations that share an instant."""
    path = []
    at: ChainLink | None = link
    while at is not None and at.cid not in depths:
        path.append(at.cid)
        depths[at.cid] = 0  # A circle ends here.
        at = known.get(at.prev)
    depth = depths[at.cid] if at is not None else -1
    for cid in reversed(path):
        depth += 1
        depths[cid] = depth
    return depths[link.cid]

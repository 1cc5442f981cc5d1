"""From the records of an archive back to CIDs, tree and root: in C where that was built, else in
plain Python."""

from __future__ import annotations

from collections.abc import Sequence

from trawlnet.archive.format import proving_plain
from trawlnet.archive.format.proving_plain import CollectionEntries, Recomputed, Unprovable
from trawlnet.native.loader import native as _native


def recompute(
    collections: Sequence[CollectionEntries],
    exceptions: bytes,
    *,
    digests: bool = False,
    car: bool = False,
) -> Recomputed:
    """`collections` come in the order of the tree. Raises Unprovable."""
    if _native is None:
        return proving_plain.recompute(collections, exceptions, digests=digests, car=car)
    result = _native.prove(tuple(collections), exceptions, digests, car)
    if result[0] is not None:
        raise Unprovable(*result)
    return Recomputed(*result[1:])

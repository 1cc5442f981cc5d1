"""Read an archive with the standard library and zstd alone, all of it in memory:

    python examples/read_rca2.py archive          proves each repository as it is now
    python examples/read_rca2.py archive DID      prints its records, as `repos cat` does
Damage, unusual commits and odd trees are left to `repos verify`.
"""

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from struct import unpack_from
from typing import NamedTuple
from zlib import crc32

import zstandard

from curves import is_signed, number
from repo_tree import CID, cbor, cid_of, commit, height, root

FULL, DELTA = 1, 2  # Forms of a block; 0 is that of version 1.
OWN_BYTES, LEFT_OUT, SUBTREE, COMMIT, NODE, DELETED, UNSEEN = range(1, 8)  # Kinds of exceptions.


class Block(NamedTuple):
    at_us: int  # When it was crawled,
    place: tuple  # and where it is: of two blocks the later one counts.
    form: int
    did: bytes
    rev: bytes
    since: bytes
    collections: list  # Name, number of records, frame.
    proof: bytes


class Leaf(NamedTuple):
    path: bytes  # None for a node of the tree of which no more is known than its hash.
    json: bytes = None  # None for a record that is not in the archive.
    own: bytes = None  # The DAG-CBOR, if the JSON does not give it; the CID of what is not there.


def text(data, at, mask=0xFFFF):
    end = at + 2 + (number(data[at : at + 2], "little") & mask)
    return data[at + 2 : end], end


def unpacked(frame):
    return zstandard.ZstdDecompressor().decompressobj().decompress(frame) if frame else b""


def blocks(segment, data):
    footer = number(data[-32:-24], "little") if data.endswith(b"REPOARCH") else len(data)
    end, start = number(data[24:32], "little") or footer, 64
    while start < end:
        block = data[start : start + (size := number(data[start : start + 4], "little"))]
        if len(block) < size:
            return  # Its writer was killed.
        form, (did, at), since = block[5] >> 4, text(block, 4, 0x0FFF), b""
        _pds, at = text(block, at)
        rev, at = text(block, at)
        if form == DELTA:
            since, at = text(block, at)
        (at_us, count, crc), at, rows = unpack_from("<qHI", block, at), at + 14, []
        if crc != crc32(block[at:], crc32(block[: at - 4]) if form else 0):
            raise SystemExit(f"{segment} is damaged at {start}")
        for _ in range(count):
            name, at = text(block, at)
            rows, at = [*rows, (name, *unpack_from("<II", block, at))], at + 8
        at, found = at + (4 if form else 0), []
        for name, records, packed in rows:
            found, at = [*found, (name, records, block[at : at + packed])], at + packed
        yield Block(at_us, (len(segment), segment, start), form, did, rev, since, found, block[at:])
        start += size


def exceptions(data):
    at = place = 0
    while at < len(data):
        (kind, skip), at = unpack_from("<BI", data, at), at + 5
        place, path = place + skip, None
        if kind in (LEFT_OUT, DELETED):
            path, at = text(data, at)
        size = {LEFT_OUT: 1, SUBTREE: 0, DELETED: 0, UNSEEN: 0}.get(kind, 4)
        end = at + size + (33 if kind == SUBTREE else number(data[at : at + size], "little"))
        yield kind, place, path, data[at + size : end]
        at, place = end, place + (kind == OWN_BYTES)


def contents(block):
    """Leaves in the order of the tree, and all exceptions."""
    sums = 16 * -(-sum(records for _, records, _ in block.collections) // 256)
    odd, leaves = list(exceptions(unpacked(block.proof[98 + sums :]))), []
    own = {place: data for kind, place, _, data in odd if kind == OWN_BYTES}
    for name, count, frame in sorted(block.collections, key=lambda one: one[0] + b"/"):
        entries, at = unpacked(frame), 0
        for _ in range(count):
            rkey, at = text(entries, at)
            end = at + 4 + number(entries[at : at + 4], "little")
            leaves.append(Leaf(name + b"/" + rkey, entries[at + 4 : end], own.get(len(leaves))))
            at = end
    for kind, place, path, data in reversed(odd):
        if kind in (LEFT_OUT, SUBTREE):
            leaves.insert(place, Leaf(path, None, data))
    return leaves, odd


def lineage(found, gone_us):
    """The blocks of one DID that count: a full one, and the deltas that lead on from it."""
    alive = sorted(one for one in found if one.at_us > gone_us)
    chain = [one for one in alive if one.form != DELTA][-1:]
    deltas = [one for one in alive if one.form == DELTA and chain and chain[0].form == FULL]
    for one in sorted(deltas, key=lambda one: one.rev):
        is_behind = one.at_us > chain[0].at_us or one.place > chain[0].place
        if is_behind and one.since <= chain[-1].rev < one.rev:
            chain.append(one)
    return chain


def fold(chain):
    """Leaves behind the last delta, and whether they are all that its commit signs."""
    leaves, odd = contents(chain[0])
    kinds = seen = {kind for kind, *_ in odd}
    for delta in chain[1:]:
        changes, odd = contents(delta)
        deleted = {path for kind, _, path, _ in odd if kind == DELETED}
        state = {leaf.path: leaf for leaf in leaves if leaf.path not in deleted | {None}}
        leaves = sorted((state | {leaf.path: leaf for leaf in changes}).values())
        kinds = {kind for kind, *_ in odd}
        seen = seen | kinds
    is_pruned = UNSEEN in seen or (len(chain) > 1 and SUBTREE in seen)
    return leaves, not is_pruned and not kinds & {COMMIT, NODE}


def prove(chain):
    (leaves, is_whole), last = fold(chain), chain[-1]
    key, signature = last.proof[:34], last.proof[34:98]
    if not is_whole or not any(key):
        return ("not proven here",)
    unsigned, name = commit(last.did, last.rev, root(map(entry, leaves)), signature)
    return ("proven" if is_signed(unsigned, key, signature) else "not what was signed"), name


def entry(leaf):
    """Layer, path and CID in the tree."""
    if leaf.path is None:
        return leaf.own[0], None, CID + leaf.own[1:]
    if leaf.json is None:
        return height(leaf.path), leaf.path, leaf.own
    return height(leaf.path), leaf.path, cid_of(leaf.own or cbor(json.loads(leaf.json)))


def tombstones(path):
    epoch, last = datetime.fromtimestamp(0, UTC), {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError, KeyError, TypeError):
            row = json.loads(line)
            at_us = (datetime.fromisoformat(row["at"]) - epoch) // timedelta(microseconds=1)
            last[row["did"]] = max(at_us, last.get(row["did"], at_us))
    return last


def repositories(folder):
    gone, found = tombstones(folder / "tombstones.jsonl"), {}
    for path in folder.glob("*.rca"):
        for block in blocks(path.name, path.read_bytes()):
            found.setdefault(block.did.decode(), []).append(block)
    chains = {did: lineage(some, gone.get(did, -1)) for did, some in found.items()}
    return {did: chain for did, chain in sorted(chains.items()) if chain}


def cat(did, chain):
    shown = [(*leaf.path.decode().split("/"), leaf.json) for leaf in fold(chain)[0] if leaf.json]
    for name, rkey, record in sorted(shown):
        names = f'"did":"{did}","collection":"{name}","rkey":"{rkey}"'
        print(f'{{{names},"value":{record.decode()}}}')


if __name__ == "__main__":
    for did, chain in repositories(Path(sys.argv[1])).items():
        if not sys.argv[2:]:
            print(did, *prove(chain))
        elif did in sys.argv[2:]:
            cat(did, chain)

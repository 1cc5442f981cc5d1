"""Prove each repository of a segment of version 2 with the standard library and zstd alone:

    python examples/read_rca2.py archive/segment_0001.rca
Deltas, unusual commits and odd trees are left to `repos verify`.
"""

import json
import sys
from base64 import b32decode, b32encode, b64decode
from hashlib import sha256
from pathlib import Path
from struct import unpack_from

import zstandard

from curves import height, is_signed, number

CID = b"\x01\x71\x12\x20"  # Before every digest: CIDv1, DAG-CBOR, SHA-256, 32 bytes.


def head(major, n):
    size = next(size for size in (0, 1, 2, 4, 8) if n < (1 << 8 * size if size else 24))
    info = n if not size else 23 + size.bit_length()
    return bytes([major << 5 | info]) + (n.to_bytes(size, "big") if size else b"")


def link(cid):
    return b"\xd8\x2a" + head(2, len(cid) + 1) + b"\0" + cid if cid else b"\xf6"


def cbor(value):
    match value:
        case None | bool():
            return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
        case int():
            return head(0, value) if value >= 0 else head(1, -1 - value)
        case str():
            return head(3, len(value.encode())) + value.encode()
        case list():
            return head(4, len(value)) + b"".join(map(cbor, value))
        case {"$link": text, **more} if not more:
            return link(b32decode(text[1:].upper() + "=" * (-len(text[1:]) % 8)))
        case {"$bytes": text, **more} if not more:
            raw = b64decode(text + "==")
            return head(2, len(raw)) + raw
    items = sorted((len(key.encode()), key, item) for key, item in value.items())
    return head(5, len(items)) + b"".join(cbor(key) + cbor(item) for _, key, item in items)


def node(left, entries):
    out, before = b"\xa2\x61e" + head(4, len(entries)), b""
    for key, cid, subtree in entries:
        shares = [a == b for a, b in zip(before, key, strict=False)]
        same = [*shares, False].index(False)
        out += b"\xa4\x61k" + head(2, len(key) - same) + key[same:] + b"\x61p" + head(0, same)
        out, before = out + b"\x61t" + link(subtree) + b"\x61v" + link(cid), key
    return CID + sha256(out + b"\x61l" + link(left)).digest()


def tree(leaves, layer):
    """Of leaves (layer, key, CID), or (layer, None, CID) for a whole node."""
    if not leaves or (len(leaves) == 1 and leaves[0][:2] == (layer, None)):
        return leaves[0][2] if leaves else None
    parts, entries = [[]], []
    for leaf in leaves:
        if leaf[0] == layer and leaf[1] is not None:
            entries.append(leaf)
            parts.append([])
        else:
            parts[-1].append(leaf)
    left, *right = (tree(part, layer - 1) for part in parts)
    pairs = zip(entries, right, strict=True)
    return node(left, [(key, cid, below) for (_, key, cid), below in pairs])


def exceptions(data):
    at = place = 0
    while at < len(data):
        (kind, skip), at = unpack_from("<BI", data, at), at + 5
        place, path = place + skip, b""
        if kind == 2:
            path, at = text(data, at)
        size = {2: 1, 3: 0}.get(kind, 4)
        end = at + size + (33 if kind == 3 else number(data[at : at + size], "little"))
        yield kind, place, path, data[at + size : end]
        at, place = end, place + (kind == 1)


def text(data, at, mask=0xFFFF):
    end = at + 2 + (number(data[at : at + 2], "little") & mask)
    return data[at + 2 : end], end


def unpacked(frame):
    return zstandard.ZstdDecompressor().decompressobj().decompress(frame) if frame else b""


def prove(did, rev, collections, proof):
    records = sum(count for _, count, _ in collections)
    odd = list(exceptions(unpacked(proof[98 + 16 * -(-records // 256) :])))
    own = {place: data for kind, place, _, data in odd if kind == 1}
    leaves = []
    for name, count, frame in sorted(collections, key=lambda one: one[0] + b"/"):
        entries, at = unpacked(frame), 0
        for _ in range(count):
            rkey, at = text(entries, at)
            end = at + 4 + number(entries[at : at + 4], "little")
            record = own.get(len(leaves)) or cbor(json.loads(entries[at + 4 : end]))
            key, at = name + b"/" + rkey, end
            leaves.append((height(key), key, CID + sha256(record).digest()))
    for kind, place, path, data in reversed([one for one in odd if one[0] in (2, 3)]):
        leaf = (data[0], None, CID + data[1:]) if kind == 3 else (height(path), path, data)
        leaves.insert(place, leaf)
    root = tree(leaves, max((leaf[0] for leaf in leaves), default=0)) or node(None, [])
    texts = b"\x63did" + cbor(did.decode()) + b"\x63rev" + cbor(rev.decode())
    rest = b"\x64data" + link(root) + b"\x64prev\xf6\x67version\x03"
    commit = b"\xa6" + texts + b"\x63sig\x58\x40" + proof[34:98] + rest
    usual = proof[0] and all(kind < 4 for kind, *_ in odd)
    proven = usual and is_signed(b"\xa5" + texts + rest, proof[:34], proof[34:98])
    name = b32encode(CID + sha256(commit).digest()).decode().lower().rstrip("=")
    return ("proven" if proven else "not proven here"), "b" + name


def blocks(data):
    end, at = number(data[24:32], "little") or len(data), 64
    while at < end:
        block = data[at : at + number(data[at : at + 4], "little")]
        at += len(block)
        did, place = text(block, 4, 0x0FFF)
        _pds, place = text(block, place)
        rev, place = text(block, place)
        if block[5] >> 4 != 1:
            continue
        (count,), place, rows = unpack_from("<H", block, place + 8), place + 14, []
        for _ in range(count):
            name, place = text(block, place)
            rows, place = [*rows, (name, *unpack_from("<II", block, place))], place + 8
        place, found = place + 4, []
        for name, records, size in rows:
            found.append((name, records, block[place : place + size]))
            place += size
        yield did, rev, found, block[place:]


if __name__ == "__main__":
    for one in blocks(Path(sys.argv[1]).read_bytes()):
        print(one[0].decode(), *prove(*one))

"""What a repository is made of: records as DAG-CBOR, the tree that names them, its commit."""

from base64 import b32decode, b32encode, b64decode
from hashlib import sha256

from curves import number

CID = b"\x01\x71\x12\x20"  # Before every digest: CIDv1, DAG-CBOR, SHA-256, 32 bytes.


def cid_of(data):
    return CID + sha256(data).digest()


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
    return cid_of(out + b"\x61l" + link(left))


def height(key):
    """The layer of a key in the tree: half of the zero bits that its hash begins with."""
    return (256 - number(sha256(key).digest()).bit_length()) // 2


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


def root(entries):
    leaves = list(entries)
    return tree(leaves, max((leaf[0] for leaf in leaves), default=0)) or node(None, [])


def commit(did, rev, data, signature):
    """What the signature covers, and the CID of the whole."""
    texts = b"\x63did" + cbor(did.decode()) + b"\x63rev" + cbor(rev.decode())
    rest = b"\x64data" + link(data) + b"\x64prev\xf6\x67version\x03"
    whole = cid_of(b"\xa6" + texts + b"\x63sig\x58\x40" + signature + rest)
    return b"\xa5" + texts + rest, "b" + b32encode(whole).decode().lower().rstrip("=")

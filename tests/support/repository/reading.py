"""A repository read from a CAR, and believed if true: header, commit, tree and records."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.support.repository.cbor_decoder import decode
from trawlnet.atproto.cid import Cid, matches, parse_cid
from trawlnet.atproto.dagcbor import Value
from trawlnet.atproto.identity.keys import PublicKey
from trawlnet.atproto.syntax import is_did, is_tid, split_path
from trawlnet.atproto.varint import read_varint
from trawlnet.malformed import Malformed
from trawlnet.sim.repository.car import read_frames
from trawlnet.sim.repository.commit import VERSION, Commit
from trawlnet.sim.repository.mst import common_prefix, key_height

_DEEPEST = 128  # As in DAG-CBOR.


class RepoRecord(NamedTuple):
    collection: str
    rkey: str
    cid: Cid
    data: bytes  # DAG-CBOR, not looked into.


@dataclass(frozen=True, slots=True)
class VerifiedRepo:
    commit: Commit
    blocks: Mapping[Cid, bytes]

    def records(self) -> Iterator[RepoRecord]:
        """In path order. Raises Malformed where the tree is broken or a block is missing."""
        for key, cid in walk_tree(self.commit.data, self._load):
            try:
                collection, rkey = split_path(key.decode())
            except UnicodeDecodeError:
                raise Malformed("a tree key that is not UTF-8") from None
            yield RepoRecord(collection, rkey, cid, self._load(cid))

    def _load(self, cid: Cid) -> bytes:
        try:
            return self.blocks[cid]
        except KeyError:
            raise Malformed(f"block {cid} is missing") from None


def verify_repo(car: bytes, did: str, key: PublicKey) -> VerifiedRepo:
    """Read a CAR: every block's hash, the commit's owner and its signature are checked here, the
    tree while its records are walked."""
    header = read_header(car)
    if not header.roots:
        raise Malformed("a CAR without a root")
    blocks: dict[Cid, bytes] = {}
    for frame in read_frames(car, header.end):
        data = car[frame.start : frame.end]
        if not matches(frame.cid, data):
            raise Malformed(f"block at {frame.at} is not what its CID names")
        blocks[frame.cid] = data
    if header.roots[0] not in blocks:
        raise Malformed("the commit is missing")
    commit = parse_commit(blocks[header.roots[0]])
    if commit.did != did:
        raise Malformed(f"a repository of {commit.did[:80]}, asked for {did}")
    if not commit.signed_by(key):
        raise Malformed("the commit's signature is not that of the account's key")
    return VerifiedRepo(commit, blocks)


@dataclass(frozen=True, slots=True)
class CarHeader:
    roots: Sequence[Cid]
    end: int  # Where the first frame starts.


def read_header(car: bytes) -> CarHeader:
    size, start = read_varint(car, 0)
    end = start + size
    if end > len(car):
        raise Malformed("CAR header is cut off")
    header = decode(car[start:end])
    if not isinstance(header, dict) or header.get("version") != 1:
        raise Malformed("CAR header is not of version 1")
    roots = header.get("roots")
    if not isinstance(roots, list) or not all(isinstance(root, Cid) for root in roots):
        raise Malformed("CAR header has no list of roots")
    return CarHeader(roots, end)


def parse_commit(block: bytes) -> Commit:
    value = decode(block)
    if not isinstance(value, dict):
        raise Malformed("a commit that is not a map")
    if value.get("version") != VERSION:
        raise Malformed(f"a commit of version {str(value.get('version'))[:20]}, expected {VERSION}")
    if value.keys() != {"did", "version", "data", "rev", "prev", "sig"}:
        # A field that we would not write back would make the signature fail without saying why.
        raise Malformed(f"a commit with the fields {', '.join(sorted(value))[:200]}")
    did, data, rev, prev, sig = (value[name] for name in ("did", "data", "rev", "prev", "sig"))
    if not isinstance(did, str) or not is_did(did):
        raise Malformed("a commit whose did is not a DID")
    if not isinstance(rev, str) or not is_tid(rev):
        raise Malformed("a commit whose rev is not a TID")
    if not isinstance(data, Cid) or not (prev is None or isinstance(prev, Cid)):
        raise Malformed("a commit whose data or prev is not a link")
    if not isinstance(sig, bytes):
        raise Malformed("a commit whose sig is not bytes")
    return Commit(did, data, rev, prev, sig)


@dataclass(frozen=True, slots=True)
class TreeNode:
    left: Cid | None
    entries: Sequence[TreeEntry]


@dataclass(frozen=True, slots=True)
class TreeEntry:
    key: bytes
    value: Cid
    right: Cid | None


def walk_tree(root: Cid, load: Callable[[Cid], bytes]) -> Iterator[tuple[bytes, Cid]]:
    """Every key and value in order. Raises Malformed at the first rule the tree breaks; `load`
    raises whatever it likes for a block that is not there."""
    node = parse_node(load(root))
    if not node.entries:
        if node.left is not None:
            raise Malformed("the top of the tree is a bare pointer")
        return
    before = b""
    for key, value in _walk(node, key_height(node.entries[0].key), load):
        if before and key <= before:
            raise Malformed("tree keys are repeated or out of order")
        before = key
        yield key, value


def _walk(node: TreeNode, level: int, load: Callable[[Cid], bytes]) -> Iterator[tuple[bytes, Cid]]:
    if node.left is not None:
        yield from _walk_below(node.left, level, load)
    for entry in node.entries:
        if key_height(entry.key) != level:
            raise Malformed(f"a key of height {key_height(entry.key)} on level {level}")
        yield entry.key, entry.value
        if entry.right is not None:
            yield from _walk_below(entry.right, level, load)


# A level can only fall, and the first key's hash bounds it: no cycle, no endless depth.
def _walk_below(cid: Cid, level: int, load: Callable[[Cid], bytes]) -> Iterator[tuple[bytes, Cid]]:
    if level == 0:
        raise Malformed("a subtree below the leaves")
    node = parse_node(load(cid))
    if not node.entries and node.left is None:
        raise Malformed("an empty node below the top")
    yield from _walk(node, level - 1, load)


def parse_node(data: bytes) -> TreeNode:
    value = decode(data)
    if not isinstance(value, dict) or value.keys() != {"e", "l"}:
        raise Malformed("a tree node must have the fields e and l, no others")
    left, rows = value["l"], value["e"]
    if not isinstance(rows, list) or not (left is None or isinstance(left, Cid)):
        raise Malformed("a tree node with fields of the wrong type")
    entries: list[TreeEntry] = []
    before = b""
    for row in rows:
        entries.append(_parse_entry(row, before, first=not entries))
        before = entries[-1].key
    return TreeNode(left, entries)


def _parse_entry(row: object, before: bytes, *, first: bool) -> TreeEntry:
    if not isinstance(row, dict) or row.keys() != {"k", "p", "t", "v"}:
        raise Malformed("a tree entry must have the fields k, p, t and v, no others")
    suffix, shared, right, value = row["k"], row["p"], row["t"], row["v"]
    if type(shared) is not int or not isinstance(suffix, bytes) or not isinstance(value, Cid):
        raise Malformed("a tree entry with fields of the wrong type")
    if not (right is None or isinstance(right, Cid)):
        raise Malformed("a tree entry whose subtree is not a link")
    if not 0 <= shared <= len(before):
        raise Malformed(f"a tree entry shares {shared} bytes with a key of {len(before)}")
    key = before[:shared] + suffix
    if not first and key <= before:
        raise Malformed("tree keys are repeated or out of order")
    if shared != common_prefix(before, key):
        raise Malformed("a tree entry that does not share all it could")
    return TreeEntry(key, value, right)


def from_json(value: Any, depth: int = 0) -> Value:
    """The record that plain JSON data stands for. A map with $link or $bytes has no other key."""
    if depth > _DEEPEST:
        raise Malformed(f"more than {_DEEPEST} containers inside each other")
    if isinstance(value, list):
        return [from_json(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if "$link" in value:
        return parse_cid(_only(value, "$link"))
    if "$bytes" in value:
        return _bytes(_only(value, "$bytes"))
    return {key: from_json(item, depth + 1) for key, item in value.items()}


def _only(value: dict[str, Any], name: str) -> str:
    text = value[name]
    if len(value) != 1 or not isinstance(text, str):
        raise Malformed(f"{name} is not a string, or not alone")
    return text


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (BadBase64, ValueError):
        raise Malformed("$bytes is not base64") from None

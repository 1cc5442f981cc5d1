"""Prove a repository from what the archive holds of it: CIDs, tree, commit and signature, all made
again. What does not fit is named."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import accumulate
from typing import NamedTuple

from trawlnet.archive.blocks import File, FoundBlock, read_exactly
from trawlnet.archive.format import rca
from trawlnet.archive.format.content import RepoError
from trawlnet.archive.format.proof import (
    ExceptionKind,
    Proof,
    changed_records,
    iter_exceptions,
    parse_key,
    parse_proof,
    tree_name,
    usual_forms,
)
from trawlnet.archive.format.proving import recompute
from trawlnet.archive.format.proving_plain import CollectionEntries, Recomputed, Unprovable
from trawlnet.archive.format.tree_plain import StoredBlock, walk
from trawlnet.archive.reader import read_collection
from trawlnet.atproto.cbor_items import SHA256_LINK
from trawlnet.atproto.cid import Cid
from trawlnet.atproto.identity.keys import PublicKey
from trawlnet.atproto.repository.commit_plain import SignedCommit, read_commit
from trawlnet.atproto.syntax import is_did, is_tid
from trawlnet.malformed import Malformed

_NAMED = 20  # Records of one repository that are named one by one.

VERSION_1 = "a block of version 1 holds no proof"
NO_KEY = "no key was kept with it: its signature was not verified when it was archived"
PRUNED = "collections of it were filtered out, and may have changed since"
NOT_SIGNED = "the commit that its records give was not signed by its key"


class Misfit(NamedTuple):
    """What does not fit, and where: `collection/rkey`, a collection, or empty for all of it."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class ProofVerdict:
    did: str
    rev: str
    root: str  # CID of the commit; empty if there is none to be made.
    misfits: Sequence[Misfit] = ()
    key: PublicKey | None = None  # That its signature was verified with; None: by nobody yet.
    signed: SignedCommit | None = None

    @property
    def proven(self) -> bool:
        return not self.misfits

    @property
    def reason(self) -> str:
        return "; ".join(": ".join(filter(None, misfit)) for misfit in self.misfits)


class RepoParts(NamedTuple):
    """A repository as it is proven."""

    did: str
    rev: str
    proof: Proof
    collections: Sequence[CollectionEntries]  # In the order of the tree.


class RebuiltRepo(NamedTuple):
    """All that there is of a repository again."""

    recomputed: Recomputed
    root: bytes  # Digest of the tree.
    commit: bytes
    fields: SignedCommit


class Disproof(Exception):
    """The repository is not what its owner signed."""

    def __init__(self, misfits: Sequence[Misfit]) -> None:
        super().__init__(misfits[0].what)
        self.misfits = misfits


def prove_block(fd: File, block: FoundBlock) -> ProofVerdict:
    """Of a block whose head is whole; its data need not be. The key is the one in the archive."""
    did, rev = block.head.did, block.head.rev
    try:
        parts = read_parts(fd, block)
        repo = rebuild(parts)
        key = parse_key(parts.proof.key) if parts.proof.key else None
    except Disproof as disproof:
        return ProofVerdict(did, rev, "", disproof.misfits)
    except Malformed as error:
        return ProofVerdict(did, rev, "", [Misfit("", str(error))])
    misfits = []
    if key is None:
        misfits.append(Misfit("", NO_KEY))
    elif not key.verifies(repo.fields.signature, repo.fields.unsigned):
        misfits.append(Misfit("", NOT_SIGNED))
    return ProofVerdict(did, rev, commit_cid(repo.commit), misfits, key, repo.fields)


def asked_elsewhere(verdict: ProofVerdict, keys: Collection[PublicKey]) -> ProofVerdict:
    """The same when it is known which keys the DID has had."""
    if verdict.signed is None:
        return verdict
    if verdict.key is not None:
        if verdict.key in keys:
            return verdict
        never = Misfit("", "the key it was verified with was never this DID's")
        return replace(verdict, misfits=(*verdict.misfits, never))
    for key in keys:
        if key.verifies(verdict.signed.signature, verdict.signed.unsigned):
            return replace(verdict, misfits=(), key=key)
    return replace(verdict, misfits=[Misfit("", NOT_SIGNED)])


def commit_cid(commit: bytes) -> str:
    return str(Cid(SHA256_LINK + sha256(commit).digest()))


def read_parts(fd: File, block: FoundBlock) -> RepoParts:
    """Raises Disproof."""
    head = block.head
    if head.form is not rca.Form.FULL:
        raise Disproof([Misfit("", VERSION_1)])
    collections, misfits = [], []
    for collection in sorted(head.collections, key=lambda one: tree_name(one.name)):
        try:
            entries = read_collection(fd, block, collection)
        except rca.RcaError as error:
            misfits.append(Misfit(collection.name, error.what))
        else:
            found = CollectionEntries(collection.name.encode(), collection.records, entries)
            collections.append(found)
    records = sum(one.records for one in head.collections)
    try:
        proof = parse_proof(
            read_exactly(fd, head.size - head.proof_start, block.offset + head.proof_start),
            records,
        )
    except rca.RcaError as error:
        misfits.append(Misfit("", error.what))
    if misfits:
        raise Disproof(misfits)
    return RepoParts(head.did, head.rev, proof, collections)


def rebuild(parts: RepoParts, *, car: bool = False) -> RebuiltRepo:
    """Tree and commit from the records. Raises Disproof."""
    exceptions = parts.proof.exceptions
    try:
        commits, nodes = _kept_whole(exceptions)
        found = recompute(parts.collections, exceptions, digests=bool(nodes), car=car)
    except Unprovable as error:
        where = _path(parts.collections, error.record)
        raise Disproof([Misfit(where, f"gives no record: {error}")]) from None
    except rca.RcaError as error:
        raise Disproof([Misfit("", error.what)]) from None
    if found.sums != parts.proof.sums:
        raise Disproof(list(_changed(parts, found)))
    root = _odd_root(parts, found, nodes) if nodes else found.root
    if commits:
        fields = _read_commit(parts, commits[0], root)
        return RebuiltRepo(found, root, commits[0], fields)
    return RebuiltRepo(found, root, *_usual(parts, root))


def _usual(parts: RepoParts, root: bytes) -> tuple[bytes, SignedCommit]:
    """Not read again: with small repositories that would take longer than all records."""
    did, rev, signature = parts.did, parts.rev, parts.proof.signature
    if not is_did(did) or not is_tid(rev):
        raise Disproof([Misfit("", "a DID or a rev that no commit has")])
    unsigned, commit = usual_forms(did, rev, root, signature)
    return commit, SignedCommit(did, rev, root, signature, unsigned)


def _kept_whole(exceptions: bytes) -> tuple[list[bytes], list[bytes]]:
    """Commits and nodes that are among the exceptions."""
    if not exceptions:
        return [], []
    found = [one for one in iter_exceptions(exceptions) if one.kind >= ExceptionKind.COMMIT]
    if any(one.kind is ExceptionKind.UNSEEN for one in found):
        raise Disproof([Misfit("", PRUNED)])
    commits = [one.data for one in found if one.kind is ExceptionKind.COMMIT]
    return commits, [one.data for one in found if one.kind is ExceptionKind.NODE]


def _read_commit(parts: RepoParts, commit: bytes, root: bytes) -> SignedCommit:
    try:
        fields = read_commit(commit)
    except Malformed as error:
        raise Disproof([Misfit("", f"no commit: {error}")]) from None
    if (fields.did, fields.rev, fields.signature) != (parts.did, parts.rev, parts.proof.signature):
        raise Disproof([Misfit("", "the commit is of another DID, rev or signature")])
    if fields.data != root:
        raise Disproof([Misfit("", "the records give another tree than the commit names")])
    return fields


def _odd_root(parts: RepoParts, found: Recomputed, nodes: Sequence[bytes]) -> bytes:
    """A tree that is not written as it should be was kept: it must hold the records as they are."""
    blocks = {sha256(node).digest(): StoredBlock(0, node) for node in nodes}
    root = sha256(nodes[0]).digest()
    kept = {
        path: found.digests[n * 32 : n * 32 + 32]
        for n, path in enumerate(_paths(parts.collections))
    }
    try:
        for leaf in walk(blocks, root, check_layers=True, records=False):
            digest = kept.pop(leaf.key, None)
            if digest is not None and leaf.cid != SHA256_LINK + digest:
                where = leaf.key.decode(errors="replace")
                raise Disproof([Misfit(where, "is another record than the tree names")])
    except RepoError as error:
        raise Disproof([Misfit("", f"no tree: {error.detail}")]) from None
    if kept:
        where = next(iter(kept)).decode(errors="replace")
        raise Disproof([Misfit(where, "is not in the tree")])
    return root


def _changed(parts: RepoParts, found: Recomputed) -> Iterator[Misfit]:
    stored, records = parts.proof.sums, found.records
    if len(stored) != len(found.sums):
        yield Misfit("", "records are missing, or there are too many")
        return
    for start, end in changed_records(stored, found.sums, records)[:_NAMED]:
        first = _path(parts.collections, start)
        if end == start + 1:
            yield Misfit(first, "is not the record that was archived")
        else:
            last = _path(parts.collections, end - 1)
            yield Misfit(first, f"some records from here to {last} are not those archived")


def _path(collections: Sequence[CollectionEntries], number: int) -> str:
    """Of a record by its place in the tree."""
    ends = accumulate(one.records for one in collections)
    for collection, end in zip(collections, ends, strict=True):
        if number < end:
            wanted = number - end + collection.records
            try:
                for n, one in enumerate(rca.iter_records(collection.entries, collection.records)):
                    if n == wanted:
                        return f"{collection.name.decode()}/{one.rkey}"
            except rca.RcaError:
                pass  # Then the collection is all that can be named.
            return collection.name.decode()
    return ""


def _paths(collections: Sequence[CollectionEntries]) -> Iterator[bytes]:
    for name, count, entries in collections:
        for one in rca.iter_records(entries, count):
            yield name + b"/" + one.rkey.encode()

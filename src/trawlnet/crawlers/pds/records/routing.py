"""Routing of records: which collections are wanted, and the fate of each record; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase, translate
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import Any

import orjson

from trawlnet.atproto.json_data import data_problem
from trawlnet.atproto.lexicon.schema import Lexicons, record_problem
from trawlnet.atproto.syntax import AtUri, is_did, is_nsid
from trawlnet.crawlers.pds.records.columns import at, columns_of
from trawlnet.tables.scanned.rows import ScannedRecord, ScanScope, Table

PRESET = ("pub.chive.*",)
OTHER = "other"

_TABLES: Mapping[str, Table] = {
    "pub.chive.eprint.submission": Table.EPRINTS,
    "pub.chive.review.comment": Table.REVIEWS,
    "pub.chive.review.endorsement": Table.ENDORSEMENTS,
    "pub.chive.eprint.userTag": Table.TAGS,
    "pub.chive.eprint.tag": Table.TAGS,
}


class Fate(StrEnum):
    """The fate of a record, in the words of the tables."""

    INDEXED = "success"
    SKIPPED = "skipped"  # Stored, but not indexed without --index-tags.
    FAILED = "error"


@dataclass(frozen=True, slots=True)
class RoutedRecord:
    fate: Fate
    record: ScannedRecord


@dataclass(frozen=True)  # Without slots, for what is computed once.
class Routes:
    globs: Sequence[str] = PRESET
    lexicons: Lexicons = field(default_factory=dict)
    index_tags: bool = False
    takes_mentions: bool = False  # Whether mentioned accounts are stored.

    def wants(self, collection: str) -> bool:
        # Most names match no glob, which is found out sooner.
        return any(match(collection) for match in self._matches) and is_nsid(collection)

    @cached_property
    def _matches(self) -> tuple[Callable[[str], object], ...]:
        return tuple(re.compile(translate(glob)).match for glob in self.globs)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every wanted collection whose name is known in advance."""
        plain = {glob for glob in self.globs if is_nsid(glob)}
        known = {name for name, lexicon in self.lexicons.items() if lexicon.is_record}
        return tuple(sorted(plain | {name for name in known | set(_TABLES) if self.wants(name)}))

    @property
    def labels(self) -> tuple[str, ...]:
        """All values of the metrics' label `collection`."""
        return (*self.names, *(glob for glob in self.globs if not is_nsid(glob)), OTHER)

    def label(self, collection: str) -> str:
        """The name of a collection, or the glob that it matches: servers choose names, too, and any
        number of them may match a glob."""
        if collection in self.names:
            return collection
        return next((glob for glob in self.globs if fnmatchcase(collection, glob)), OTHER)

    def unmatched(self, collections: Iterable[str]) -> tuple[str, ...]:
        """Globs that match none of these collections."""
        seen = list(collections)
        return tuple(
            glob for glob in self.globs if not any(fnmatchcase(name, glob) for name in seen)
        )

    @cached_property
    def scope(self) -> ScanScope:
        """The scope of a scan: it changes with every rule that affects a record's fate, so that all
        records are read again."""
        schemas = {name: self.lexicons[name].definitions for name in sorted(self.lexicons)}
        rules = orjson.dumps([sorted(self.globs), self.index_tags, schemas])
        digest = blake2b(rules, digest_size=8).hexdigest()
        return ScanScope(digest, self.wants, frozenset(self.names))

    def route(self, uri: AtUri, cid: str, value: dict[str, Any]) -> RoutedRecord:
        table = _TABLES.get(uri.collection, Table.RECORDS)
        fate = Fate.INDEXED
        current = modernised(uri.collection, uri.authority, value)
        raw = _raw(value)
        problem = data_problem(value) or ("" if raw else "has text that is not Unicode")
        if table is Table.TAGS and not self.index_tags:
            fate = Fate.SKIPPED
        elif not problem and uri.collection in self.lexicons:
            found = record_problem(self.lexicons, uri.collection, current)
            problem = str(found) if found else ""
        if problem:
            fate, table = Fate.FAILED, Table.INVALID
        is_indexed = fate is Fate.INDEXED
        mentions = dids_in(raw) - {uri.authority} if self.takes_mentions and is_indexed else ()
        return RoutedRecord(
            fate,
            ScannedRecord(
                table,
                str(uri),
                cid,
                uri.authority,
                uri.rkey,
                uri.collection,
                raw,
                is_indexed,
                {"problem": problem} if problem else columns_of(table, current),
                frozenset(mentions),
            ),
        )


def dids_in(raw: str) -> frozenset[str]:
    """The first accounts that a record mentions, also within at:// URIs."""
    found = (one.group() for one in _DIDS.finditer(raw))
    return frozenset(islice((did for did in found if is_did(did)), _MOST_MENTIONS))


# DID methods of the protocol; the pattern ends where an identifier ends in a text.
_DIDS = re.compile(r"\bdid:(?:plc:[a-z2-7]{24}(?![a-z0-9])|web:[a-zA-Z0-9][a-zA-Z0-9.%-]{0,250}\w)")
_MOST_MENTIONS = 200  # Accounts of one record.


def _raw(value: dict[str, Any]) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return ""  # Nested too deeply to be written, or a number or text that is no data.


@dataclass(frozen=True, slots=True)
class Legacy:
    """How older records of a collection differ."""

    renamed: Mapping[str, str] = field(default_factory=dict)  # Old path -> new name.
    assumed: Mapping[str, Any] = field(default_factory=dict)  # Defaults of missing fields.
    authors: tuple[str, ...] = ()  # Fields that default to the owner of the repo.
    prose: tuple[str, ...] = ()  # Texts that are lists of passages now.
    blobs: tuple[str, ...] = ()  # Blobs whose reference may be a bare string.
    is_untyped: bool = False  # Without a $type.


_LEGACY: Mapping[str, Legacy] = {
    "pub.chive.eprint.submission": Legacy(
        renamed={"license": "licenseSlug"},
        assumed={"licenseSlug": "CC-BY-4.0", "abstract": []},
        authors=("submittedBy",),
        prose=("abstract",),
        blobs=("document",),
        is_untyped=True,
    ),
    # A strong reference, as most other applications use.
    "pub.chive.review.comment": Legacy(renamed={"subject.uri": "eprintUri"}),
    "pub.chive.review.endorsement": Legacy(renamed={"subject.uri": "eprintUri"}),
    "pub.chive.eprint.userTag": Legacy(renamed={"subject.uri": "eprintUri"}),
    "pub.chive.eprint.tag": Legacy(renamed={"subject.uri": "eprintUri"}),
}


def modernised(collection: str, did: str, value: dict[str, Any]) -> dict[str, Any]:
    legacy = _LEGACY.get(collection)
    if legacy is None:
        return value
    record = {"$type": collection, **value} if legacy.is_untyped else dict(value)
    for path, name in legacy.renamed.items():
        old = at(record, path)
        if name not in record and old is not None:
            record[name] = old
    for name, default in legacy.assumed.items():
        record.setdefault(name, default)
    for name in legacy.authors:
        record.setdefault(name, did)
    for name in legacy.prose:
        record[name] = _passages(record.get(name))
    for name in legacy.blobs:
        if name in record:
            record[name] = _blob(record[name])
    return record


def _passages(prose: Any) -> Any:
    if isinstance(prose, str):
        return [{"type": "text", "content": prose}]
    if isinstance(prose, list):
        return [{"type": "text", "content": one} if isinstance(one, str) else one for one in prose]
    return prose


def _blob(blob: Any) -> Any:
    if not isinstance(blob, dict):
        return blob
    whole = {"$type": "blob", **blob}
    if isinstance(blob.get("ref"), str):
        whole["ref"] = {"$link": blob["ref"]}
    return whole

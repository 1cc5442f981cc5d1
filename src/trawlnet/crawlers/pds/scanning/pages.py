"""What a PDS answers, read with suspicion: pure, and nothing in it is believed unseen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from trawlnet.atproto.json_data import parse_object, parse_page
from trawlnet.atproto.syntax import AtUri, is_cid, is_did, is_record_key
from trawlnet.malformed import Malformed
from trawlnet.tables.scanned.rows import ListedRepo

REPOS_AT_ONCE = 1000
LEADS_AT_ONCE = 2000
_LONGEST_CURSOR = 2000  # Characters.
_LONGEST_DID = 256
_MOST_COLLECTIONS = 2000  # In one repo; the most varied known have some hundred.
_REV = re.compile(r"[!-~]{1,64}\Z")
# Whoever is switched off so is not shown by anybody; other states pass by themselves.
_SWITCHED_OFF = frozenset(("takendown", "suspended", "deleted", "deactivated"))


def list_repos_url(pds: str, cursor: str) -> str:
    return _url(pds, "sync.listRepos", {"limit": REPOS_AT_ONCE}, cursor)


def repos_by_collection_url(pds: str, collection: str, cursor: str) -> str:
    parameters = {"collection": collection, "limit": LEADS_AT_ONCE}
    return _url(pds, "sync.listReposByCollection", parameters, cursor)


def describe_repo_url(pds: str, did: str) -> str:
    return _url(pds, "repo.describeRepo", {"repo": did})


def latest_commit_url(pds: str, did: str) -> str:
    return _url(pds, "sync.getLatestCommit", {"did": did})


def list_records_url(pds: str, did: str, collection: str, limit: int, cursor: str) -> str:
    parameters = {"repo": did, "collection": collection, "limit": limit}
    return _url(pds, "repo.listRecords", parameters, cursor)


def _url(pds: str, method: str, parameters: Mapping[str, object], cursor: str = "") -> str:
    # Cursors come with `+` and `=` in them, which mean something else in a query.
    given = {**parameters, "cursor": cursor} if cursor else parameters
    query = "&".join(f"{name}={quote(str(value), safe=':')}" for name, value in given.items())
    return f"{pds}/xrpc/com.atproto.{method}?{query}"


@dataclass(frozen=True, slots=True)
class ReposPage:
    repos: Sequence[ListedRepo]  # Each once.
    rows: int  # As many as the page has, whatever they are.
    cursor: str  # Empty at the end.


def read_repos(body: bytes) -> ReposPage:
    """A page of listRepos, or of listReposByCollection. Raises Malformed."""
    rows, cursor = _page(body, "repos")
    repos: dict[str, ListedRepo] = {}
    for row in rows:
        did = row.get("did") if isinstance(row, dict) else None
        if isinstance(did, str) and len(did) <= _LONGEST_DID and is_did(did):
            repos.setdefault(did, _listed(did, row))
    return ReposPage(list(repos.values()), len(rows), cursor)


def _listed(did: str, row: Mapping[str, Any]) -> ListedRepo:
    rev = row.get("rev")
    known_rev = rev if isinstance(rev, str) and _REV.match(rev) else ""
    if row.get("active") is not False:
        return ListedRepo(did, known_rev)
    status = row.get("status")
    is_off = isinstance(status, str) and status in _SWITCHED_OFF
    return ListedRepo(did, known_rev, is_active=not is_off, is_readable=False)


def read_description(body: bytes, did: str) -> tuple[str, ...]:
    """The collections of a repo. Raises Malformed, also when it is another's."""
    described = parse_object(body)
    if described.get("did") != did:
        raise Malformed("the description of another repo")
    collections = described.get("collections")
    if not isinstance(collections, list) or len(collections) > _MOST_COLLECTIONS:
        raise Malformed("a repo without a list of collections")
    return tuple(sorted({name for name in collections if isinstance(name, str)}))


def read_rev(body: bytes) -> str:
    rev = parse_object(body).get("rev")
    if not isinstance(rev, str) or not _REV.match(rev):
        raise Malformed("a latest commit without a rev")
    return rev


@dataclass(frozen=True, slots=True)
class ListedRecord:
    uri: AtUri
    cid: str
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordsPage:
    records: Sequence[ListedRecord]  # Each once, and of the repo and collection asked for.
    forged: int  # Rows that are said to be somebody else's, or no records at all.
    rows: int
    cursor: str


def read_records(body: bytes, did: str, collection: str) -> RecordsPage:
    """Raises Malformed."""
    rows, cursor = _page(body, "records")
    records: dict[str, ListedRecord] = {}
    forged = 0
    for row in rows:
        record = _record(row, did, collection)
        if record is None:
            forged += 1
        else:
            records.setdefault(record.uri.rkey, record)
    return RecordsPage(list(records.values()), forged, len(rows), cursor)


def _record(row: object, did: str, collection: str) -> ListedRecord | None:
    if not isinstance(row, dict):
        return None
    uri, cid, value = row.get("uri"), row.get("cid"), row.get("value")
    # Not taken apart and put together again: only the one spelling is the record's name.
    prefix = f"at://{did}/{collection}/"
    if not isinstance(uri, str) or not uri.startswith(prefix):
        return None
    rkey = uri.removeprefix(prefix)
    if not is_record_key(rkey) or not isinstance(cid, str) or not is_cid(cid):
        return None
    if not isinstance(value, dict):
        return None
    return ListedRecord(AtUri(did, collection, rkey), cid, value)


def _page(body: bytes, what: str) -> tuple[Sequence[Any], str]:
    page = parse_page(body)
    rows, cursor = page.get(what), page.get("cursor")
    if rows is None and what in page:
        rows = []  # Some servers write null for none.
    if not isinstance(rows, list):
        raise Malformed(f"a page without {what}")
    if cursor is None or cursor == "":
        return rows, ""
    if not isinstance(cursor, str) or len(cursor) > _LONGEST_CURSOR or not cursor.isprintable():
        raise Malformed("a page with an invalid cursor")
    return rows, cursor

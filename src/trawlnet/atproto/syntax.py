"""Which strings are DIDs, NSIDs, record keys, TIDs, handles, CIDs and AT URIs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trawlnet.malformed import Malformed

_LONGEST_DID = 2048  # Characters, as are the other limits here.
_LONGEST_NSID = 317
_LONGEST_AT_URI = 8192

# \Z and not $: the latter lets a trailing newline through.
_DID = re.compile(r"did:[a-z]+:[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-]\Z")
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_NSID = re.compile(
    rf"[a-zA-Z](?:[a-zA-Z0-9-]{{0,61}}[a-zA-Z0-9])?(?:\.{_LABEL})+\.[a-zA-Z][a-zA-Z0-9]{{0,62}}\Z"
)
_RECORD_KEY = re.compile(r"[a-zA-Z0-9_~.:-]{1,512}\Z")
_TID = re.compile(r"[234567abcdefghij][234567abcdefghijklmnopqrstuvwxyz]{12}\Z")
_HANDLE = re.compile(
    rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)+[a-zA-Z](?:[a-zA-Z0-9-]{{0,61}}[a-zA-Z0-9])?\Z"
)
_CID = re.compile(r"[a-zA-Z0-9+=]{8,256}\Z")


def is_did(text: str) -> bool:
    return len(text) <= _LONGEST_DID and _DID.match(text) is not None


def is_nsid(text: str) -> bool:
    return len(text) <= _LONGEST_NSID and _NSID.match(text) is not None


def is_record_key(text: str) -> bool:
    return text not in (".", "..") and _RECORD_KEY.match(text) is not None


def is_tid(text: str) -> bool:
    return _TID.match(text) is not None


def is_handle(text: str) -> bool:
    return _HANDLE.match(text) is not None


def is_cid(text: str) -> bool:
    """Only what it looks like; `cid.parse_cid` reads the one base that this protocol writes."""
    return not text.startswith("Qmb") and _CID.match(text) is not None


@dataclass(frozen=True, slots=True)
class AtUri:
    authority: str  # A DID or a handle.
    collection: str = ""
    rkey: str = ""

    @classmethod
    def parse(cls, text: str) -> AtUri:
        if len(text) > _LONGEST_AT_URI or not text.startswith("at://"):
            raise Malformed(f"not an AT URI: {text[:80]!r}")
        authority, *path = text[5:].split("/")
        if not (is_did(authority) or is_handle(authority)):
            raise Malformed(f"AT URI without a DID or handle: {text[:80]!r}")
        if len(path) > 2 or (path and not is_nsid(path[0])):
            raise Malformed(f"AT URI with a bad collection: {text[:80]!r}")
        if len(path) == 2 and not is_record_key(path[1]):
            raise Malformed(f"AT URI with a bad record key: {text[:80]!r}")
        return cls(authority, *path)

    def __str__(self) -> str:
        return "at://" + "/".join(
            part for part in (self.authority, self.collection, self.rkey) if part
        )


def split_path(path: str) -> tuple[str, str]:
    """The collection and record key of one repository path."""
    collection, slash, rkey = path.partition("/")
    if not slash or not is_nsid(collection) or not is_record_key(rkey):
        raise Malformed(f"not a record path: {path[:80]!r}")
    return collection, rkey

"""A PDS as plain data: repos that can be written, and the ways in which it deceives."""

from __future__ import annotations

from base64 import b32encode
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from trawlnet.atproto.tid import tid
from trawlnet.sim.habits import Habit

_FIRST_REV_US = 1_700_000_000_000_000


class PdsLie(StrEnum):
    """What a scanner must see through; each is told by the answers and not by the connection."""

    NONE = "none"
    STOLEN_REPOS = "stolen_repos"  # Lists and shows accounts that live elsewhere.
    FORGED_URIS = "forged_uris"  # Shows records of others within an own repo.
    ENDLESS_REPOS = "endless_repos"  # The listing starts again at its end.
    INVENTED_REPOS = "invented_repos"  # Behind its end it goes on with accounts that nobody has.
    REPEATED_LEADS = "repeated_leads"  # So does its listing by collection, under new cursors.
    INVENTED_LEADS = "invented_leads"  # Which goes on with accounts that nobody has.
    ENDLESS_RECORDS = "endless_records"  # So does every collection, under new cursors.
    RELAY = "relay"  # Lists everybody, and says in its headers what it is.
    LISTING_ONLY = "listing_only"  # Lists everybody, and knows no other method.
    NO_DESCRIPTIONS = "no_descriptions"  # Honest, and older than describeRepo.
    BROKEN_JSON = "broken_json"  # Nested without end.


class Invented(StrEnum):
    """Whom a listing without an end names."""

    UNKNOWN = "unknown"  # To the directory.
    NO_HOST = "no_host"  # did:web of a host that does not answer.
    IDLE = "idle"  # Unknown, and switched off: nothing of it is to be read.


@dataclass(slots=True)
class SimRepo:
    did: str
    records: dict[str, dict[str, Any]] = field(default_factory=dict)  # By collection and rkey.
    revision: int = 0
    status: str = ""  # Empty: active.
    spoilt: set[str] = field(default_factory=set)  # Keys of records that are shown without a CID.

    @property
    def rev(self) -> str:
        return tid(_FIRST_REV_US + self.revision)

    def put(self, collection: str, rkey: str, value: dict[str, Any]) -> None:
        self.records.setdefault(collection, {})[rkey] = {"$type": collection, **value}
        self.revision += 1

    def delete(self, collection: str, rkey: str) -> None:
        del self.records[collection][rkey]
        if not self.records[collection]:
            del self.records[collection]
        self.revision += 1


@dataclass(slots=True)
class SimPds:
    address: str  # Where it listens, on loopback.
    repos: dict[str, SimRepo] = field(default_factory=dict)
    habit: Habit = Habit.GOOD
    lie: PdsLie = PdsLie.NONE
    invents: Invented = Invented.UNKNOWN
    lists_by_collection: bool = False
    ends_with_cursor: bool = True  # As the reference does: also the last page has one.
    largest_page: int = 1000  # Repos.
    most_records: int = 100  # In a page, whatever is asked for.
    hangs_on: str = ""  # A DID about which it never answers.
    loses: str = ""  # A DID about which it says 404, as any web server does.
    asked: Counter[str] = field(default_factory=Counter)  # Requests by method.

    def repo(self, name: str) -> SimRepo:
        """The repo of that name, made if there is none."""
        did = did_of(name)
        return self.repos.setdefault(did, SimRepo(did))


def did_of(name: str) -> str:
    digest = blake2b(name.encode(), digest_size=15).digest()
    return f"did:plc:{b32encode(digest).decode().lower()}"


def eprint(did: str, number: int) -> dict[str, Any]:
    return {
        "title": f"On the drift of nets, part {number}",
        "abstract": [{"type": "text", "content": "Nets drift."}],
        "document": {
            "$type": "blob",
            "ref": {"$link": "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"},
            "mimeType": "application/pdf",
            "size": 4096,
        },
        "licenseSlug": "CC-BY-4.0",
        "authors": [{"name": "Ada", "order": 1, "did": did}],
        "submittedBy": did,
        "createdAt": "2026-01-02T03:04:05Z",
    }


def about_eprint(did: str, **more: Any) -> dict[str, Any]:
    uri = f"at://{did}/pub.chive.eprint.submission/3k2aaaaaaaa22"
    return {"eprintUri": uri, "createdAt": "2026-01-02T03:04:05Z", **more}

"""The records of an account: how many per collection, cheaply, and what they say, on demand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trawlnet.atproto.cid import RAW, cid_of
from trawlnet.atproto.dagcbor import Value
from trawlnet.atproto.tid import tid
from trawlnet.sim.atproto.accounts import Account, Persona
from trawlnet.sim.atproto.history import iso_time

PROFILE = "app.bsky.actor.profile"
POST = "app.bsky.feed.post"
LIKE = "app.bsky.feed.like"
REPOST = "app.bsky.feed.repost"
FOLLOW = "app.bsky.graph.follow"
BLOCK = "app.bsky.graph.block"
GATE = "app.bsky.feed.threadgate"
EPRINT = "pub.chive.eprint.submission"
COMMENT = "pub.chive.review.comment"
ENDORSEMENT = "pub.chive.review.endorsement"
TAG = "pub.chive.eprint.userTag"
BLOG = "com.whtwnd.blog.entry"
STATUS = "xyz.statusphere.status"
CODE = "sh.tangled.repo"

_SHARES: dict[Persona, Sequence[tuple[str, float]]] = {
    Persona.LURKER: ((LIKE, 0.6), (FOLLOW, 0.3), (BLOCK, 0.05), (POST, 0.05)),
    Persona.POSTER: ((POST, 0.45), (LIKE, 0.3), (FOLLOW, 0.15), (REPOST, 0.08), (GATE, 0.02)),
    Persona.SCHOLAR: ((POST, 0.3), (EPRINT, 0.25), (COMMENT, 0.2), (ENDORSEMENT, 0.15), (TAG, 0.1)),
    Persona.TINKERER: ((POST, 0.3), (BLOG, 0.3), (STATUS, 0.2), (CODE, 0.2)),
    Persona.ODD: ((POST, 0.7), (LIKE, 0.3)),
}
_RECENT_SHARE = 10  # One record in so many is newer than the revision before the last.


def record_counts(account: Account) -> dict[str, int]:
    """Records per collection, without making one."""
    counts: dict[str, int] = {}
    if account.records:
        counts[PROFILE] = 1
        left = account.records - 1
        (main, _), *others = _SHARES[account.persona]
        for collection, share in others:
            counts[collection] = int((account.records - 1) * share)
            left -= counts[collection]
        counts[main] = left
    if account.persona is Persona.ODD:
        counts |= ODDITY_COUNTS
    return {collection: count for collection, count in counts.items() if count}


@dataclass(frozen=True, slots=True)
class Writings:
    """All that an account wrote, in path order, and what of it its last revision brought."""

    records: dict[str, Value]
    recent: frozenset[str]  # Paths.
    rev: str
    former_rev: str


def write_records(seed: int, account: Account, did: str, dids: Sequence[str]) -> Writings:
    chance = random.Random(f"{seed}/{account.index}/records")
    collections = [name for name, count in record_counts(account).items() for _ in range(count)]
    collections = [name for name in collections if name in _MAKERS]
    chance.shuffle(collections)
    clock = chance.randrange(1024)
    scene = _Scene(chance, did, dids)
    records: dict[str, Value] = dict(ODDITIES) if account.persona is Persona.ODD else {}
    order: list[str] = []
    now_us = account.created_ms * 1000
    former_us = now_us
    recent_from = len(collections) - (len(collections) + _RECENT_SHARE - 1) // _RECENT_SHARE
    for number, collection in enumerate(collections):
        if number == recent_from:
            former_us = now_us
        now_us += chance.randrange(1_000_000, 3_600_000_000)
        path = f"{collection}/{'self' if collection == PROFILE else tid(now_us, clock)}"
        record: dict[str, Value] = {"$type": collection}
        record |= _MAKERS[collection](scene, iso_time(now_us // 1000))
        records[path] = record
        order.append(path)
    return Writings(
        records=dict(sorted(records.items())),
        recent=frozenset(order[recent_from:]),
        rev=tid(now_us + 1, clock),
        former_rev=tid(former_us + 1, clock),
    )


def write_one(
    chance: random.Random, did: str, dids: Sequence[str], now_us: int
) -> tuple[str, Value]:
    """One more record of an account, and its path."""
    collection = chance.choice([name for name in _MAKERS if name != PROFILE])
    record: dict[str, Value] = {"$type": collection}
    record |= _MAKERS[collection](_Scene(chance, did, dids), iso_time(now_us // 1000))
    return f"{collection}/{tid(now_us, chance.randrange(1024))}", record


_WORDS = (
    "tide",
    "net",
    "mesh",
    "trawl",
    "gull",
    "rope",
    "salt",
    "mast",
    "wave",
    "cod",
    "haul",
    "eel",
)
_GARNISH = ("", "", "", " 🐟", " naïve café", " 日本語", " <b>&amp;</b>", ' "quoted" \\ slash')
_CIDS = [cid_of(bytes((number,))) for number in range(64)]
_CID_TEXTS = [str(cid) for cid in _CIDS]
_BLOB_CIDS = [cid_of(bytes((number,)), RAW) for number in range(64)]


@dataclass(frozen=True, slots=True)
class _Scene:
    chance: random.Random
    did: str
    dids: Sequence[str]

    def text(self, most: int) -> str:
        words = self.chance.choices(_WORDS, k=1 + int(self.chance.random() * most))
        return " ".join(words) + _GARNISH[int(self.chance.random() * len(_GARNISH))]

    def someone(self) -> str:
        return self.dids[int(self.chance.random() * len(self.dids))]

    def subject(self, collection: str) -> dict[str, str]:
        number = int(self.chance.random() * len(_CID_TEXTS))
        rkey = tid(1_680_000_000_000_000 + number * 977_777, number)
        return {"uri": f"at://{self.someone()}/{collection}/{rkey}", "cid": _CID_TEXTS[number]}

    def blob(self, mime: str) -> dict[str, Value]:
        number = int(self.chance.random() * len(_BLOB_CIDS))
        return {
            "$type": "blob",
            "ref": _BLOB_CIDS[number],
            "mimeType": mime,
            "size": 1000 + number * 7919,
        }


def _profile(scene: _Scene, at: str) -> dict[str, Value]:
    return {"displayName": scene.text(2), "avatar": scene.blob("image/jpeg"), "createdAt": at}


def _post(scene: _Scene, at: str) -> dict[str, Value]:
    post: dict[str, Value] = {"text": scene.text(30), "langs": ["en"], "createdAt": at}
    kind = scene.chance.random()
    if kind < 0.3:
        parent = scene.subject(POST)
        post["reply"] = {"root": parent, "parent": parent}
    elif kind < 0.4:
        images = [{"alt": scene.text(4), "image": scene.blob("image/jpeg")}]
        post["embed"] = {"$type": "app.bsky.embed.images", "images": images}
    elif kind < 0.45:
        mention = {"$type": "app.bsky.richtext.facet#mention", "did": scene.someone()}
        post["facets"] = [{"index": {"byteStart": 0, "byteEnd": 4}, "features": [mention]}]
    return post


def _about_post(scene: _Scene, at: str) -> dict[str, Value]:
    return {"subject": scene.subject(POST), "createdAt": at}


def _about_someone(scene: _Scene, at: str) -> dict[str, Value]:
    return {"subject": scene.someone(), "createdAt": at}


def _gate(scene: _Scene, at: str) -> dict[str, Value]:
    return {"post": scene.subject(POST)["uri"], "allow": [], "createdAt": at}


def _eprint(scene: _Scene, at: str) -> dict[str, Value]:
    abstract = [{"type": "text", "content": scene.text(60)}]
    return {
        "title": scene.text(8),
        "abstract": abstract,
        "document": scene.blob("application/pdf"),
        "licenseSlug": "CC-BY-4.0",
        "authors": [{"name": scene.text(1), "order": 1, "did": scene.did}],
        "submittedBy": scene.did,
        "createdAt": at,
    }


def _comment(scene: _Scene, at: str) -> dict[str, Value]:
    body = [{"type": "text", "content": scene.text(40)}]
    return {"eprintUri": scene.subject(EPRINT)["uri"], "body": body, "createdAt": at}


def _endorsement(scene: _Scene, at: str) -> dict[str, Value]:
    uri = scene.subject(EPRINT)["uri"]
    return {"eprintUri": uri, "contributions": ["methodological", "empirical"], "createdAt": at}


def _tag(scene: _Scene, at: str) -> dict[str, Value]:
    return {"eprintUri": scene.subject(EPRINT)["uri"], "tag": scene.text(1), "createdAt": at}


def _blog(scene: _Scene, at: str) -> dict[str, Value]:
    return {"title": scene.text(6), "content": scene.text(400), "createdAt": at}


def _status(scene: _Scene, at: str) -> dict[str, Value]:
    return {"status": "🎣", "createdAt": at}


def _code(scene: _Scene, at: str) -> dict[str, Value]:
    digest = scene.chance.randbytes(32)
    return {"name": scene.text(1), "head": digest, "link": _CIDS[digest[0] % 64], "addedAt": at}


_MAKERS: dict[str, Callable[[_Scene, str], dict[str, Value]]] = {
    PROFILE: _profile,
    POST: _post,
    LIKE: _about_post,
    REPOST: _about_post,
    FOLLOW: _about_someone,
    BLOCK: _about_someone,
    GATE: _gate,
    EPRINT: _eprint,
    COMMENT: _comment,
    ENDORSEMENT: _endorsement,
    TAG: _tag,
    BLOG: _blog,
    STATUS: _status,
    CODE: _code,
}


_A_LINK = cid_of(b"\xa0")
_A_BLOB = cid_of(b"a picture", RAW)
_LONGEST_RKEY = 512


def _nested(depth: int) -> Value:
    value: Value = "the bottom"
    for _ in range(depth):
        value = {"in": value}
    return value


ODDITIES: dict[str, Value] = {
    "com.example.odd.text/nul": {"text": "before\0after", "list": ["\0", "\x01\x1f\x7f"]},
    "com.example.odd.text/markup": {"text": '</script>&<!-- "\\ \u2028\u2029 \ufeff \ufffd'},
    "com.example.odd.text/astral": {"text": "👩‍👩‍👧‍👧 𓋓 e\u0301 \u202eright to left", "": "🏴‍☠️"},
    "com.example.odd.text/long": {"text": "Ж" * 5000},
    "com.example.odd.keys/empty": {"": "an empty key", "a": {"": {"": None}}},
    "com.example.odd.keys/order": {"b": 1, "aa": 2, "a": 3, "é": 4, "zzz": 5, "Z": 6},
    "com.example.odd.keys/cid": {"cid": "not a link", "subject": {"cid": 7, "uri": "at://x"}},
    "com.example.odd.keys/dollar": {"$type": "com.example.odd.keys", "$other": {"$type": "x#y"}},
    "com.example.odd.keys/many": {f"key{number}": number for number in range(300)},
    "com.example.odd.number/wide": {
        "max": 2**63 - 1,
        "min": -(2**63),
        "unsafe": 2**53 + 1,
        "edges": [23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, -24, -25, -256, -257],
    },
    "com.example.odd.number/float": {"half": 0.5, "big": 1e300, "tiny": 5e-324, "whole": 100000.0},
    "com.example.odd.shape/deep": _nested(30),
    "com.example.odd.shape/nothing": {},
    "com.example.odd.shape/hollow": {"list": [], "map": {}, "null": None, "no": False, "": ""},
    "com.example.odd.shape/links": {"link": _A_LINK, "blob": _A_BLOB, "list": [_A_LINK, [_A_BLOB]]},
    "com.example.odd.shape/bytes": {"none": b"", "zero": b"\0", "all": bytes(range(256))},
    "com.example.odd.shape/blob": {
        "image": {"$type": "blob", "ref": _A_BLOB, "mimeType": "image/png", "size": 9},
        "old": {"cid": str(_A_BLOB), "mimeType": "image/jpeg"},
    },
    "com.example.odd.rkey/" + "k" * _LONGEST_RKEY: {"rkey": "the longest"},
    "com.example.odd.rkey/a:b~c.d-e_f": {"rkey": "every sign that is allowed"},
    "com.example.odd.rkey/...": {"rkey": "dots"},
    "com.example.odd.rkey/-": {"rkey": "a dash"},
    "a.b.c/1": {"note": "the shortest kind of collection name"},
}

ODDITY_COUNTS: dict[str, int] = dict(Counter(path.partition("/")[0] for path in ODDITIES))

"""Records that are valid and yet trip somebody: each kind has been seen on the real network."""

from __future__ import annotations

from collections import Counter

from trawlnet.atproto.cid import RAW, cid_of
from trawlnet.atproto.dagcbor import Value

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

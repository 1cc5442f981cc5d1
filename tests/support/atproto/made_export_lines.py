"""Lines of the PLC directory's numbered export: a usual one, and many that are odd."""

from __future__ import annotations

import json
from typing import Any

import orjson

OPERATION: dict[str, Any] = {
    "sig": "9NuYV7AqwHVTc0YuWzNV3CJafsSZWH7qCxHRUIP2xWlB-YexXC1OaYAnUayiCXLVzRQ8WBXIqF-SvZdNalwcjA",
    "prev": "bafyreigcxay6ucqlwowfpu35alyxqtv3c4vsj7gmdtmnidsnqs6nblyarq",
    "type": "plc_operation",
    "services": {
        "atproto_pds": {
            "type": "AtprotoPersonalDataServer",
            "endpoint": "https://shimeji.us-east.host.bsky.network",
        }
    },
    "alsoKnownAs": ["at://somebody.bsky.social"],
    "rotationKeys": ["did:key:zQ3shhCGUqDKjStzuDxPkTxN6ujddP4RkEKJJouJGRRkaLGbg"] * 2,
    "verificationMethods": {"atproto": "did:key:zQ3shXjHeiBuRCKmM36cuYnm7YEMzhGnCmCyW92sRJ9pribSF"},
}
LINE = {
    "type": "sequenced_op",
    "seq": 7,
    "did": "did:plc:z72i7hdynmk6r22z27h6tvur",
    "operation": OPERATION,
    "cid": "bafyreihmuvr3frdvd6vmdhucih277prdcfcezf67lasg5oekxoimnunjoq",
    "createdAt": "2023-11-06T21:42:21.017Z",
}


# Of lines, whether there are such instants or not.
INSTANTS = (
    b"2023-02-28T23:59:59.999Z",
    b"2023-02-29T00:00:00.000Z",
    b"2024-02-29T00:00:00.000Z",
    b"2000-02-29T12:00:00.000Z",
    b"2100-02-28T12:00:00.001Z",
    b"2099-12-31T23:59:59.999Z",
    b"1970-01-01T00:00:00.000Z",
    b"1969-12-31T23:59:59.999Z",
    b"9999-12-31T23:59:59.999Z",
    b"2023-00-10T00:00:00.000Z",
    b"2023-13-10T00:00:00.000Z",
    b"2023-10-00T00:00:00.000Z",
    b"2023-10-32T00:00:00.000Z",
    b"2023-10-10T24:00:00.000Z",
    b"2023-10-10T00:60:00.000Z",
    b"2023-10-10T00:00:60.000Z",
    b"2023-10-10T00:00:00,000Z",
    b"2023-10-10T00:00:00.0000",
    b"2023-10-10T00:00:00.00aZ",
    b"2023-10-10T00:00:00.000z",
    b"2023-10-10T00:00:00+00:00",
)


def changed(**fields: Any) -> bytes:
    return orjson.dumps({**LINE, "operation": {**OPERATION, **fields}})


def service(endpoint: str) -> dict[str, Any]:
    return {"atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": endpoint}}


PLAIN = orjson.dumps(LINE)
ODD = [
    json.dumps(LINE).encode(),
    json.dumps(LINE, indent=1).replace("\n", " ").encode(),
    PLAIN + b" ",
    PLAIN.replace(b"somebody", b"some\\u0062ody"),
    PLAIN.replace(b"https://", b"https:\\/\\/"),
    PLAIN.replace(b"somebody", "björk".encode()),
    PLAIN.replace(b"somebody", b"\xff\xfe"),
    PLAIN.replace(b"somebody", b"some\x01body"),
    PLAIN.replace(b"somebody", b"some\x7fbody"),
    PLAIN.replace(b"somebody", b"\\ud800"),
    PLAIN.replace(b'"sig":', b'"sig":"x","sig":'),
    PLAIN.replace(b'"seq":7', b'"seq":6,"seq":7'),
    PLAIN.replace(b'"seq":7', b'"seq":7.0'),
    PLAIN.replace(b'"seq":7', b'"seq":0'),
    PLAIN.replace(b'"seq":7', b'"seq":-7'),
    PLAIN.replace(b'"seq":7', b'"seq":9223372036854775808'),
    PLAIN.replace(b'"seq":7', b'"seq":1e400'),
    PLAIN.replace(b'"seq":7', b'"seq":true'),
    PLAIN.replace(b'"seq":7', b'"seq":null'),
    PLAIN.replace(b"plc_operation", b"plc_tombstone"),
    PLAIN.replace(b"plc_operation", b"something"),
    PLAIN.replace(b"2023-11-06T21", b"2023-11-06 21"),
    PLAIN.replace(b"2023-11-06T21", b"1823-11-06T21"),
    PLAIN.replace(b"2023-11-06T21:42:21.017Z", b"2023-11-06T21:42:21.017"),
    *(PLAIN.replace(b"2023-11-06T21:42:21.017Z", instant) for instant in INSTANTS),
    PLAIN.replace(b"did:plc", b"did_plc"),
    PLAIN.replace(b"bafyreih", b"!"),
    PLAIN.replace(b"bafyreig", b"!"),
    PLAIN.replace(b'"seq":7', b'"seq":9223372036854775807'),
    PLAIN.replace(b'"seq":7', b'"seq":92233720368547758070'),
    PLAIN.replace(b'"seq":7', b'"seq":07'),
    PLAIN.replace(b'"did":', b'"did":"did:plc:z72i7hdynmk6r22z27h6tvur","did":'),
    PLAIN.replace(b"bafyreih", b"Qmbyreih"),
    PLAIN.replace(b"sequenced_op", b"something"),
    PLAIN[:-1],
    PLAIN[:-1] + b"}}",
    PLAIN + PLAIN,
    b"",
    b"null",
    b"[]",
    changed(prev=None),
    changed(prev=""),
    changed(prev=7),
    changed(extra=1.50),
    changed(alsoKnownAs=[]),
    changed(alsoKnownAs=["https://x", "at://a.test", "at://b.test"]),
    changed(alsoKnownAs=["at://" + "a" * 3000]),
    changed(alsoKnownAs="at://a"),
    changed(rotationKeys=[]),
    changed(rotationKeys=[1]),
    changed(verificationMethods={}),
    changed(verificationMethods={"atproto": "k", "other": "k"}),
    changed(verificationMethods={"atproto": 7}),
    changed(verificationMethods={"atproto": "k" * 3000}),
    changed(services={}),
    changed(services={"atproto_pds": {"type": "x", "endpoint": ""}}),
    changed(services={"atproto_pds": {"type": "x", "endpoint": " localhost "}}),
    *(changed(services=service("https://" + "e" * size)) for size in (56, 57, 240, 248, 249, 3000)),
    changed(services={"atproto_pds": {"type": "x"}}),
    changed(services={"atproto_pds": "x", "other": {}}),
    changed(services={**OPERATION["services"], "other": {"type": "x", "endpoint": "y"}}),
    orjson.dumps({name: LINE[name] for name in reversed(LINE)}),
    orjson.dumps({**LINE, "operation": dict(reversed(OPERATION.items()))}),
    orjson.dumps({**LINE, "nullified": False}),
    orjson.dumps({**LINE, "operation": None}),
]

"""Records as JSON for the tests of counting them: sound, odd and wrong ones, and as entries."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from random import Random

DEEPEST = 1024  # Objects and arrays inside each other that are still read.

POST = (
    b'{"$type":"app.bsky.feed.post","createdAt":"2024-03-09T08:00:00.000Z","langs":["en","pt-BR"],'
    b'"text":"caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x90\x9f \\"x\\" \\\\","reply":{"root":{"createdAt":'
    b'"2001-01-01","langs":["xx"],"n":[1,-2.5e+3,true,false,null,{}]}},"n":0}'
)
LIKE = (
    b'{"$type":"app.bsky.feed.like","createdAt":"2023-11-30T00:00:00Z","subject":{"uri":"at://x"}}'
)


def _dated(value: bytes) -> bytes:
    return b'{"createdAt":' + value + b"}"


def _spoken(value: bytes) -> bytes:
    return b'{"langs":' + value + b"}"


def _holding(value: bytes) -> bytes:
    return b'{"x":' + value + b',"createdAt":"2024-01-01","langs":["de"]}'


def nested(depth: int, inside: bytes = b"") -> bytes:
    """A record of so many levels, itself counted."""
    return (
        b'{"createdAt":"2024-01-01","x":' + b"[" * (depth - 1) + inside + b"]" * (depth - 1) + b"}"
    )


_DATES = [
    b'"2024-03"', b'"2024-03-"', b'"2024-03x"', b'"2024-0"', b'"2024-00-01"', b'"2024-13"',
    b'"2024-12"', b'"1899-12-01"', b'"1900-01-01"', b'"2099-12-31"', b'"2100-01-01"',
    b'"0024-03-01"', b'""', b'"2"', b'"2024\\u002d03-01"', b'"\\u0032024-03"', b'"2024-03\\u002d"',
    b'"2024-03\\""', b'"2024-03\\n"', b'"2024-03\\u0000"', b'"2024-03\\u002"',
    b'"\\ud83d\\ude002024-03"', b'"2024-03-\\ud83d"', b'"20\xd9\xa2\xd9\xa4-03-01"',
    b'"2024-03\xc3\xa9"', b'"2024-03-\xff"', b"17", b"null", b"{}", b"[]", b'["2024-03-01"]',
    b'{"createdAt":"2024-03-01"}', b' "2024-03-01"\t', b'"2024-03-01" "x"', b"", b'"2024-03',
]  # fmt: skip
_LANGS = [
    b'["en","pt-BR","EN-gb","abc","ABC-x"]',
    b'["e","abcd","e-","en_","1a","e1","-","","en\\n","\xc3\xa9n"]',
    b'["\\u0065n","e\\u006e-x","en\\u002dx","en\\u0000","en\\"","en\\\\"]', b'"en"', b"{}",
    b'{"0":"en"}', b"[]", b"[ ]", b'[ "en" , "de" ]', b'[1,null,true,-2.5,"en"]',
    b'[["en"],{"en":["de"]},"fr"]', b'[["]"],"fr","[",",","it"]',
    b"[" + b",".join([b'"en"'] * 15 + [b'"de"', b'"fr"']) + b"]", b"[" + b"1," * 16 + b'"en"]',
    b'["en",]', b'["en"', b'[,"en"]', b'["en" "de"]', b"[null]", b'[{"a":"\\""},"en"]',
    b'["\\\\","en"]', b'["en"]]', b"[\x00]",
]  # fmt: skip
_VALUES = [
    b"0", b"-0", b"-", b"+1", b"01", b"-01", b"1.", b".5", b"1.5.5", b"1e", b"1e+", b"1E-7",
    b"1e5e5", b"0x10", b"0e999", b"1e308", b"1e309", b"-1e400", b"1e99", b"1e-400",
    b"1e" + b"9" * 40, b"1e-" + b"9" * 40, b"0." + b"0" * 400 + b"1e700", b"1.7976931348623157e308",
    b"1.7976931348623159e308", b"1797693134862315807e290", b"179769313486231581e291", b"9" * 308,
    b"9" * 309, b"1" * 250, b"0." + b"7" * 400, b"9" * 200 + b"e99", b"9" * 199 + b"e110",
    b"0" * 300, b"1 2", b"tru", b"true", b"truefalse", b"nul", b"NaN", b"Infinity", b"-Infinity",
    b"True", b"'a'", b"/**/1", b"1//", b'"\\', b'"\\"', b'"\\u"', b'"\\u12"', b'"\\u12g4"',
    b'"\\x41"', b'"\\/\\b\\f\\n\\r\\t\\"\\\\"', b'"\\uD83D\\uDE00"', b'"\\ud83d"', b'"\\ude00"',
    b'"\\ud83d\\u0041"', b'"\\ud83d\\ud83d\\ude00"', b'"\\ud83d\\n"', b'"\\ud83d\\', b'"\x1f"',
    b'"\x7f"', b'"\n"', b'"\x00"', b'"' + b"a" * 15 + b'\x01"', b'"\xc3"', b'"\xc0\x80"',
    b'"\xe0\x80\x80"', b'"\xed\xa0\x80"', b'"\xef\xbf\xbf"', b'"\xf4\x8f\xbf\xbf"',
    b'"\xf4\x90\x80\x80"', b'"\xf5"', b'"\x80"', b'"' + "日本語の長い文".encode() * 9 + b'"',
    b'"' + "日本語の長い文".encode() * 9 + b'\xe6\x97"', b'"' + b"\xc3\xa9" * 30 + b'\\n"',
    b'"' + b"x" * 100 + b'\\u00e9' + b"y" * 100 + b'"', b"[]", b"{}", b"[ ]", b"{ }", b"[1,]",
    b"[,1]", b"[1 2]", b'{"a":1,}', b'{,}', b'{"a"}', b'{"a":}', b'{"a" 1}', b"{1:2}", b"{a:1}",
    b'{"a":1 "b":2}', b"[[]", b"[]]", b"[}", b"{]", b"[{]}", b'{"a":[}]', b"",
    b"[[[[[[[[[[]]]]]]]]]]",
]  # fmt: skip

ODD_JSON: list[bytes] = [
    POST, LIKE, b"", b" ", b"{}", b"[]", b"null", b"{", b"}", b"{}}", b"{} {}", b"{}\n",
    b"\n\t\r {}", b"\x0b{}", b"\xef\xbb\xbf{}", b"{}\x00", b'"x"', b"1", b'{"a":1', b'{"a', b'{"a"',
    b'{"a":', b'{"a":"', b'{"a":1,', b'{"a":1,"', *map(_dated, _DATES), *map(_spoken, _LANGS),
    *map(_holding, _VALUES), b'{ "createdAt" : "2024-03-01" , "langs" : [ "en" ] } ',
    b'{"createdAt":"2024-01-01","createdAt":"2024-02-01","langs":["en"],"langs":["de"]}',
    b'{"createdAt":"2024-01-01","createdAt":1,"langs":["en"],"langs":null}',
    b'{"created\\u0041t":"2024-01-01","\\u006cangs":["en"]}',
    b'{"\\u0063reatedAt":"2024-01-01","lang\\u0073":["en"]}',
    b'{"createdAt\\u0000":"2024-01-01","langs\\u0000":["en"]}',
    b'{"langs\\n":["en"],"createdA\\t":"2024-01-01"}',
    b'{"createdat":"2024-01-01","Langs":["en"],"createdAt ":"2024-01-01","lang":["en"],"":["en"]}',
    b'{"c":"2024-01-01","l":["en"],"langsx":["en"],"createdAtx":"2024-01-01"}',
    b'{"x":{"langs":["en"]},"y":[{"createdAt":"2024-01-01"}]}',
    b'{"\xff":1,"createdAt":"2024-01-01"}', b'{"\xc3\xa9":1,"createdAt":"2024-01-01"}',
    b'{"a\x01":1,"createdAt":"2024-01-01"}',
    *(
        nested(depth, inside)
        for depth in (2, 63, 64, 65, 129, DEEPEST, DEEPEST + 1)
        for inside in (b"", b'{"langs":["en"]}')
    ),
]  # fmt: skip

# Bytes that mean something in JSON or UTF-8.
TELLING = b'"\\{}[]:, \n\t01e.-+utfn/\x00\x1f\x20\x7f\x80\xbf\xc2\xe3\xed\xf0\xf4\xff'


def as_entries(bodies: Iterable[bytes], rkey: bytes = b"3k") -> bytes:
    """As they lie in an unpacked collection."""
    start = struct.pack("<H", len(rkey)) + rkey
    return b"".join(start + struct.pack("<I", len(body)) + body for body in bodies)


def mutated(body: bytes, rng: Random) -> bytes:
    data = bytearray(body or b" ")
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at, size = rng.randrange(len(data)), rng.randrange(1, 12)
        match rng.randrange(7):
            case 0:
                data[at] = rng.choice(TELLING)
            case 1:
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                data[at:at] = bytes([rng.choice(TELLING)])
            case 3:
                del data[at : at + size]
            case 4:
                data[at:at] = data[rng.randrange(len(data)) :][:size]
            case 5:
                data[at:at] = rng.choice(ODD_JSON)[:40]
            case _:
                del data[at + 1 :]
        data = data or bytearray(b" ")
    return bytes(data)

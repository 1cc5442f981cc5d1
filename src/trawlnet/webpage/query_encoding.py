"""The query of a link in the encoding of its page, as browsers send it (WHATWG URL, 1.3)."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

_UNICODE = ("utf-8", "utf-16-le", "utf-16-be")  # Pages in UTF-16 send UTF-8, too.
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_KEPT = frozenset(range(0x21, 0x7F)) - frozenset(b"\"#<>'")
_FIRST_WRITTEN_IN_BIG5 = 0xA1  # First bytes below are those of Hong Kong, which are read only.
_JIS_0212 = 0x8F  # First byte of characters that EUC-JP reads only.


def with_query_in(codec: str, href: str) -> str:
    """What the encoding cannot say is sent as a character reference; the path is UTF-8 in any
    case, and the parser of URLs does the rest."""
    if codec in _UNICODE or href.isascii():
        return href
    near, mark, fragment = href.partition("#")
    path, question, query = near.partition("?")
    encoded = _FOREIGN.sub(lambda found: "".join(_pieces(codec, found[0])), query)
    return path + question + encoded + mark + fragment


def _pieces(codec: str, text: str) -> Iterator[str]:
    if codec == "iso2022-jp":
        yield from _shifted(codec, text)
        return
    for character in text:
        raw = _written(codec, character)
        yield _reference(character) if raw is None else _escaped(raw)


def _shifted(codec: str, text: str) -> Iterator[str]:
    """An encoding whose sequences hold until the next one: one character alone is no unit."""
    encoder = codecs.getincrementalencoder(codec)()
    for character in text:
        try:
            yield _escaped(encoder.encode(character))
        except UnicodeEncodeError:
            yield _escaped(encoder.encode("", final=True)) + _reference(character)
    yield _escaped(encoder.encode("", final=True))


def _written(codec: str, character: str) -> bytes | None:
    """Some encodings read more than they write; None for what is not written."""
    if codec == "gbk" and character == "\u20ac":
        return b"\x80"
    try:
        raw = character.encode("gb18030" if codec == "gbk" else codec)
    except UnicodeEncodeError:
        return None
    match codec:
        case "gbk":
            return raw if len(raw) <= 2 else None
        case "big5hkscs":
            return raw if raw[0] >= _FIRST_WRITTEN_IN_BIG5 else None
        case "euc-jp":
            return raw if raw[0] != _JIS_0212 else None
        case _:
            return raw


def _reference(character: str) -> str:
    return f"%26%23{ord(character)}%3B"


def _escaped(raw: bytes) -> str:
    # The second byte of a character may be ASCII, and is then sent as it is.
    return "".join(chr(one) if one in _KEPT else f"%{one:02X}" for one in raw)

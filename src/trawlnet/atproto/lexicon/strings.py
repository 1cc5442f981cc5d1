"""Strings as lexicons bound them: by bytes, by graphemes, by format, by a list."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import regex

from trawlnet.atproto.syntax import AtUri, is_cid, is_did, is_handle, is_nsid, is_record_key, is_tid
from trawlnet.malformed import Malformed

_GRAPHEME = regex.compile(r"\X")
_DATETIME = re.compile(
    r"(?!000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
    r"T(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d{1,20})?"
    r"(?:Z|\+(?:[01]\d|2[0-3]):[0-5]\d|-(?!00:00)(?:[01]\d|2[0-3]):[0-5]\d)\Z",
    re.ASCII,
)
_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,80}:[^\s\x00-\x1f]+\Z")
_LANGUAGE = re.compile(r"(?:i|[a-z]{2,3})(?:-[a-zA-Z0-9]{1,16})*\Z")
_LONGEST_URI = 8192  # Characters.


def string_problem(schema: Mapping[str, Any], value: str) -> str:
    """What is wrong with a string, in words that follow its name; empty for nothing."""
    if "const" in schema and value != schema["const"]:
        return "is not the constant"
    if "enum" in schema and value not in schema["enum"]:
        return "is not one of the allowed values"
    if what := _length_problem(schema, value) or _grapheme_problem(schema, value):
        return what
    form = schema.get("format")
    return f"is no {form}" if form and not _FORMATS[form](value) else ""


def graphemes(text: str) -> int:
    """What a reader would count as characters."""
    return sum(1 for _ in _GRAPHEME.finditer(text))


def has_format(name: object) -> bool:
    return name is None or (isinstance(name, str) and name in _FORMATS)


def _length_problem(schema: Mapping[str, Any], value: str) -> str:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if not least and most is None:
        return ""
    size = len(value.encode("utf-8", "surrogatepass"))
    if most is not None and size > most:
        return f"has {size} bytes, more than {most}"
    return f"has {size} bytes, fewer than {least}" if size < least else ""


def _grapheme_problem(schema: Mapping[str, Any], value: str) -> str:
    least, most = schema.get("minGraphemes", 0), schema.get("maxGraphemes")
    # Never more of them than code points, and counting takes time.
    if not least and (most is None or len(value) <= most):
        return ""
    count = graphemes(value)
    if most is not None and count > most:
        return f"has {count} characters, more than {most}"
    return f"has {count} characters, fewer than {least}" if count < least else ""


def _is_at_uri(text: str) -> bool:
    try:
        AtUri.parse(text)
    except Malformed:
        return False
    return True


def _is_uri(text: str) -> bool:
    return len(text) <= _LONGEST_URI and _URI.match(text) is not None


_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "at-identifier": lambda text: is_did(text) or is_handle(text),
    "at-uri": _is_at_uri,
    "cid": is_cid,
    "datetime": lambda text: _DATETIME.match(text) is not None,
    "did": is_did,
    "handle": is_handle,
    "language": lambda text: _LANGUAGE.match(text) is not None,
    "nsid": is_nsid,
    "record-key": is_record_key,
    "tid": is_tid,
    "uri": _is_uri,
}

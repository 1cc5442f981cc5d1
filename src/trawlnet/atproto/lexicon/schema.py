"""Lexicons: schemas of records as JSON files, and whether a record keeps to one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from trawlnet.atproto.lexicon.strings import has_format, string_problem
from trawlnet.atproto.syntax import is_cid, is_nsid
from trawlnet.malformed import Malformed

_DEEPEST = 64  # Levels of a value; deeper ones are made to hurt.
_REF_HOPS = 16  # References to references, which could go round.
_LONGEST_PATH = 120  # Characters of a path that is reported.

Definition = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Lexicon:
    nsid: str
    definitions: Mapping[str, Definition]

    @property
    def is_record(self) -> bool:
        return self.definitions.get("main", {}).get("type") == "record"


Lexicons = Mapping[str, Lexicon]


class Problem(NamedTuple):
    """The first thing that is wrong with a record."""

    path: str  # Where, such as `authors[2].name`; empty for the record itself.
    what: str

    def __str__(self) -> str:
        return f"{self.path[:_LONGEST_PATH] or 'the record'}: {self.what}"


def parse_lexicon(document: object) -> Lexicon:
    """Raises Malformed for what is no lexicon, so that a slip in a file is noticed on loading."""
    if not isinstance(document, dict) or document.get("lexicon") != 1:
        raise Malformed('not a lexicon: "lexicon": 1 is missing')
    nsid, definitions = document.get("id"), document.get("defs")
    if not isinstance(nsid, str) or not is_nsid(nsid):
        raise Malformed('a lexicon without an "id" that is an NSID')
    if not isinstance(definitions, dict) or not definitions:
        raise Malformed(f'the lexicon {nsid} has no "defs"')
    for name, definition in definitions.items():
        _require_sound(definition, f"{nsid}#{name}")
    return Lexicon(nsid, definitions)


def record_problem(lexicons: Lexicons, nsid: str, value: object) -> Problem | None:
    """None for a record that keeps to the lexicon of its collection, which must be there.

    Fields that the lexicon does not name are welcome, and so are values beyond the known ones.
    What refers to a lexicon that is not there may be anything.
    """
    if not isinstance(value, dict):
        return Problem("", "is not an object")
    if value.get("$type") != nsid:
        return Problem("$type", f"is not {nsid}")
    main = lexicons[nsid].definitions["main"]
    return _Check(lexicons).fields(main["record"], value, "", nsid, 0)


class _Check:
    """One walk down a value and its schema side by side. `home` is where `#name` is looked up."""

    def __init__(self, lexicons: Lexicons) -> None:
        self._lexicons = lexicons

    def value(
        self, schema: Definition, value: object, path: str, home: str, depth: int
    ) -> Problem | None:
        if depth > _DEEPEST:
            return Problem(path, f"is nested deeper than {_DEEPEST} levels")
        match schema["type"]:
            case "object":
                return self.fields(schema, value, path, home, depth)
            case "array":
                return self._array(schema, value, path, home, depth)
            case "ref":
                return self._ref(schema["ref"], value, path, home, depth)
            case "union":
                return self._union(schema, value, path, home, depth)
            case kind:
                what = _SCALARS[kind](schema, value)
                return Problem(path, what) if what else None

    def fields(
        self, schema: Definition, value: object, path: str, home: str, depth: int
    ) -> Problem | None:
        if not isinstance(value, dict):
            return Problem(path, "is not an object")
        nullable = schema.get("nullable", ())
        for name in schema.get("required", ()):
            if name not in value:
                return Problem(_below(path, name), "is missing")
        for name, inner in schema.get("properties", {}).items():
            if name not in value or (value[name] is None and name in nullable):
                continue
            problem = self.value(inner, value[name], _below(path, name), home, depth + 1)
            if problem:
                return problem
        return None

    def _array(
        self, schema: Definition, value: object, path: str, home: str, depth: int
    ) -> Problem | None:
        if not isinstance(value, list):
            return Problem(path, "is not an array")
        if what := _out_of_bounds(len(value), schema, "Length", "items"):
            return Problem(path, what)
        for number, item in enumerate(value):
            problem = self.value(schema["items"], item, f"{path}[{number}]", home, depth + 1)
            if problem:
                return problem
        return None

    def _ref(self, ref: str, value: object, path: str, home: str, depth: int) -> Problem | None:
        for _ in range(_REF_HOPS):
            nsid, _, name = ref.partition("#")
            home = nsid or home
            lexicon = self._lexicons.get(home)
            schema = lexicon.definitions.get(name or "main") if lexicon else None
            if schema is None:
                return None
            if schema["type"] == "record":
                schema = schema["record"]
            if schema["type"] != "ref":
                return self.value(schema, value, path, home, depth)
            ref = schema["ref"]
        return Problem(path, "refers to a definition that refers to itself")

    def _union(
        self, schema: Definition, value: object, path: str, home: str, depth: int
    ) -> Problem | None:
        kind = value.get("$type") if isinstance(value, dict) else None
        if not isinstance(kind, str):
            return Problem(path, "is not an object with a $type")
        for ref in schema["refs"]:
            if _full_name(ref, home) == _full_name(kind, home):
                return self._ref(ref, value, path, home, depth)
        return Problem(path, "has a $type that is not allowed") if schema.get("closed") else None


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _full_name(ref: str, home: str) -> str:
    nsid, _, name = ref.partition("#")
    return f"{nsid or home}#{name or 'main'}"


def _out_of_bounds(size: int, schema: Definition, suffix: str, unit: str) -> str:
    least, most = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if most is not None and size > most:
        return f"has {size} {unit}, more than {most}"
    if least is not None and size < least:
        return f"has {size} {unit}, fewer than {least}"
    return ""


def _boolean(schema: Definition, value: object) -> str:
    if not isinstance(value, bool):
        return "is not a boolean"
    return "is not the constant" if value is not schema.get("const", value) else ""


def _integer(schema: Definition, value: object) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return "is not an integer"
    if not -(1 << 63) <= value < 1 << 63:
        return "does not fit into 64 bits"
    if value != schema.get("const", value) or value not in schema.get("enum", (value,)):
        return "is not one of the allowed values"
    if value < schema.get("minimum", value) or value > schema.get("maximum", value):
        return "is out of range"
    return ""


def _string(schema: Definition, value: object) -> str:
    return string_problem(schema, value) if isinstance(value, str) else "is not a string"


def _bytes(schema: Definition, value: object) -> str:
    text = value.get("$bytes") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(text, str):
        return "is not bytes"
    return _out_of_bounds(len(text.rstrip("=")) * 3 // 4, schema, "Length", "bytes")


def _cid_link(schema: Definition, value: object) -> str:
    link = value.get("$link") if isinstance(value, dict) and len(value) == 1 else None
    return "" if isinstance(link, str) and is_cid(link) else "is not a link"


def _blob(schema: Definition, value: object) -> str:
    if not isinstance(value, dict):
        return "is not a blob"
    mime, size = value.get("mimeType"), value.get("size")
    if not isinstance(mime, str) or not mime:
        return "is a blob without a type"
    if "ref" not in value and isinstance(value.get("cid"), str):
        return ""  # As blobs were written before they had a size.
    if value.get("$type") != "blob" or _cid_link(schema, value.get("ref")):
        return "is not a blob"
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        return "is a blob without a size"
    if size > schema.get("maxSize", size):
        return f"is a blob of {size} bytes, more than {schema['maxSize']}"
    return "" if _is_accepted(mime, schema.get("accept", ("*/*",))) else "is a blob of another type"


def _is_accepted(mime: str, patterns: Sequence[str]) -> bool:
    return any(
        pattern in ("*/*", mime) or (pattern.endswith("/*") and mime.startswith(pattern[:-1]))
        for pattern in patterns
    )


def _unknown(schema: Definition, value: object) -> str:
    return "" if isinstance(value, dict) else "is not an object"


def _anything(schema: Definition, value: object) -> str:
    return ""


_SCALARS: Mapping[str, Callable[[Definition, object], str]] = {
    "boolean": _boolean,
    "integer": _integer,
    "string": _string,
    "bytes": _bytes,
    "cid-link": _cid_link,
    "blob": _blob,
    "unknown": _unknown,
    "token": _anything,
}
# Of endpoints, not of values: they may stand in a file, and no record is held to them.
_ENDPOINTS = frozenset(("query", "procedure", "subscription", "permission-set"))


def _require_sound(schema: object, place: str) -> None:
    """Everything that a check takes for granted."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(kind, str):
        raise Malformed(f'{place} has no "type"')
    match kind:
        case "record":
            _require_sound(schema.get("record"), f"{place}.record")
            if schema["record"]["type"] != "object":
                raise Malformed(f"{place}: a record must be an object")
        case "object":
            _require_texts(schema, ("required", "nullable"), place)
            properties = schema.get("properties", {})
            if not isinstance(properties, dict):
                raise Malformed(f'{place}: "properties" must be an object')
            for name, inner in properties.items():
                _require_sound(inner, f"{place}.{name}")
        case "array":
            _require_sound(schema.get("items"), f"{place}[]")
        case "ref" if not isinstance(schema.get("ref"), str):
            raise Malformed(f'{place} has no "ref"')
        case "union":
            _require_texts(schema, ("refs",), place)
            if "refs" not in schema:
                raise Malformed(f'{place} has no "refs"')
        case "string" if not has_format(schema.get("format")):
            raise Malformed(f"{place} has an unknown format")
        case _ if kind not in _SCALARS and kind not in _ENDPOINTS and kind != "ref":
            raise Malformed(f"{place} has the unknown type {kind!r}")
    _require_numbers(schema, place)


def _require_texts(schema: Definition, fields: Sequence[str], place: str) -> None:
    for field in fields:
        names = schema.get(field, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise Malformed(f'{place}: "{field}" must be a list of names')


_NUMBERS = (
    *("minLength", "maxLength", "minGraphemes", "maxGraphemes"),
    *("minimum", "maximum", "maxSize"),
)


def _require_numbers(schema: Definition, place: str) -> None:
    for field in _NUMBERS:
        if field in schema and not isinstance(schema[field], int):
            raise Malformed(f'{place}: "{field}" must be a whole number')

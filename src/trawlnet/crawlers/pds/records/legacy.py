"""Records as they were written in the beginning, in today's shape; the original is kept, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trawlnet.crawlers.pds.records.columns import at


@dataclass(frozen=True, slots=True)
class Legacy:
    """What older records of a collection have otherwise."""

    renamed: Mapping[str, str] = field(default_factory=dict)  # The old path: the new name.
    assumed: Mapping[str, Any] = field(default_factory=dict)  # Where there is nothing.
    authors: tuple[str, ...] = ()  # Fields that name the owner of the repo when they are missing.
    prose: tuple[str, ...] = ()  # Texts that are lists of passages today.
    blobs: tuple[str, ...] = ()  # Whose reference may be a bare string.
    is_untyped: bool = False  # Without a $type.


_LEGACY: Mapping[str, Legacy] = {
    "pub.chive.eprint.submission": Legacy(
        renamed={"license": "licenseSlug"},
        assumed={"licenseSlug": "CC-BY-4.0", "abstract": []},
        authors=("submittedBy",),
        prose=("abstract",),
        blobs=("document",),
        is_untyped=True,
    ),
    # A strong reference, as most other applications point at things.
    "pub.chive.review.comment": Legacy(renamed={"subject.uri": "eprintUri"}),
    "pub.chive.review.endorsement": Legacy(renamed={"subject.uri": "eprintUri"}),
    "pub.chive.eprint.userTag": Legacy(renamed={"subject.uri": "eprintUri"}),
    "pub.chive.eprint.tag": Legacy(renamed={"subject.uri": "eprintUri"}),
}


def modernised(collection: str, did: str, value: dict[str, Any]) -> dict[str, Any]:
    legacy = _LEGACY.get(collection)
    if legacy is None:
        return value
    record = {"$type": collection, **value} if legacy.is_untyped else dict(value)
    for path, name in legacy.renamed.items():
        old = at(record, path)
        if name not in record and old is not None:
            record[name] = old
    for name, default in legacy.assumed.items():
        record.setdefault(name, default)
    for name in legacy.authors:
        record.setdefault(name, did)
    for name in legacy.prose:
        record[name] = _passages(record.get(name))
    for name in legacy.blobs:
        if name in record:
            record[name] = _blob(record[name])
    return record


def _passages(prose: Any) -> Any:
    if isinstance(prose, str):
        return [{"type": "text", "content": prose}]
    if isinstance(prose, list):
        return [{"type": "text", "content": one} if isinstance(one, str) else one for one in prose]
    return prose


def _blob(blob: Any) -> Any:
    if not isinstance(blob, dict):
        return blob
    whole = {"$type": "blob", **blob}
    if isinstance(blob.get("ref"), str):
        whole["ref"] = {"$link": blob["ref"]}
    return whole

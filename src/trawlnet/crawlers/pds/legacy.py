"""Records as they were written in the beginning, in today's shape; the original is kept, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Legacy:
    """What older records of a collection have otherwise."""

    renamed: Mapping[str, str] = field(default_factory=dict)  # The old name: the new one.
    assumed: Mapping[str, Any] = field(default_factory=dict)  # Where there is nothing.
    authors: tuple[str, ...] = ()  # Fields that name the owner of the repo when they are missing.
    prose: tuple[str, ...] = ()  # Texts that are lists of passages today.
    blobs: tuple[str, ...] = ()  # Whose reference may be a bare string.


_LEGACY: Mapping[str, Legacy] = {
    "pub.chive.eprint.submission": Legacy(
        renamed={"license": "licenseSlug"},
        assumed={"licenseSlug": "CC-BY-4.0", "abstract": []},
        authors=("submittedBy",),
        prose=("abstract",),
        blobs=("document",),
    ),
}


def modernised(collection: str, did: str, value: dict[str, Any]) -> dict[str, Any]:
    legacy = _LEGACY.get(collection)
    if legacy is None:
        return value
    record = {"$type": collection, **value}
    for old, new in legacy.renamed.items():
        if new not in record and old in record:
            record[new] = record[old]
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

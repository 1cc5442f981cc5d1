"""From a repository's CAR to its archive block: in C where that was built, else in plain Python."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from trawlnet.archive.format import repoblock_plain
from trawlnet.archive.format.content import (
    DROP_REASONS,
    ERROR_KINDS,
    CollectionContent,
    DropReason,
    ExtractOptions,
    Packed,
    PackJob,
    ProofParts,
    RepoContent,
    RepoError,
)
from trawlnet.atproto.cbor_items import SHA256_LINK
from trawlnet.native.loader import block_encoder
from trawlnet.native.loader import native as _native

Buffer = bytes | bytearray | memoryview

DEFAULT_OPTIONS = ExtractOptions()
_Encoder = block_encoder()
_per_thread = threading.local()


def backend() -> str:
    return "plain" if _native is None else "native"


def extract(car: Buffer, options: ExtractOptions = DEFAULT_OPTIONS) -> RepoContent:
    """The records of a repository by collection. Raises RepoError for one that must be refused.

    Of the commit only the form is checked: whose it is and whether its signature holds is for the
    caller to ask, with `did`, `unsigned_commit` and `signature`.
    """
    if _native is None:
        return repoblock_plain.extract(car, options)
    return _extract_native(_native, car, options)


def encode_content(
    content: RepoContent, *, pds: str, crawled_at_us: int, zstd_level: int, key: bytes = b""
) -> bytes:
    """The finished archive block of a repository; one that can be proven where there are the parts
    for it. `key` is what signed the commit."""
    if _Encoder is None:
        return repoblock_plain.encode_content(content, pds, crawled_at_us, zstd_level, key)
    parts = content.proof
    proof = None if parts is None else (key, content.signature, parts.sums, parts.exceptions)
    block: bytes = _encoder(zstd_level).encode(
        content.did, pds, content.rev, crawled_at_us, content.collections, proof
    )
    return block


def pack(
    jobs: Sequence[PackJob], options: ExtractOptions, zstd_level: int
) -> list[Packed | RepoError | ValueError]:
    """Of each CAR, and of PACKED_AT_ONCE of them at most, its block, or why there is none; a
    ValueError says that the format cannot hold it. What `extract` and `encode_content` do, with the
    interpreter's lock asked for once."""
    if _Encoder is None:
        return [_packed_apart(job, options, zstd_level) for job in jobs]
    results = _encoder(zstd_level).pack(*_choices(options), tuple(jobs))
    packed: list[Packed | RepoError | ValueError] = []
    for job, result in zip(jobs, results, strict=True):
        if result[0]:
            kind, detail, place = result
            packed.append(RepoError(ERROR_KINDS[kind - 1], detail, place))
        elif result[-1] is None:
            packed.append(_packed_apart(job, options, zstd_level))
        else:
            _, did, rev, unsigned, signature, records, collections, dropped, block = result
            counts = _counts(dropped) if any(dropped) else {}
            packed.append(
                Packed(did, rev, unsigned, signature, records, collections, counts, block)
            )
    return packed


def _packed_apart(
    job: PackJob, options: ExtractOptions, zstd_level: int
) -> Packed | RepoError | ValueError:
    try:
        content = extract(job.car, replace(options, memory_limit=job.memory_limit))
        block = encode_content(
            content,
            pds=job.pds,
            crawled_at_us=job.crawled_at_us,
            zstd_level=zstd_level,
            key=job.key,
        )
    except (RepoError, ValueError) as error:
        return error
    return Packed(
        content.did,
        content.rev,
        content.unsigned_commit,
        content.signature,
        content.records,
        len(content.collections),
        content.dropped,
        block,
    )


def _choices(options: ExtractOptions) -> tuple[Any, ...]:
    """The options in the order in which the C takes them, all but the limit of memory."""
    return (
        options.verify_hashes,
        options.keep_cids or options.proof,
        options.proof,
        options.collections,
        options.max_record,
        options.max_json,
    )


def _extract_native(native: ModuleType, car: Buffer, options: ExtractOptions) -> RepoContent:
    result = native.extract(car, *_choices(options), options.memory_limit)
    if result[0]:
        kind, detail, place = result
        raise RepoError(ERROR_KINDS[kind - 1], detail, place)
    _, did, rev, root, unsigned, signature, payload, runs, dropped, records, filtered = result[:11]
    sums, exceptions = result[11:]
    view = memoryview(payload)
    return RepoContent(
        did=did,
        rev=rev,
        root=SHA256_LINK + root,
        unsigned_commit=unsigned,
        signature=signature,
        collections=[
            CollectionContent(name, count, view[start:end]) for name, count, start, end in runs
        ],
        records=records,
        filtered=filtered,
        dropped=_counts(dropped) if any(dropped) else {},
        proof=ProofParts(sums or b"", exceptions or b"") if options.proof else None,
    )


def _counts(dropped: tuple[int, ...]) -> dict[DropReason, int]:
    return {DROP_REASONS[number - 1]: count for number, count in enumerate(dropped) if count}


def _encoder(level: int) -> Any:
    """One per thread and level: making one costs more than a small repository."""
    encoders: dict[str, Any] = _per_thread.__dict__
    key = f"level {level}"
    if key not in encoders:
        encoders[key] = _Encoder(level)
    return encoders[key]

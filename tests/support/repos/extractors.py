"""Both extractions, for tests that hold for either, and how to look at what they give."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.child import ROOT
from trawlnet.archive.format import rca, repoblock, repoblock_plain
from trawlnet.archive.format.content import ExtractOptions, RepoContent, RepoError, RepoErrorKind

Extract = Callable[[bytes, ExtractOptions], RepoContent]

HAS_NATIVE = repoblock.backend() == "native"
BACKENDS = [pytest.param(repoblock_plain.extract, id="plain")]
if HAS_NATIVE:
    BACKENDS.append(pytest.param(repoblock.extract, id="native"))
UNVERIFIED = ExtractOptions(verify_hashes=False)

FIXTURES = ROOT.parent / "shared" / "fixtures"
needs_fixtures = pytest.mark.skipif(not FIXTURES.exists(), reason="no ../shared/fixtures")
needs_native = pytest.mark.skipif(not HAS_NATIVE, reason="the C extension is not built")


def records_of(content: RepoContent) -> dict[str, bytes]:
    return {
        f"{collection.name}/{record.rkey}": record.json
        for collection in content.collections
        for record in rca.iter_records(collection.data, collection.records)
    }


def refusal(extract: Extract, car: bytes, options: ExtractOptions = UNVERIFIED) -> RepoErrorKind:
    with pytest.raises(RepoError) as caught:
        extract(car, options)
    assert 0 <= caught.value.place <= len(car)
    return caught.value.kind


def verdict(extract: Extract, car: bytes, options: ExtractOptions) -> object:
    """All that an extraction says, in a form that compares."""
    try:
        content = extract(car, options)
    except RepoError as error:
        return error.kind
    collections = [(part.name, part.records, bytes(part.data)) for part in content.collections]
    return (
        (content.did, content.rev, content.root, content.unsigned_commit, content.signature),
        collections,
        (content.records, content.filtered, dict(content.dropped)),
        content.proof,
    )

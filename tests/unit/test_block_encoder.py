"""The compiled packer of blocks and its plain twin give the same bytes and refuse the same."""

from __future__ import annotations

import threading
from random import Random

import pytest

from tests.support.repos.extractors import needs_native
from trawlnet.archive.format import rca, repoblock, repoblock_plain
from trawlnet.archive.format.content import CollectionContent, RepoContent
from trawlnet.native import loader

pytestmark = needs_native


def content_of(*collections: tuple[str, int, bytes], did: str = "did:plc:a") -> RepoContent:
    parts = [CollectionContent(name, count, memoryview(data)) for name, count, data in collections]
    return RepoContent(did, "3jzfcijpj2z2a", b"", b"", b"", parts, 0, 0, {})


def both(content: RepoContent, level: int = 3, pds: str = "https://p.example") -> tuple[bytes, ...]:
    native = repoblock.encode_content(content, pds=pds, crawled_at_us=7, zstd_level=level)
    return native, repoblock_plain.encode_content(content, pds, 7, level)


def entries(dice: Random, size: int) -> bytes:
    """Text that can be compressed, as JSON can."""
    words = [dice.randbytes(3).hex().encode() for _ in range(40)]
    return b" ".join(dice.choices(words, k=size // 7 + 1))[:size]


def test_blocks_are_made_by_compiled_code_here() -> None:
    assert loader.block_encoder() is not None


@pytest.mark.parametrize("level", range(1, 20))
def test_every_level_gives_the_bytes_of_the_twin(level: int) -> None:
    dice = Random(level)
    sizes = (0, 1, 300, 20_000, 140_000, 300_000)
    parts = [(f"a.b.c{n}", n, entries(dice, size)) for n, size in enumerate(sizes)]
    native, plain = both(content_of(*parts), level)
    assert native == plain
    head = rca.check_block(native)
    assert [rca.decompress(native, one) for one in head.collections] == [p[2] for p in parts]


@pytest.mark.parametrize("parts", [[], [("a.b.c", 0, b"")], [("é" * 32_767, 2**32 - 1, b"x")]])
def test_odd_contents_give_the_bytes_of_the_twin(parts: list[tuple[str, int, bytes]]) -> None:
    native, plain = both(content_of(*parts, did="did:web:ü.example"))
    assert native == plain
    assert rca.check_block(native).did == "did:web:ü.example"


def test_data_that_cannot_be_compressed_find_room() -> None:
    noise = [(f"a.b.c{n:02d}", 1, Random(n).randbytes(100_000 + n)) for n in range(20)]
    native, plain = both(content_of(*noise))
    assert native == plain


@pytest.mark.parametrize(
    "content",
    [
        content_of(did="d" * 65_536),
        content_of(("é" * 32_768, 1, b"x")),
        content_of(*[(f"a.b.c{n:05d}", 1, b"") for n in range(65_536)]),
    ],
    ids=["did", "collection", "collections"],
)
def test_what_the_format_cannot_count_is_refused(content: RepoContent) -> None:
    with pytest.raises(ValueError, match="the format counts"):
        repoblock.encode_content(content, pds="", crawled_at_us=0, zstd_level=3)
    with pytest.raises(ValueError, match="the format counts"):
        repoblock_plain.encode_content(content, "", 0, 3)


@pytest.mark.parametrize(
    "collections",
    [[("a.b.c", -1, b"")], [("a.b.c", 2**32, b"")], [("a.b.c", 1)], [(1, 1, b"")], ["abc"], [7], 7],
)
def test_a_misshapen_collection_is_an_error(collections: object) -> None:
    encoder = loader.block_encoder()(3)
    with pytest.raises((ValueError, TypeError, OverflowError)):
        encoder.encode("did", "pds", "rev", 0, collections)
    with pytest.raises(TypeError):
        encoder.encode("did", "pds", "rev", 0, [("a.b.c", 1, "text")])
    assert encoder.encode("did", "pds", "rev", 0, [])


def test_an_encoder_serves_one_thread_at_a_time() -> None:
    encoder = loader.block_encoder()(19)
    parts = [("a.b.c", 1, entries(Random(1), 400_000))]
    made: list[bytes] = []
    worker = threading.Thread(
        target=lambda: made.append(encoder.encode("did", "pds", "rev", 0, parts))
    )
    worker.start()
    refused = 0
    while worker.is_alive():
        # Nothing that could be encoded: it must not take the encoder itself.
        with pytest.raises((TypeError, ValueError)) as caught:
            encoder.encode("did", "pds", "rev", 0, 7)
        refused += "another thread" in str(caught.value)
    worker.join()
    assert refused
    assert rca.decompress(made[0], rca.check_block(made[0]).collections[0]) == parts[0][2]

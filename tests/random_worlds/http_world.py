"""Answers put together at random: every part of one may be too long, odd, cut off or endless."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import brotli
import zstandard
from hypothesis import strategies as st

from tests.support.net.hostile_server import Exchange, HostileServer, hostile
from trawlnet.net.client.answer import RequestLimits

HONEST = b"honest " * 50
_FILL = 1 << 16  # Bytes that an endless part is sent in.

# A head that can be read in two ways. None of them is an answer.
ODD = (
    *(b"Transfer-Encoding: gzip", b"Transfer-Encoding: xchunked", b"Transfer-Encoding: identity"),
    *(b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: chunked;q=1"),
    *(b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: ,chunked"),
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip",
    b"Transfer-Encoding: chunked\r\nContent-Length: 4",
    b"Content-Length: 4\r\nTransfer-Encoding: chunked",
    *(b"Content-Length: 4\r\nContent-Length: 5", b"Content-Length: -4", b"Content-Length: 4, 4"),
)


@dataclass(frozen=True, slots=True)
class Part:
    kind: str  # "head", "framing" or "body".
    raw: bytes


@dataclass(frozen=True, slots=True)
class World:
    """One answer. What may be made of it follows from what is sent, not from how it is read."""

    status: int
    parts: tuple[Part, ...]
    truth: bytes  # The body, inflated.
    framing: str
    coding: str
    is_odd: bool
    is_folded: bool
    extra: bytes  # After the end.
    cut: int | None  # Bytes after which the connection ends.
    endless: int | None  # The part that is never over.
    pieces: int  # Bytes written at a time.

    @property
    def sent(self) -> Iterator[Part]:
        """The parts as far as they are sent before the connection ends."""
        left = sum(len(part.raw) for part in self.parts) if self.cut is None else self.cut
        for part in self.parts:
            yield Part(part.kind, part.raw[:left])
            left = max(0, left - len(part.raw))

    def size(self, kind: str) -> int:
        return sum(len(part.raw) for part in self.sent if part.kind == kind)

    @property
    def longest_run(self) -> int:
        """Bytes after the head that are no body, in a row."""
        longest = run = 0
        for part in self.sent:
            run = run + len(part.raw) if part.kind == "framing" else 0
            longest = max(longest, run)
        return longest

    @property
    def is_whole(self) -> bool:
        return self.cut is None and self.endless is None and not self.extra

    @property
    def raw(self) -> bytes:
        return b"".join(part.raw for part in self.parts)


def _sizes(limit: int) -> st.SearchStrategy[int]:
    """Around a threshold, mostly far below it."""
    around = st.sampled_from([limit - 300, limit - 1, limit, limit + 1, limit + 200_000, 3 * limit])
    return st.one_of(st.integers(0, 300), st.integers(0, 300), around.map(lambda n: max(0, n)))


@st.composite
def limits(draw: st.DrawFn) -> RequestLimits:
    return RequestLimits(
        total=60.0,
        header=draw(st.sampled_from([700, 5_000, 40_000, 65_536])),
        wire=draw(st.sampled_from([0, 1_000, 30_000, 300_000])),
        inflated=draw(st.sampled_from([0, 900, 50_000, 500_000])),
        error_body=draw(st.sampled_from([0, 10, 2_000])),
    )


@st.composite
def worlds(draw: st.DrawFn, bounds: RequestLimits) -> World:
    status = draw(st.sampled_from([200, 200, 200, 206, 404, 500]))
    coding = draw(st.sampled_from(["", "", "gzip", "deflate", "br", "zstd"]))
    truth = _text(draw(_sizes(draw(st.sampled_from([bounds.wire, bounds.inflated])))), draw)
    sent = _coded(truth, coding)
    framing = draw(st.sampled_from(["length", "chunked", "chunked", "to_the_end"]))
    is_odd = draw(st.integers(0, 9)) == 0
    folds = draw(st.sampled_from([0, 0, 0, 3, 5_000]))
    lines = [b"HTTP/1.1 %d %s" % (status, b"O" * draw(_sizes(bounds.header)))]
    for _ in range(draw(st.integers(0, 3))):
        lines.append(
            b"X-%s: %s" % (b"a" * draw(st.integers(1, 9)), b"v" * draw(st.integers(0, 99)))
        )
    lines += [b"X-Fold: x" + b"\r\n y" * folds] * bool(folds)
    lines += [b"X-Long: " + b"v" * draw(_sizes(bounds.header))] * draw(st.booleans())
    lines += [b"Content-Encoding: " + coding.encode()] * bool(coding)
    if is_odd:
        lines.append(draw(st.sampled_from(ODD)))
        framing = "odd"
    elif framing == "length":
        before, behind = (
            draw(st.sampled_from([b"", b" "])),
            draw(st.sampled_from([b"", b" ", b"\t"])),
        )
        lines.append(b"Content-Length%s: %d%s" % (before, len(sent), behind))
    elif framing == "chunked":
        space = draw(st.sampled_from([b"", b" "]))
        lines.append(
            b"Transfer-Encoding%s: %s" % (space, draw(st.sampled_from([b"chunked", b"Chunked"])))
        )
    hints = b"HTTP/1.1 103 Hint\r\nLink: %s\r\n\r\n" % (b"l" * draw(st.integers(0, 400)))
    hints *= draw(st.sampled_from([0, 0, 1, 3, 2_000]))
    parts = [Part("head", hints), Part("head", b"\r\n".join([*lines, b"", b""]))]
    parts += _chunks(sent, draw, bounds) if framing == "chunked" else [Part("body", sent)]
    total = sum(len(part.raw) for part in parts)
    ending = draw(st.sampled_from(["whole", "whole", "whole", "cut", "extra", "endless"]))
    has_extra = ending == "extra" and framing != "to_the_end"  # There it would be body.
    return World(
        status,
        tuple(parts),
        truth,
        framing,
        coding,
        is_odd,
        folds > 64,
        draw(st.binary(min_size=1, max_size=300)) if has_extra else b"",
        draw(st.integers(0, max(0, total - 1))) if ending == "cut" else None,
        draw(st.integers(0, len(parts) - 1)) if ending == "endless" else None,
        draw(st.sampled_from([7_000, 65_536, 1 << 20])),
    )


def _text(size: int, draw: st.DrawFn) -> bytes:
    seed = draw(st.integers(0, 255))
    # Some of it packs well, some does not.
    unit = bytes((seed + n * n * 31) % 256 for n in range(draw(st.sampled_from([1, 50, 5_000]))))
    return (unit * (size // len(unit) + 1))[:size]


def _coded(body: bytes, coding: str) -> bytes:
    if coding == "gzip":
        packer = zlib.compressobj(wbits=31)
        return packer.compress(body) + packer.flush()
    if coding == "deflate":
        return zlib.compress(body)
    if coding == "br":
        return bytes(brotli.compress(body, quality=3))
    return zstandard.compress(body) if coding == "zstd" else body


def _chunks(sent: bytes, draw: st.DrawFn, bounds: RequestLimits) -> list[Part]:
    size = draw(st.sampled_from([1, 7, 1_000, 70_000]))
    size = max(size, len(sent) // 20_000 + 1)
    zeros = b"0" * draw(st.sampled_from([0, 0, 3]))
    extension = b";x=" + b"e" * draw(_sizes(bounds.header)) if draw(st.booleans()) else b""
    parts = []
    for number, at in enumerate(range(0, len(sent), size)):
        piece = sent[at : at + size]
        # One large extension, or a small one around every chunk.
        wrapped = extension if number == 0 or len(extension) < 50 else b""
        parts.append(Part("framing", b"%s%x%s\r\n" % (zeros, len(piece), wrapped)))
        parts += [Part("body", piece), Part("framing", b"\r\n")]
    trailers = b"".join(
        b"T%d: %s\r\n" % (n, b"t" * draw(_sizes(bounds.header)))
        for n in range(draw(st.sampled_from([0, 0, 1, 4])))
    )
    return [*parts, Part("framing", b"0\r\n" + trailers + b"\r\n")]


@dataclass
class Sent:
    """The log of the server: what the client let it send."""

    size: int = 0
    answers: list[str] = field(default_factory=list)


@asynccontextmanager
async def served(world: World, sent: Sent) -> AsyncIterator[HostileServer]:
    async def script(exchange: Exchange) -> None:
        sent.answers.append(exchange.path)
        if exchange.path == "/honest":
            await exchange.answer(body=HONEST)
            return
        for part in _pieces(world):
            await exchange.send(part)
            sent.size += len(part)
        while world.endless is not None:
            await exchange.send(b"z" * _FILL)
            sent.size += _FILL
            await asyncio.sleep(0)
        exchange.keep = world.is_whole and world.framing in ("length", "chunked")

    async with hostile(script) as server:
        yield server


def _pieces(world: World) -> list[bytes]:
    if world.endless is not None:
        # Up to the middle of the part that goes on for ever.
        begun = [part.raw for part in world.parts[: world.endless]]
        raw = b"".join(begun) + world.parts[world.endless].raw[:-4]
    else:
        raw = (world.raw + world.extra)[: world.cut]
    return [raw[at : at + world.pieces] for at in range(0, len(raw), world.pieces)]

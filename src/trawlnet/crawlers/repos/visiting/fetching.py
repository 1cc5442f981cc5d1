"""The body of a repository: in memory, or in a file when memory is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import orjson

from trawlnet.archive.format.repoblock import Buffer
from trawlnet.crawlers.atproto.answers import error_outcome
from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.repos.visiting.bodies import Bodies
from trawlnet.crawlers.repos.visiting.memory import FIRST_BYTES, Ticket
from trawlnet.crawlers.repos.visiting.spill import Spills, Unspillable
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.net.client.answer import RequestLimits, Response, Stream, outcome_of
from trawlnet.net.trouble import Trouble

_CAR = {"Accept": "application/vnd.ipld.car"}
_SMALL = RequestLimits(total=60.0, wire=64 << 10, inflated=64 << 10)
_AT_ONCE = 16 << 20  # Bytes that a server's word is enough to set aside.
_REV_MAX = 64  # Characters; a rev has 13.


@dataclass(frozen=True, slots=True)
class BodyRoom:
    """Where one body may go."""

    ticket: Ticket
    spills: Spills
    bodies: Bodies


async def fetch_repo(
    http: Getter, pds: str, did: str, lane: str, limits: RequestLimits, room: BodyRoom
) -> Buffer | Outcome:
    """The CAR of a repository, or what came instead."""
    url = _url(pds, "getRepo", did)
    async with http.stream(url, lane=lane, headers=_CAR, limits=limits) as answer:
        if isinstance(answer, Trouble):
            return outcome_of(answer)
        if answer.reason is not Reason.OK:
            return _no_success(await answer.whole())
        if (size := answer.announced) and size <= _AT_ONCE:
            if room.ticket.hold(size):
                return await _filled(room.bodies.take(size), answer)
            room.ticket.keep(0)
        body = bytearray()
        async for piece in answer:
            if isinstance(piece, Trouble):
                return outcome_of(piece)
            body += piece
            if not room.ticket.hold(len(piece)):
                return await _spilled(body, answer, room)
        return body


async def _filled(body: bytearray | memoryview, answer: Stream) -> Buffer | Outcome:
    trouble = await answer.fill(body)
    return body if trouble is None else outcome_of(trouble)


async def _spilled(body: bytearray, answer: Stream, room: BodyRoom) -> Buffer | Outcome:
    """What has come of the body and what is still to come, from a file."""
    try:
        async with room.spills.file() as file:
            await file.append(body)
            body.clear()  # Not a new one: the caller still has this one.
            room.ticket.keep(FIRST_BYTES)  # To be gathered for the next append.
            async for piece in answer:
                if isinstance(piece, Trouble):
                    return outcome_of(piece)
                body += piece
                if len(body) >= FIRST_BYTES:
                    await file.append(body)
                    body.clear()
            await file.append(body)
            room.ticket.keep(0)
            return file.mapped()
    except Unspillable as refusal:
        return refusal.outcome()


async def latest_rev(http: Getter, pds: str, did: str, lane: str) -> str | Outcome:
    """The rev that the server has now, or what came instead."""
    url = _url(pds, "getLatestCommit", did)
    answer = await http.get(url, lane=lane, limits=_SMALL)
    if isinstance(answer, Trouble) or answer.reason is not Reason.OK:
        return _no_success(answer)
    try:
        fields = orjson.loads(answer.body)
    except ValueError:
        fields = None
    rev = fields.get("rev") if isinstance(fields, Mapping) else None
    if not isinstance(rev, str) or not 0 < len(rev) <= _REV_MAX:
        return Outcome(Reason.PARSE_ERROR, detail="a latest commit without a rev")
    return rev


def _url(pds: str, method: str, did: str) -> str:
    return f"{pds}/xrpc/com.atproto.sync.{method}?did={quote(did, safe=':')}"


def _no_success(answer: Response | Trouble) -> Outcome:
    return outcome_of(answer) if isinstance(answer, Trouble) else error_outcome(answer)

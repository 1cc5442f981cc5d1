"""Checks whether a host is a PDS, with at most two requests."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import orjson

from trawlnet.atproto.syntax import is_did
from trawlnet.crawlers.metered import Getter
from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock
from trawlnet.net.client.answer import RequestLimits, Response
from trawlnet.net.lane import lane_of
from trawlnet.net.trouble import Trouble

# Redirects are not followed: a PDS answers itself, and a redirect may lead into our network.
_LIMITS = RequestLimits(
    total=10.0, connect=5.0, wire=64 << 10, inflated=64 << 10, error_body=4 << 10, redirects=0
)
_USUAL_WAIT = 60.0  # Seconds, if a host asks to wait without a time.
_RELAY_SOFTWARE = "atproto-relay"


class HostFinding(StrEnum):
    """A closed set: metric label, and key of the messages for users."""

    PDS = "pds"
    FORBIDDEN = "forbidden"  # Our guard refuses the address.
    SILENT = "silent"  # No connection, or no whole answer in time.
    UNWELL = "unwell"  # An answer, but not the one a working PDS gives.
    STRANGER = "stranger"  # A server of another kind.
    RELAY = "relay"
    BUSY = "busy"  # It asked us to wait.


async def examine(http: Getter, gate: Gate, clock: Clock, url: str) -> HostFinding:
    """Check a host with at most two requests. Raises LaneParked if its turn would come too late for
    the waiting caller."""
    lane = lane_of(url)
    if (ready := gate.ready_at(lane)) > clock.now() + _LIMITS.total:
        raise LaneParked(lane, ready)
    answer = await http.get(f"{url}/xrpc/com.atproto.server.describeServer", limits=_LIMITS)
    finding = described(answer)
    if finding is HostFinding.BUSY:
        # No other request goes to the host meanwhile, not even of a scan for a caller.
        gate.park(lane, clock.now() + (answer.wait or _USUAL_WAIT))
    if finding is not HostFinding.PDS:
        return finding
    hosts = await http.get(f"{url}/xrpc/com.atproto.sync.listHosts?limit=1", limits=_LIMITS)
    return HostFinding.RELAY if lists_hosts(hosts) else HostFinding.PDS


def described(answer: Response | Trouble) -> HostFinding:
    """The finding from an answer to describeServer."""
    if answer.reason is Reason.RATE_LIMITED:
        return HostFinding.BUSY
    if isinstance(answer, Trouble):
        return _TROUBLES.get(answer.reason, HostFinding.SILENT)
    if any(_RELAY_SOFTWARE in word.lower() for word in answer.headers.getall("Server", ())):
        return HostFinding.RELAY
    if answer.reason is not Reason.OK:
        return HostFinding.UNWELL
    body = _object(answer.body)
    did = body.get("did")
    if not isinstance(did, str) or not is_did(did):
        return HostFinding.STRANGER
    domains = body.get("availableUserDomains")
    return HostFinding.PDS if isinstance(domains, list) else HostFinding.STRANGER


_TROUBLES = {
    Reason.REFUSED: HostFinding.FORBIDDEN,
    Reason.TOO_LARGE: HostFinding.STRANGER,
    Reason.PARSE_ERROR: HostFinding.STRANGER,
}


def lists_hosts(answer: Response | Trouble) -> bool:
    """Whether the host lists hosts, which only a relay does."""
    if isinstance(answer, Trouble) or answer.reason is not Reason.OK:
        return False
    return isinstance(_object(answer.body).get("hosts"), list)


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}

"""Whether a host that somebody names is a PDS: asked politely, believed with care."""

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

# Redirects are not followed: a PDS answers for itself, and whoever redirects may mean our network.
_LIMITS = RequestLimits(
    total=10.0, connect=5.0, wire=64 << 10, inflated=64 << 10, error_body=4 << 10, redirects=0
)
_USUAL_WAIT = 60.0  # Seconds, where a host that has enough does not say for how long.
_RELAY_SOFTWARE = "atproto-relay"


class HostFinding(StrEnum):
    """A closed set: metric label, and key of what people are told."""

    PDS = "pds"
    FORBIDDEN = "forbidden"  # Our guard does not let us go there.
    SILENT = "silent"  # No connection, or no whole answer in time.
    UNWELL = "unwell"  # An answer, but not the one a working PDS gives.
    STRANGER = "stranger"  # A server of another kind.
    RELAY = "relay"
    BUSY = "busy"  # It asked us to wait.


async def examine(http: Getter, gate: Gate, clock: Clock, url: str) -> HostFinding:
    """Ask a host what it is: two requests at the most. Raises LaneParked when its turn would not
    come while somebody waits."""
    lane = lane_of(url)
    if (ready := gate.ready_at(lane)) > clock.now() + _LIMITS.total:
        raise LaneParked(lane, ready)
    answer = await http.get(f"{url}/xrpc/com.atproto.server.describeServer", limits=_LIMITS)
    finding = described(answer)
    if finding is HostFinding.BUSY:
        # Nobody else asks it meanwhile, a scan for somebody included.
        gate.park(lane, clock.now() + (answer.wait or _USUAL_WAIT))
    if finding is not HostFinding.PDS:
        return finding
    hosts = await http.get(f"{url}/xrpc/com.atproto.sync.listHosts?limit=1", limits=_LIMITS)
    return HostFinding.RELAY if lists_hosts(hosts) else HostFinding.PDS


def described(answer: Response | Trouble) -> HostFinding:
    """What an answer to describeServer says about the host."""
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
    """Only a relay knows hosts; a PDS has no such method."""
    if isinstance(answer, Trouble) or answer.reason is not Reason.OK:
        return False
    return isinstance(_object(answer.body).get("hosts"), list)


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}

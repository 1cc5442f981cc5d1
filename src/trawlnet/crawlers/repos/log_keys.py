"""The keys that DIDs have had, as the directory's own logs prove them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from trawlnet.atproto.identity.plc import check_log, parse_log_line, state_after
from trawlnet.crawlers.errors import Unanswered
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.directory import open_directory
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock
from trawlnet.malformed import Malformed
from trawlnet.net.client.answer import RequestLimits, outcome_of
from trawlnet.net.trouble import Trouble

_LIMITS: Final = RequestLimits(total=30.0, wire=4 << 20, inflated=4 << 20)
_NONE: Final = (Reason.NOT_FOUND, Reason.DEACTIVATED)


async def keys_in_logs(
    config: ReposConfig, clock: Clock, dids: Sequence[str]
) -> dict[str, list[str]]:
    """One request for each DID, at the pace of the mirror; every operation of each log is checked.
    Raises Unanswered where the directory does not answer."""
    found: dict[str, list[str]] = {}
    async with open_directory(config, clock) as directory:
        for did in dids:
            answer = await directory.http.get(f"{directory.url}/{did}/log/audit", limits=_LIMITS)
            if isinstance(answer, Trouble) or answer.reason is not Reason.OK:
                outcome = outcome_of(answer)
                if outcome.reason in _NONE:
                    continue
                raise Unanswered(
                    f"{directory.url} does not give the log of {did}: {outcome.detail}",
                    "try again later, or compare with a mirror: -w",
                )
            found[did] = keys_of_log(did, answer.body)
    return found


def keys_of_log(did: str, body: bytes) -> list[str]:
    """None for a log that does not prove itself."""
    try:
        log = [parse_log_line(line) for line in orjson.loads(body)]
        undone = check_log(did, log).nullified
        states = [state_after(did, one.operation) for one in log if one.cid not in undone]
    except (ValueError, TypeError, Malformed):
        return []
    keys = ((state.verification_methods or {}).get("atproto") for state in states)
    return [key for key in keys if key]

"""The keys that DIDs have had, for `repos verify --proofs`: by a PLC mirror or by a directory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from trawlnet.atproto.identity.plc import parse_log_line, state_after
from trawlnet.atproto.identity.plc_log import check_log
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.workspace import Workspace, find
from trawlnet.cli.repos.plc import open_directory
from trawlnet.crawlers.errors import Unanswered
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.tables_place import tables_place
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock
from trawlnet.malformed import Malformed
from trawlnet.net.client.answer import RequestLimits, outcome_of
from trawlnet.net.clock import SystemClock
from trawlnet.net.trouble import Trouble
from trawlnet.tables.clickhouse.open import opened_to_read
from trawlnet.tables.clickhouse.plc import signing_keys

_LIMITS = RequestLimits(total=30.0, wire=4 << 20, inflated=4 << 20)  # Of one log.
_NONE = (Reason.NOT_FOUND, Reason.DEACTIVATED)

_Keys = Mapping[str, Sequence[str]]  # By DID; none for one that nobody knows.
_LookUp = Callable[[Sequence[str]], _Keys]


def of_mirror(workspace: Path) -> _LookUp:
    config = load_section(find(workspace, "repos"), ReposConfig).config
    where = tables_place(config, workspace)

    async def look_up(dids: Sequence[str]) -> _Keys:
        async with opened_to_read(where) as tables:
            return await signing_keys(tables, dids)

    return lambda dids: asyncio.run(look_up(dids))


def of_directory(plc_url: str) -> _LookUp:
    flags: dict[str, Any] = {"plc_url": plc_url}
    config = load_section(Workspace(Path(), "repos"), ReposConfig, flags).config
    return lambda dids: asyncio.run(keys_in_logs(config, SystemClock(), dids))


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

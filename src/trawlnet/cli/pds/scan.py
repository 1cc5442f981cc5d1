"""`trawlnet pds scan`: scan some PDSes now, or one account."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from trawlnet.atproto.syntax import is_did
from trawlnet.cli.common.errors import Exit, UsageTrouble
from trawlnet.cli.common.flags import Folder, Json, flag
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import RUNS, Verb
from trawlnet.cli.common.workspace import Workspace, create
from trawlnet.cli.crawl.signals import until_signal
from trawlnet.crawlers.contact import agent_for
from trawlnet.crawlers.pds.build import Kit, open_kit, owner, scan_parts
from trawlnet.crawlers.pds.config import PdsConfig, gap, lease
from trawlnet.crawlers.pds.records.routing import Routes
from trawlnet.crawlers.pds.registry_place import state_folder
from trawlnet.crawlers.pds.scanning.claimed import ClaimContext, scan_account
from trawlnet.crawlers.pds.scanning.named import NamedScans, scan_batch, scan_each
from trawlnet.crawlers.pds.scanning.parts import ScanParts, ScanResult
from trawlnet.crawlers.pds.scanning.presence import present, release_dead
from trawlnet.crawlers.pds.scanning.scan import scan_did
from trawlnet.crawlers.pds.scanning.slice import ScanSlice
from trawlnet.engine.ports import Clock
from trawlnet.net.clock import SystemClock
from trawlnet.observe.lanes import shown as harmless
from trawlnet.observe.metrics.crawl import CrawlMetrics

_KEYS = (
    *("registry", "plc_url", "plc_rps", "domain_budget", "collections", "index_tags", "batch"),
    *("mentions", "concurrency", "requests_per_minute", "scan_timeout", "claim_timeout"),
    *("max_records_per_pds", "max_records_per_account"),
    *("allow_private_hosts", "contact"),
)
_DETAIL_CHARS = 200
_PLC = re.compile(r"did:plc:[a-z2-7]{24}")
_TELL_EVERY = 10.0  # Seconds between two lines about one PDS.
# One account is read in one go; nobody's is larger than this.
_ACCOUNT_SECONDS = 86_400.0
_ACCOUNT_RECORDS = 10_000_000

Urls = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="URL", help="PDSes to scan, due or not; without any, a batch of due PDSes."
    ),
]
Did = Annotated[str | None, flag("--did DID", "Only this account's records.")]


OneSlice = Annotated[
    bool,
    flag(
        "--one-slice",
        "Stop each scan after --scan-timeout or --max-records-per-pds, and exit with code 0 even "
        "if records are left unread.",
    ),
]


def scan(
    *,
    urls: Urls = None,
    workspace: Folder,
    did: Did = None,
    one_slice: OneSlice = False,
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Scan PDSes now, each to its end, in slices of --scan-timeout.

    Ctrl-C saves the progress; the next scan continues from there.
    """
    config = load_section(Workspace(workspace, "pds"), PdsConfig, flags).config
    if did is not None:
        _check_account(did, urls or ())
    agent_for(config.contact, allow_private=config.allow_private_hosts)
    create(workspace, "pds")
    wish = _ScanRequest(urls or [], did, one_slice)
    return until_signal(_scan_all(config, workspace, wish, json))


def _check_account(did: str, urls: Sequence[str]) -> None:
    form = "scan URL --did did:plc:..., with all 24 characters, or did:web:..."
    # The general syntax of DIDs accepts a did:plc that is too short.
    if not is_did(did) or (did.startswith("did:plc:") and not _PLC.fullmatch(did)):
        raise UsageTrouble(f"--did takes a DID: {did[:_DETAIL_CHARS]!r} is not a DID", form)
    if len(urls) != 1:
        raise UsageTrouble("--did takes a DID and one PDS", form)


@dataclass(frozen=True, slots=True)
class _ScanRequest:
    urls: Sequence[str]
    did: str | None
    one_slice: bool


async def _scan_all(config: PdsConfig, path: Path, wish: _ScanRequest, as_json: bool) -> int:
    clock, reported, bad, looked, held = SystemClock(), 0, 0, 0, set[str]()

    def tell(url: str, result: ScanResult | str) -> None:
        nonlocal reported, bad, looked
        reported += 1
        row = {"pds_url": url} | ({"did": wish.did} if wish.did else {}) | _row(result)
        held.update(row.get("held", ()))
        # A PDS that refused, or was not read to its end, may have matching records.
        looked += row["result"] == "complete" and row["reason"] != "refused"
        bad += row["result"] not in (("complete", "partial") if wish.one_slice else ("complete",))
        emit(row) if as_json else say(_line(row))

    async with open_kit(config, path, clock, CrawlMetrics("pds", clock)) as kit:
        what = f"{len(wish.urls):,} PDSes" if len(wish.urls) > 1 else "".join(wish.urls)
        pace = f"at most {config.requests_per_minute:g} requests a minute to each"
        say(f"scanning {harmless(what, _DETAIL_CHARS) or 'what is due'}, {pace}")
        await _scan(kit, wish, tell)
    if not reported:
        say("no PDS is due; name one to scan it now")
    for glob in Routes(config.collections).unmatched(held) if looked else ():
        say(f"hint: no record there matches --collections {glob}")
    return Exit.GIVEN_UP if bad else Exit.DONE


async def _scan(
    kit: Kit, wish: _ScanRequest, tell: Callable[[str, ScanResult | str], None]
) -> None:
    parts, config, clock = await scan_parts(kit), kit.config, kit.clock
    urls = wish.urls
    # The PDSes are claimed and finished one after the other, so one claim name is enough.
    name, held = owner(clock), lease(config)
    context = ClaimContext(kit.registry, clock, name, held, gap(config), _tell_wait)
    scans = NamedScans(
        context,
        kit.gate,
        lambda url, owner: ScanSlice(parts, url, owner, clock.now() + config.scan_timeout),
        config.concurrency,
        wish.one_slice,
        _teller(clock),
    )
    state = state_folder(kit.workspace)
    await release_dead(kit.registry, state, clock.now())
    with present(state, name):
        if wish.did is not None:
            tell(urls[0], await _account(context, parts, config, wish))
        elif urls:
            await scan_each(scans, urls, tell)
        else:
            await scan_batch(scans, config.batch, parts.routes.scope.digest, tell)


async def _account(
    context: ClaimContext, parts: ScanParts, config: PdsConfig, wish: _ScanRequest
) -> ScanResult | str:
    clock, did = context.clock, wish.did or ""
    seconds = config.scan_timeout if wish.one_slice else _ACCOUNT_SECONDS
    whole = replace(parts, limits=replace(parts.limits, records=_ACCOUNT_RECORDS))
    bounded = parts if wish.one_slice else whole
    context = context if wish.one_slice else replace(context, lease=_ACCOUNT_SECONDS)

    async def scan(url: str) -> ScanResult:
        return await scan_did(
            bounded, url, did, lease=context.owner, deadline=clock.now() + seconds
        )

    return await scan_account(context, wish.urls[0], scan, clock.now() + lease(config))


def _tell_wait(url: str, seconds: float) -> None:
    say(
        f"{harmless(url, _DETAIL_CHARS)}: another process scans it; waiting for the end of its "
        f"slice, {seconds:.0f} s at most"
    )


def _teller(clock: Clock) -> Callable[[str, ScanResult], None]:
    reported: dict[str, float] = {}

    def tell(url: str, so_far: ScanResult) -> None:
        now = clock.now()
        if now - reported.get(url, -_TELL_EVERY) < _TELL_EVERY:
            return
        reported[url] = now
        left = f", {so_far.left:,} left" if so_far.left else ""
        why = f": {harmless(so_far.detail, _DETAIL_CHARS)}" if so_far.verdict == "put_off" else ""
        say(
            f"{harmless(url, _DETAIL_CHARS)}: {so_far.repos:,} repos read{left}, "
            f"{so_far.found:,} records, {so_far.requests:,} requests so far{why}; "
            "the scan continues"
        )

    return tell


def _row(result: ScanResult | str) -> dict[str, Any]:
    if isinstance(result, str):
        return {"result": "refused", "reason": result, "detail": ""}
    row: dict[str, Any] = {"result": result.verdict, "reason": result.reason}
    row |= {"detail": result.detail, "found": result.found, "indexed": result.indexed}
    row |= {"skipped": result.skipped, "failed": result.failed, "held": dict(result.held)}
    return row | {"repos": result.repos, "left": result.left, "requests": result.requests}


def _line(row: Mapping[str, Any]) -> str:
    detail = f": {harmless(row['detail'], _DETAIL_CHARS)}" if row["detail"] else ""
    words = f"{harmless(row['pds_url'], _DETAIL_CHARS)}: {row['result']} ({row['reason']}){detail}"
    if "found" not in row:
        return words
    return (
        f"{words}; {row['found']:,} records read, {row['indexed']:,} indexed, "
        f"{sum(row['held'].values()):,} in all; requests: {row['requests']:,}"
    )


SCAN = Verb(
    scan,
    "pds scan -w ./net https://pds.example --contact you@example.org",
    RUNS,
    "pds",
    PdsConfig,
    _KEYS,
)

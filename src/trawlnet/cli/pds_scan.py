"""`trawlnet pds scan`: scan some PDSes now, or one account."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trawlnet.cli.errors import Exit, UsageTrouble
from trawlnet.cli.flags import Folder, Json, variables, with_flags
from trawlnet.cli.sections import load_section
from trawlnet.cli.signals import until_signal
from trawlnet.cli.talk import emit, say
from trawlnet.cli.workspace import Workspace, create
from trawlnet.crawlers.pds.config import PdsConfig, lease
from trawlnet.formats.syntax import is_did
from trawlnet.observe.lanes import shown as harmless

if TYPE_CHECKING:  # Only a scan that runs pays for the import.
    from trawlnet.crawlers.pds.build import Kit
    from trawlnet.crawlers.pds.scan_parts import ScanResult

_KEYS = (
    *("registry", "plc_url", "plc_rps", "domain_budget", "collections", "index_tags", "batch"),
    *("concurrency", "requests_per_minute", "scan_timeout", "max_records_per_pds"),
    *("allow_private_hosts", "contact"),
)
_DETAIL_CHARS = 200

Urls = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="URL", help="PDSes, due or not; without any, a batch of those that are due."
    ),
]
Did = Annotated[
    str | None,
    typer.Option("--did", metavar="DID", show_envvar=False, help="Only this account's records."),
]


def add_scan_verb(app: typer.Typer) -> None:
    app.command(
        "scan",
        epilog="Example: trawlnet pds scan -w ./net https://pds.example --contact you@example.org",
        context_settings=variables("pds"),
    )(with_flags(PdsConfig, _KEYS, scan))


def scan(
    *,
    urls: Urls = None,
    workspace: Folder,
    did: Did = None,
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Scan PDSes now. A scan that is cut short goes on from there the next time."""
    config = load_section(Workspace(workspace, "pds"), PdsConfig, flags).config
    if did is not None and (not is_did(did) or len(urls or ()) != 1):
        raise UsageTrouble("--did takes a DID and one PDS", "scan URL --did did:plc:...")
    create(workspace, "pds")
    return until_signal(_scan_all(config, workspace, urls or [], did, json))


async def _scan_all(
    config: PdsConfig, path: Path, urls: Sequence[str], did: str | None, as_json: bool
) -> int:
    from trawlnet.crawlers.pds.build import open_kit
    from trawlnet.net.clock import SystemClock
    from trawlnet.observe.metrics import Metrics

    clock, bad = SystemClock(), 0

    def tell(url: str, result: ScanResult | str) -> None:
        nonlocal bad
        row = {"pds_url": url} | ({"did": did} if did else {}) | _row(result)
        bad += row["result"] not in _GOOD
        emit(row) if as_json else say(_line(row))

    async with open_kit(config, path, clock, Metrics("pds", clock)) as kit:
        await _scan(kit, urls, did, tell)
    return Exit.GIVEN_UP if bad else Exit.DONE


_GOOD = ("complete", "partial")


async def _scan(
    kit: Kit, urls: Sequence[str], did: str | None, tell: Callable[[str, ScanResult | str], None]
) -> None:
    from trawlnet.crawlers.pds.build import owner, scan_parts, scanning
    from trawlnet.crawlers.pds.claimed import Bench, scan_batch, scan_each
    from trawlnet.crawlers.pds.scan import scan_did

    parts, config, clock = await scan_parts(kit), kit.config, kit.clock
    if did is not None:
        deadline = clock.now() + config.scan_timeout
        tell(urls[0], await scan_did(parts, urls[0], did, deadline=deadline))
        return
    # Each PDS is claimed and finished in turn, so that one name serves for all of them.
    name, held = owner(clock), lease(config)
    bench = Bench(kit.registry, scanning(parts), clock, name, held, config.scan_timeout)
    if urls:
        await scan_each(bench, urls, config.concurrency, tell)
    else:
        await scan_batch(bench, config.batch, config.concurrency, tell)


def _row(result: ScanResult | str) -> dict[str, Any]:
    if isinstance(result, str):
        return {"result": "refused", "reason": result, "detail": ""}
    row: dict[str, Any] = {"result": result.verdict, "reason": result.reason}
    row |= {"detail": result.detail, "found": result.found, "indexed": result.indexed}
    row |= {"skipped": result.skipped, "failed": result.failed, "held": dict(result.held)}
    return row | {"repos": result.repos, "requests": result.requests}


def _line(row: Mapping[str, Any]) -> str:
    detail = f": {harmless(row['detail'], _DETAIL_CHARS)}" if row["detail"] else ""
    words = f"{harmless(row['pds_url'], _DETAIL_CHARS)}: {row['result']} ({row['reason']}){detail}"
    if "found" not in row:
        return words
    return f"{words}; {row['found']:,} records read, {row['indexed']:,} indexed"

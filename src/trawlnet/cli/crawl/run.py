"""Running a crawl: put its parts together, steer it, show it, and say how it ended."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TextIO, cast

from pydantic import BaseModel

from trawlnet.cli.common.errors import CliError, Exit, UsageTrouble, explain
from trawlnet.cli.common.output import Lasting, say
from trawlnet.cli.common.settings import Settings
from trawlnet.cli.common.workspace import Workspace, locked, shown, write_snapshot
from trawlnet.cli.crawl.alerting import begun, ended, refuse_bad_webhook, sending_alerts
from trawlnet.cli.crawl.crawler import C, Crawler, CrawlPlan, RunnableCrawler
from trawlnet.cli.crawl.dashboard_child import variables_for, with_dashboard
from trawlnet.cli.crawl.ending import CrawlEnded, emit_summary, given_up_on, sum_up
from trawlnet.cli.crawl.status import cursor_of, status_row
from trawlnet.cli.crawl.steering import ControlFiles, answering, beside, steered_by_signals
from trawlnet.cli.crawl.tracing import tracing
from trawlnet.crawlers.errors import SourceUnread
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Parts, crawl
from trawlnet.engine.outcome import Reason
from trawlnet.hinted import Hinted
from trawlnet.loading import load
from trawlnet.net.clock import SystemClock
from trawlnet.net.loop import new_loop
from trawlnet.net.redact import redacted
from trawlnet.observe.alerts.rules import OVER
from trawlnet.observe.alerts.shapes import Alert
from trawlnet.observe.alerts.watcher import Watcher
from trawlnet.observe.live import Live
from trawlnet.observe.logs.writer import LoggedTries, logging_to
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.exporter import MetricsAddressError, parse_address, serving_metrics
from trawlnet.observe.progress import ProgressMeter, shown_counts
from trawlnet.observe.terminal.render import plain_line
from trawlnet.observe.terminal.view import Style, showing
from trawlnet.observe.traces.wrappers import traced
from trawlnet.storage.errors import StoppedWaiting

log = logging.getLogger(__name__)

_SNAPSHOT_EVERY = 1.0  # Seconds; how old the figures of `status` may be while a crawl runs.
_GARBAGE = 5_000  # Objects made between two looks for cycles, of which a crawl makes few.


@dataclass(frozen=True, slots=True)
class Job(Generic[C]):
    runnable: RunnableCrawler[C]
    workspace: Workspace
    settings: Settings[C]
    reload: Callable[[], Settings[C]]  # Reads the config again.
    as_json: bool
    dashboard: str = ""  # Where to serve one, as HOST:PORT; empty for nowhere.

    @property
    def crawler(self) -> Crawler[C]:
        return self.runnable.crawler


def check_ready(crawler: Crawler[C], config: C, path: Path) -> None:
    """Raises what is wrong with the config, while there is no workspace yet."""
    plan = crawler.plan(config)
    if plan.metrics_address:
        check_address(plan.metrics_address)
    refuse_bad_webhook(plan.webhook)
    crawler.ready(config, path)


def run_crawl(job: Job[C]) -> int:
    """Start or continue the crawl of a workspace; returns the exit code."""
    plan = job.crawler.plan(job.settings.config)
    # What runs beside a crawl may have begun in the same second.
    suffix = f".{job.workspace.role}" if job.workspace.figures != job.workspace.state else ""
    name = f"{job.crawler.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}{suffix}"
    with (
        # Around the lock: the dashboard cleans up after the crawl, when the lock is free.
        with_dashboard(job.dashboard, job.workspace, _dashboard_variables(job)),
        locked(job.workspace),
        logging_to(job.workspace.logs, name, say) as log_file,
    ):
        # An earlier process left it, which in a container had the same pid.
        job.workspace.snapshot_file.unlink(missing_ok=True)
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                say(f"crawling into {shown(job.workspace.path)}; log in {shown(log_file)}")
                summary = redacted(job.settings.config.model_dump(mode="json"))
                log.info("crawl began", extra={"config": json.dumps(summary)})
                _tune_memory()
                return runner.run(_CrawlRun(job, plan).whole())
        except asyncio.CancelledError:
            return Exit.INTERRUPTED  # A signal came before the crawl began.
        except Exception as error:
            # The caller prints the error; the log gets its traceback.
            event = "crawl failed" if explain(error) else "crawl failed: this is a bug"
            log.info(event, extra={"error": repr(error)}, exc_info=error)
            raise


def run_fleet(job: Job[C]) -> int | None:
    """Run the crawl as many processes if the config asks for a fleet, else return None."""
    config = job.settings.config
    if not getattr(config, "fleet", ""):
        return None
    run: Callable[[C, Workspace, bool], int] = load(job.crawler.fleet)
    with with_dashboard(job.dashboard, job.workspace, _dashboard_variables(job)):
        return run(config, job.workspace, job.as_json)


def _dashboard_variables(job: Job[C]) -> Mapping[str, str]:
    """The variables that a dashboard needs to find the same state, and to name the contact."""
    keys = (*job.crawler.located_by, "fleet", "contact", "allow_private_hosts")
    return variables_for(job.crawler.name, job.settings.config, keys)


def _tune_memory() -> None:
    """Exempt the objects of start-up, which live until the end, from garbage collection: to scan
    them again and again takes a twentieth of a crawl's time."""
    gc.freeze()
    gc.set_threshold(_GARBAGE)


class _CrawlRun(Generic[C]):
    """The state that the coroutines around one crawl share."""

    def __init__(self, job: Job[C], plan: CrawlPlan) -> None:
        self.job = job
        self.plan = plan
        self.config = job.settings.config
        self.clock = SystemClock()
        self.begun = self.clock.now()
        self.control = Control(plan.workers)
        self.metrics = CrawlMetrics(job.crawler.name, self.clock)
        self.metrics.folder = job.workspace.path
        self.parts: Parts[Any] | None = None

    async def whole(self) -> int:
        async with sending_alerts(self.job.crawler.name, self.plan.webhook, self.clock) as alerts:
            self.metrics.alerts = alerts
            return await self.steered()

    async def steered(self) -> int:
        job, control = self.job, self.control
        files = ControlFiles(job.workspace, control)
        files.look()
        with (
            tracing(job.crawler.name, self.clock) as self.metrics.ways,
            steered_by_signals(control, self.reload, lambda: self.parts is not None) as asked,
        ):
            place = job.workspace.path
            opened = job.runnable.open(self.config, place, self.clock, self.metrics)
            async with opened as parts:
                self.parts = parts
                self.tell(begun(job.crawler.name, await parts.store.counts(), self.begun))
                unread: SourceUnread | None = None
                try:
                    ending = await self.crawl(parts, asked, files)
                except SourceUnread as trouble:  # Told behind what came of the others.
                    ending, unread = Ending.DONE, trouble
                counts = await shown_counts(parts)
                await self.snapshot(parts)
        seconds = self.clock.now() - self.begun
        left_out = job.crawler.left_out(job.workspace.path)
        words = job.crawler.tell_left_out(left_out)
        verb = job.crawler.verb
        known = explain(unread) if unread else None
        summary = CrawlEnded(
            *(job.workspace, ending, counts, control, seconds, left_out, words, verb),
            unread=known.code if known else None,
            private=job.crawler.private if job.crawler.private in left_out else "",
        )
        given_up = given_up_on(counts)
        self.tell(ended(job.crawler.name, summary.story, given_up, self.clock.now()))
        (emit_summary if job.as_json else sum_up)(summary)
        log.info("crawl ended", extra={"ending": ending, "exit_code": int(summary.code)})
        if unread is not None:
            raise unread
        return summary.code

    async def crawl(self, parts: Parts[Any], asked: asyncio.Event, files: ControlFiles) -> Ending:
        metrics = self.metrics
        parts = replace(
            parts,
            handler=metrics.timed(LoggedTries(parts.handler)),
            sink=None if parts.sink is None else metrics.weighed(parts.sink),
        )
        progress = ProgressMeter(self.job.crawler.name, parts, self.control, metrics.yields)

        async def answer() -> str:
            return plain_line(await progress.snapshot())

        scrape = metrics.watch(parts, self.control)
        live = self.live(parts, progress)
        watcher = Watcher(self.metrics, parts, self.control, self.tell)
        style = _style(self.job.as_json)
        out = Lasting(sys.stdout if style is Style.JSON else sys.stderr)
        await self.snapshot(parts)
        try:
            async with (
                exporting(scrape.text, self.plan.metrics_address),
                beside(files.watch(), answering(asked, answer), self.snapshots(parts), live.run()),
                beside(watcher.run()),
                showing(progress, style, cast(TextIO, out)),
            ):
                ending = await crawl(traced(parts, metrics.ways), self.plan.limits, self.control)
                progress.ended = True
                await live.look(last=True)
                await watcher.look()
                return ending
        except StoppedWaiting as stopped:
            log.info("sink abandoned", extra={"error": stopped.message})
            say(stopped.message)
            say(f"hint: {stopped.hint}")
            return Ending.DRAINED
        except asyncio.CancelledError:
            # After the second signal the crawl has released everything; only the summary is left.
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            return Ending.DRAINED

    def tell(self, alert: Alert) -> None:
        if alert.title.removesuffix(OVER) not in self.plan.own_alerts:
            self.metrics.alerts.tell(alert)

    def live(self, parts: Parts[Any], progress: ProgressMeter) -> Live:
        async def retry(reason: Reason | None) -> int:
            if parts.ledger is None:
                return 0  # A scrape: what it gives up on is put back into its spool.
            reopened = await parts.ledger.retry(reason)
            self.control.look_again()
            return reopened

        return Live(
            self.job.workspace.figures,
            self.clock,
            progress.figures,
            parts.gate,
            retry,
            lambda: self.metrics.figures,
        )

    async def snapshots(self, parts: Parts[Any]) -> None:
        while True:
            await asyncio.sleep(_SNAPSHOT_EVERY)
            await self.snapshot(parts)

    async def snapshot(self, parts: Parts[Any]) -> None:
        """Save the figures where `status` finds them; the sink reports a full disk."""
        row = status_row(self.job.crawler.name, await shown_counts(parts))
        now = self.clock.now()
        row |= {
            "cursor": await cursor_of(_position(parts)),
            "running": os.getpid(),
            "workers": self.control.shown_workers,
            "rate": round(self.control.figures.window.rate(now), 2),
            **parts.facts(),
        }
        try:
            write_snapshot(self.job.workspace, row)
        except OSError as error:
            log.warning("status not written", extra={"error": str(error)})

    def reload(self) -> None:
        """Apply what can change while running; say what cannot."""
        try:
            fresh = self.job.reload().config
        except (Hinted, OSError) as error:
            say(f"config not reloaded, the old one stays in force: {error}")
            return
        changed = _changes(self.config, fresh)
        live = {key: change for key, change in changed.items() if key in self.job.crawler.live}
        if live:
            plan = self.job.crawler.plan(fresh)
            self.control.workers = plan.workers
            if self.parts is not None:
                self.parts.gate.retune(plan.manners)
            self.config = self.config.model_copy(update={key: getattr(fresh, key) for key in live})
        say(_reloaded(live, sorted(changed.keys() - live.keys())))


def _position(parts: Parts[Any]) -> object:
    """The part that knows the crawl's position."""
    frontier = None if parts.feed is None else parts.feed.frontier
    return parts.ledger if frontier is None else frontier


def _style(as_json: bool) -> Style:
    if as_json:
        return Style.JSON
    return Style.LIVE if sys.stderr.isatty() else Style.PLAIN


def _changes(old: BaseModel, new: BaseModel) -> dict[str, str]:
    before, after = old.model_dump(), new.model_dump()
    said_before, said_after = redacted(before), redacted(after)
    return {
        key: f"{said_before[key]} -> {said_after[key]}"
        for key in after
        if before[key] != after[key]
    }


def _reloaded(live: Mapping[str, str], dead: Sequence[str]) -> str:
    words = [f"{key} {change}" for key, change in live.items()]
    if dead:
        words.append(f"in effect after a restart: {', '.join(dead)}")
    return "config reloaded: " + ("; ".join(words) or "nothing changed")


def check_address(address: str) -> None:
    try:
        parse_address(address)
    except MetricsAddressError as error:
        raise UsageTrouble(error.message, error.hint) from None


@asynccontextmanager
async def exporting(scrape: Callable[[], Awaitable[bytes]], address: str) -> AsyncIterator[None]:
    if not address:
        yield
        return
    try:
        async with serving_metrics(scrape, address) as url:
            say(f"metrics on {url}")
            yield
    except MetricsAddressError as error:
        raise CliError(error.message, error.hint) from None

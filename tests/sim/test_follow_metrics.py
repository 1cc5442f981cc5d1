"""What Prometheus sees of a follower is what the simulated network did, by its own log."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.pages.dashboard_run import Dashboard, dashboard_of
from tests.support.program import PATIENCE, Started, trawlnet
from tests.support.repos.followed import (
    LiveWorld,
    folded_events,
    follow_flags,
    following,
    live_world,
)
from trawlnet.atproto.firehose.refusal import Refusal
from trawlnet.crawlers.repos.following.judging import Rejection
from trawlnet.sim.atproto.live.event_log import LoggedEvent
from trawlnet.sim.atproto.live.relay_stream import Mischief

METRICS = ("--metrics-address", "127.0.0.1:0")
# Repositories that are asked for a second time stay out of step for as long as a test lasts.
PATIENT = ("--resync-pause", "300")


class Scraped:
    def __init__(self, text: str) -> None:
        self.families = {one.name: one for one in text_string_to_metric_families(text)}

    def one(self, name: str) -> float:
        (value,) = self.by(name).values()
        return value

    def by(self, name: str) -> dict[str, float]:
        """By the value of its only label."""
        family = self.families[f"trawlnet_follow_{name}"]
        return {next(iter(one.labels.values()), ""): one.value for one in family.samples}

    def grown(self, name: str) -> dict[str, float]:
        return {label: value for label, value in self.by(name).items() if value}


def scraped(started: Started) -> Scraped:
    started.says("metrics on")
    found = re.search(r"metrics on (\S+)", started.err)
    assert found, started.err
    with urllib.request.urlopen(found[1], timeout=PATIENCE) as answer:
        return Scraped(answer.read().decode())


def until(started: Started, true: Callable[[Scraped], bool], what: str) -> Scraped:
    last: list[Scraped] = []

    def is_true() -> bool:
        last[:] = [scraped(started)]
        return true(last[0])

    started.until(is_true, what)
    return last[0]


def sent(living: LiveWorld) -> list[LoggedEvent]:
    """Everything that the relay has told."""

    async def look() -> list[LoggedEvent]:
        return list(living.world.relay_stream.log.after(0, 10**6))

    events: list[LoggedEvent] = living.run(look())
    return events


def until_read(started: Started, living: LiveWorld) -> Scraped:
    kinds = Counter(event.kind for event in sent(living))
    return until(
        started,
        lambda now: sum(now.by("frames").values()) == kinds.total(),
        f"all of {kinds}",
    )


def test_a_scrape_tells_what_the_network_did(tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    with live_world(21, tmp_path, accounts=40, hosts=3) as living:
        flags = (*follow_flags(living.world), *PATIENT, *METRICS)
        with following(tmp_path, "crawl", workspace, "--follow", *flags) as started:
            truth = living.truth()
            started.until(lambda: folded_events(workspace).content == truth, "the backfill")
            some = living.writers()
            forged, strange, dropped, good = some[:4], some[4:7], some[7:8], some[8:]
            assert len(good) >= 5

            living.write(good)
            living.write(forged, Mischief.FORGE)
            living.write(strange, Mischief.STRANGER)
            living.write(dropped, Mischief.DROP)
            until_read(started, living)
            now = until(
                started,
                lambda now: now.by("rejected")["bad_signature"] == len(forged),
                "the forged ones",
            )
            kinds = Counter(event.kind for event in sent(living))
            assert kinds["#unheard"] == len(strange)
            assert now.grown("frames") == {
                "commit": kinds["#commit"],
                "unknown": kinds["#unheard"],
            }
            assert now.one("verified") == kinds["#commit"] - len(forged)
            assert now.grown("rejected") == {"bad_signature": len(forged)}
            assert set(now.by("rejected")) == {*map(str, Refusal), *map(str, Rejection)}
            assert now.grown("resyncs_begun") == {}, "a bad signature moves nobody"

            # Behind what was forged or dropped, the chain is broken.
            living.write([*forged, *dropped])
            until_read(started, living)
            now = until(
                started,
                lambda now: now.by("resyncs_ended")["fetched"] == len(dropped),
                "the repository of which a commit was dropped",
            )
            assert now.grown("resyncs_begun") == {"broken_chain": len(forged) + len(dropped)}
            assert now.one("desynchronized") == now.one("waiting_frames") == len(forged)
            assert now.one("waiting_bytes") > 1000 * len(forged)
            assert now.one("events") == folded_events(workspace).lines
            assert now.one("gaps") == now.one("comparing") == 0
            host = living.world.relay.partition("://")[2]
            assert now.by("connected") == {host: 1}
            assert set(now.by("seconds_behind")) == {host}
            assert 0 <= now.one("seconds_behind") < PATIENCE
            shows_the_same(started, workspace, now)
        reports_the_same(workspace, now)


def shows_the_same(started: Started, workspace: Path, now: Scraped) -> None:
    """The page of a dashboard beside the follower."""
    expected = {
        "commits verified": f"{now.one('verified'):,.0f}",
        "messages rejected": f"{sum(now.by('rejected').values()):,.0f}",
        "desynchronized": f"{now.one('desynchronized'):.0f}",
        "messages waiting": f"{now.one('waiting_frames'):.0f}",
        "events": f"{now.one('events'):,.0f}",
    }
    with dashboard_of(workspace) as site:
        started.until(lambda: ">connected<" in site.ask("GET", "/").text, "the firehose")
        # It reads what the follower writes down once a second.
        started.until(lambda: expected.items() <= tiles(site).items(), f"{expected} in its tiles")


def tiles(site: Dashboard) -> dict[str, str]:
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", site.ask("GET", "/").text))


def reports_the_same(workspace: Path, now: Scraped) -> None:
    """When nobody follows any more."""
    live = trawlnet("repos", "report", workspace / "archive", "--json").rows[0]["live"]
    assert live["verified"] == now.one("verified")
    assert live["rejected"] == now.grown("rejected")
    assert live["desynchronized"] == now.one("desynchronized")
    assert live["resyncs_begun"] == now.grown("resyncs_begun")
    page = workspace.parent / "report.html"
    assert trawlnet("repos", "report", workspace / "archive", "-o", page).code == 0
    html = page.read_text()
    assert "<h2>Live following</h2>" in html and ">bad signature<" in html


def test_a_gap_is_told_of_until_every_server_was_listed(tmp_path: Path) -> None:
    """An archive from before the first message: what its servers list is compared."""
    workspace = tmp_path / "net"
    with live_world(22, tmp_path, accounts=30, hosts=3) as living:
        flags = follow_flags(living.world)
        assert trawlnet("repos", "crawl", "-w", workspace, *flags).code in (0, 3)
        changed = living.writers()
        assert {one.host for one in changed} == {0, 1, 2}, "each server has some"
        living.write(changed)
        with following(tmp_path, "follow", workspace, *flags, *METRICS) as started:
            now = until(
                started,
                lambda now: now.one("gaps") == 1 and now.one("comparing") == 0,
                "the comparison",
            )
            assert now.grown("resyncs_begun") == {"gap": len(changed)}
            now = until(started, lambda now: now.one("desynchronized") == 0, "the visits")
            assert now.grown("resyncs_ended") == {"fetched": len(changed)}
            assert now.one("verified") == 0, "no message has come"

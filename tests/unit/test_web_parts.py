"""Small parts of the web crawler: what is met lately, caps, budgets, seeds, proxies, tasks."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from pathlib import Path

import pytest
from pydantic import ValidationError

from trawlnet.captures.page import KnownPage
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.web.admission.budget import Budget
from trawlnet.crawlers.web.admission.caps import Caps
from trawlnet.crawlers.web.admission.policy import CapKey
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.discoveries import spool_options
from trawlnet.crawlers.web.plan import manners_of, reading_of, retry_of
from trawlnet.crawlers.web.source import read_seeds, remember_seeds
from trawlnet.crawlers.web.visiting.known import stored_bodies
from trawlnet.crawlers.web.visiting.linking import Recent
from trawlnet.crawlers.web.visiting.site import Proxies
from trawlnet.crawlers.web.work import PageVisit, changed_key, may_be_conditional, read_task
from trawlnet.engine.task import Task
from trawlnet.net.address import host_of, is_literal
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.web import LINK_FATES, WebMeter


def test_a_link_is_news_once_and_again_only_when_it_is_nearer() -> None:
    recent = Recent()
    assert recent.news(["a", "b", "a"], 3) == [0, 1]
    assert recent.news(["a", "b"], 3) == []
    assert recent.news(["a", "b"], 2) == [0, 1]
    recent.refuse("a")
    assert recent.news(["a"], 0) == []


def test_what_is_met_lately_is_bounded_and_keeps_what_is_used() -> None:
    recent = Recent(most=100)
    recent.news(["often"], 1)
    for start in range(0, 1000, 50):
        recent.news([f"key{n}" for n in range(start, start + 50)], 1)
        assert recent.news(["often"], 1) == []
    assert recent.news(["key0"], 1) == [0]
    assert len(recent._young) + len(recent._old) <= 300


def scopes(url: str, page_type: str) -> list[CapKey]:
    return [CapKey("site", url[0], 2)]


def test_a_cap_waits_for_pages_that_may_fail_and_counts_successes() -> None:
    async def main() -> None:
        caps = Caps(scopes, lambda scope: int(scope.scope == "a"))
        assert await caps.take(Task("a1", ""), "a1", "") == ""
        waiting = asyncio.create_task(caps.take(Task("a2", ""), "a2", ""))
        await asyncio.sleep(0)
        assert not waiting.done() and caps.full("a3", "") == ""
        caps.leave("a1", "", fetched=False)
        assert await waiting == ""
        refused = asyncio.create_task(caps.take(Task("a3", ""), "a3", ""))
        await asyncio.sleep(0)
        caps.leave("a2", "", fetched=True)
        assert "2 of a" in await refused
        assert await caps.take(Task("b1", ""), "b1", "") == ""

    asyncio.run(main())


def test_a_cap_counts_what_a_process_beside_this_one_has_fetched() -> None:
    async def main() -> None:
        there: Counter[str] = Counter()
        caps = Caps(scopes, lambda scope: there[scope.scope])
        assert await caps.take(Task("a1", ""), "a1", "") == ""
        caps.leave("a1", "", fetched=True)
        there["a"] = 2  # One of them is a1.
        assert "2 of a" in await caps.take(Task("a2", ""), "a2", "")
        assert "2 of a" in caps.full("a3", "")

    asyncio.run(main())


def test_a_budget_is_exact_though_some_pages_fail() -> None:
    async def main() -> None:
        budget = Budget(5, None, lambda: 0)
        kept = 0

        async def page(number: int) -> None:
            nonlocal kept
            if await budget.take():
                await asyncio.sleep(0)
                budget.leave(fetched=number % 3 != 0)
                kept += number % 3 != 0

        await asyncio.gather(*(page(n) for n in range(30)))
        assert kept == 5 and budget.spent()

    asyncio.run(main())


def test_seeds_come_from_everywhere_once_and_are_remembered(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("# no\n\nhttps://a.org/#top\nb.org\n")
    remember_seeds(tmp_path, ["https://c.org/"])
    remember_seeds(tmp_path, ["https://c.org/"])
    found = read_seeds(tmp_path, ["https://a.org/"])
    assert found == ["https://a.org/", "https://b.org/", "https://c.org/"]
    (tmp_path / "seeds.txt").write_text("https://a.org/\nftp://b.org/\n")
    with pytest.raises(NotReady, match=r"seeds\.txt, line 2"):
        read_seeds(tmp_path, [])


def test_a_proxy_is_chosen_by_host_and_its_password_is_not_told() -> None:
    proxies = Proxies("http://10.0.0.1:3128", {"A.org": "http://user:pw@proxy.example"})
    assert proxies.url_for("a.org") == "http://user:pw@proxy.example"
    assert proxies.url_for("b.org") == "http://10.0.0.1:3128"
    assert proxies.name_for("https://a.org/x") == "proxy.example"
    assert Proxies(None, {}).url_for("a.org") is None
    for wrong in ("socks5://a:1", "a:1", "http://", "http://a:b"):
        with pytest.raises(NotReady):
            Proxies(wrong, {})
    with pytest.raises(NotReady) as refused:
        Proxies("https://user:pw@x@proxy.example:1", {})
    assert "pw" not in refused.value.message


def test_a_visit_is_read_back_from_its_task_with_the_depth_of_its_score() -> None:
    visit = PageVisit("http://a.org/?utm_source=x", "topic", 3, "http://a.org/from", ("http://b",))
    task = visit.task("http://a.org/", 342.0)
    assert read_task(task) == visit
    assert task.lane == "a.org"
    plain = PageVisit("http://a.org/", "topic").task("http://a.org/", 0.0)
    assert plain.payload[0] == "", "the URL is not kept twice"


def test_only_a_visit_that_must_be_a_second_one_may_be_answered_without_a_body() -> None:
    first = PageVisit("http://a.org/").task("http://a.org/", 0.0)
    assert not may_be_conditional(first, 50.0), "its receipt may have been lost"
    assert not may_be_conditional(first.retried(100.0), 50.0)
    assert not may_be_conditional(first.postponed(100.0), 50.0)
    assert may_be_conditional(first.revisited(100.0), 50.0)
    assert not may_be_conditional(first.revisited(100.0), 150.0), "captured, and not settled"
    changed = PageVisit("http://a.org/").task(changed_key("http://a.org/", 100.0), 0.0)
    assert read_task(changed) == PageVisit("http://a.org/")
    assert may_be_conditional(changed, 50.0) and not may_be_conditional(changed, 150.0)


def test_a_gap_means_one_request_at_a_time_and_none_means_as_many_as_are_told() -> None:
    config = WebConfig.model_validate({"limits": {"req_per_sec": 1, "per_host_concurrency": 8}})
    polite = manners_of(config)
    assert polite.concurrency == 1 and polite.gap_from_end
    assert 1.0 <= 1 / polite.rate <= 1.006
    config = WebConfig.model_validate({"limits": {"req_per_sec": 0, "per_host_concurrency": 8}})
    assert (manners_of(config).rate, manners_of(config).concurrency) == (float("inf"), 8)


def test_retries_are_those_of_the_config() -> None:
    limits = {"max_retries": 4, "backoff_base_ms": 100, "backoff_cap_ms": 300}
    retry = retry_of(WebConfig.model_validate({"limits": limits}))
    assert (retry.attempts, retry.base, retry.cap) == (5, 0.1, 0.3)


@pytest.mark.parametrize(
    ("lane", "host"), [("a.org", "a.org"), ("a.org:81", "a.org"), ("[::1]:81", "::1")]
)
def test_a_lane_names_its_host(lane: str, host: str) -> None:
    assert host_of(lane) == host


def test_an_address_is_told_from_a_name() -> None:
    assert is_literal("127.0.0.1") and is_literal("::1")
    assert not is_literal("localhost") and not is_literal("1password.com")


def test_the_meter_counts_pages_by_the_types_that_the_config_knows() -> None:
    metrics = CrawlMetrics("web", SystemClock())
    links = {"robots_denied": 3, "links_extracted": 9, "a word of somebody else": 1}
    meter = WebMeter(metrics, ("page", "wiki"), links)
    meter.stored("wiki", 10)
    meter.stored("\x00 whatever a spool says", 5)
    meter.unchanged()
    read = metrics.registry.get_sample_value
    assert read("trawlnet_web_pages_total", {"page_type": "wiki"}) == 1
    assert read("trawlnet_web_pages_total", {"page_type": "page"}) == 0
    assert read("trawlnet_web_pages_total", {"page_type": "other"}) == 1
    assert read("trawlnet_web_bytes_total") == metrics.sink_bytes == 15
    assert read("trawlnet_web_pages_unchanged_total") == 1
    assert read("trawlnet_web_links_total", {"fate": "robots_denied"}) == 3
    fates = [one for one in metrics.registry.collect() if one.name == "trawlnet_web_links"]
    assert {sample.labels["fate"] for sample in fates[0].samples} == set(LINK_FATES)
    assert read("trawlnet_web_frontier_urls", {"state": "open"}) == 0


def test_the_intervals_between_visits_are_those_of_the_config() -> None:
    def intervals(**keys: float) -> tuple[float, float, float]:
        config = WebConfig.model_validate({"revisit": {"enabled": True, **keys}})
        rule = reading_of(config, "Bot/1.0", scheduled=True).revisit
        assert rule is not None
        return rule.shortest, rule.first, rule.longest

    assert intervals(first_interval=7200) == (3600, 7200, 30 * 86_400)
    assert intervals(min_interval=60, first_interval=90, max_interval=120) == (60, 90, 120)
    assert intervals(max_interval=5000) == (3600, 5000, 5000), "a default gives way"
    with pytest.raises(ValidationError, match="first_interval between"):
        intervals(first_interval=60)
    with pytest.raises(ValidationError, match="min_interval no longer"):
        intervals(min_interval=9000, max_interval=8000)


def test_headers_of_the_config_are_checked() -> None:
    def trouble(name: str, value: str = "x") -> str:
        try:
            WebConfig.model_validate({"headers": {name: value}})
        except ValidationError as error:
            return str(error.errors()[0]["msg"])
        return ""

    assert WebConfig().headers == {"Accept-Language": "en, *;q=0.5"}
    assert trouble("X-Token_1", "a b; c") == trouble("DNT", "") == ""
    assert "robots.user_agent" in trouble("User-Agent")
    for name in ("Cookie", "authorization", "Host", "Content-Length", "If-None-Match"):
        assert "not for the config" in trouble(name)
    for name in ("", "a b", "a:b", "\u00e9", "a\r\n"):
        assert "not the name" in trouble(name)
    for value in ("a\r\nb: c", "\u00e9", " a", "a\0", "a" * 2000):
        assert "printable ASCII" in trouble("X", value)


def test_a_body_that_is_lost_or_damaged_is_not_held(tmp_path: Path) -> None:
    sha256 = hashlib.sha256(b"body").hexdigest()
    path = tmp_path / "html" / sha256[:2] / sha256[2:4] / f"{sha256}.html"
    page = KnownPage(
        "http://h/", 200, bytes.fromhex(sha256), "html/|.html", "e", "", 0, 0, None, "", 0
    )
    holds = stored_bodies(tmp_path)
    assert not asyncio.run(holds(page))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"body")
    assert asyncio.run(holds(page))
    path.write_bytes(b"bodY")
    assert not asyncio.run(holds(page))


def test_a_crawl_that_waits_for_its_full_spool_says_what_to_do(tmp_path: Path) -> None:
    words = spool_options(WebConfig(), tmp_path).when_full
    assert "run trawlnet web scrape beside this crawl" in words and len(words) < 120
    assert "spool.max_backlog_gb" in words and "spool.backpressure_limit_gb" in words

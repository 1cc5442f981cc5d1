"""`trawlnet web` as its users type it."""

from __future__ import annotations

import csv
import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support.program import at_once, started, trawlnet, wait_until


@dataclass(frozen=True, slots=True)
class Site:
    seeds: list[str]
    manifest: Path

    def words(self, verb: str, workspace: Path, *more: object) -> tuple[object, ...]:
        quick = ("--req-per-sec", 100, "--concurrency", 16, "--max-depth", 1)
        return ("web", verb, "-w", workspace, "--allow-private-hosts", *quick, *more)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("web")
    with started("sim", "web", "--seed", 3, "--scale", 0.2, folder=folder) as world:
        wait_until(lambda: world.out.endswith("\n"), "the ready line")
        ready = json.loads(world.out)
        yield Site(ready["seeds"], Path(ready["manifest"]))


@pytest.fixture(scope="module")
def crawled(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    workspace = tmp_path_factory.mktemp("site")
    done = trawlnet(*site.words("crawl", workspace, *site.seeds, "--warc", "--json"))
    assert done.code in (0, 3), done.err
    assert done.rows[-1]["ending"] == "done"
    return workspace


def rows(workspace: Path) -> list[dict[str, str]]:
    found = []
    for path in sorted((workspace / "logs").glob("pages-*.csv")):
        with path.open(newline="") as file:
            found += list(csv.DictReader(file))
    return found


def test_configure_makes_a_workspace_with_every_key_and_keeps_what_is_there(tmp_path: Path) -> None:
    workspace = tmp_path / "site"
    assert at_once("web", "configure", "-w", workspace, "https://example.org/").code == 0
    text = (workspace / "trawlnet.yaml").read_text()
    assert yaml.safe_load(text).keys() == {"web"}
    for key in ("user_agent", "req_per_sec", "per_repo_max_pages", "allow_patterns"):
        assert f"# {key}: " in text
    assert (workspace / "seeds.txt").read_text().endswith("https://example.org/\n")
    (workspace / "trawlnet.yaml").write_text("web:\n  preset: github\n")
    assert at_once("web", "configure", "-w", workspace).code == 0
    assert "github" in (workspace / "trawlnet.yaml").read_text()


def test_every_key_that_configure_writes_is_in_force_without_its_mark(tmp_path: Path) -> None:
    at_once("web", "configure", "-w", tmp_path)
    file = tmp_path / "trawlnet.yaml"
    marked = [
        line.replace("# ", "", 1)
        if line.lstrip().removeprefix("# ").split(":")[0].isidentifier()
        and line.lstrip().startswith("# ")
        and ": " in line
        else line
        for line in file.read_text().splitlines()
        if "null" not in line
    ]
    file.write_text("\n".join(line for line in marked if not line.lstrip().startswith("#")))
    shown = at_once("config", "web", "-w", tmp_path)
    assert shown.code == 0, shown.err


def test_a_crawl_leaves_the_files_that_people_use(crawled: Path) -> None:
    pages = [row for row in rows(crawled) if row["http_status"] == "200"]
    assert pages and all(len(row) == 17 for row in pages)
    stored = [row for row in pages if row["stored_path"]]
    assert stored and all((crawled / row["stored_path"]).exists() for row in stored)
    spool = list((crawled / "spool" / "discoveries").glob("discoveries-*.jsonl"))
    told = [json.loads(line) for path in spool for line in path.read_text().splitlines()]
    assert {one["url"] for one in told} == {row["url"] for row in stored}
    assert set(told[0]) == {"url", "page_type", "depth", "referrer", "metadata"}
    assert list((crawled / "warc").glob("*.warc.gz"))
    assert (crawled / "logs" / "edges.csv").read_text().startswith("from,to,text,depth,context\n")
    metrics = last_figures(crawled / "logs" / "crawler_metrics.csv")
    assert metrics.keys() >= CRAWLER_FIGURES
    assert metrics["discoveries_written"] == len(told)
    assert metrics["requests"] == metrics["successes"] + metrics["failures"]


REQUEST_FIGURES = {"requests", "successes", "failures", "retries", "bytes_downloaded"}
CRAWLER_FIGURES = REQUEST_FIGURES | {
    *("urls_fetched", "links_extracted", "discoveries_written", "policy_denied", "already_seen"),
    *("fetch_errors", "cap_exceeded", "frontier_size", "seen_count"),
}
SCRAPER_FIGURES = REQUEST_FIGURES | {
    *("pages_fetched", "pages_saved", "bytes_saved", "not_modified_304", "not_html", "fetch_fail"),
}


def last_figures(path: Path) -> dict[str, float]:
    """The last value of each metric of a metrics CSV."""
    with path.open(newline="") as file:
        return {row["metric"]: float(row["value"]) for row in csv.DictReader(file)}


def test_status_and_failures_tell_the_same_story(crawled: Path) -> None:
    status = trawlnet("web", "status", "-w", crawled, "--json").rows[0]
    assert status["open"] == 0 and status["pages"] > 0
    assert status["spool_files"] > 0 and status["spool_bytes"] > 0
    failures = trawlnet("web", "failures", "-w", crawled, "--json").rows
    assert all(set(row) == {"key", "lane", "reason", "detail", "attempt", "at"} for row in failures)
    settled = sum(n for word, n in status["settled"].items() if word not in ("ok", "not_modified"))
    assert len(failures) == settled + status["blocked"]
    keys = [row["key"] for row in failures]
    assert keys == sorted(keys)


def test_a_second_crawl_fetches_nothing_again_and_needs_no_seeds(site: Site, crawled: Path) -> None:
    before = len(rows(crawled))
    done = trawlnet(*site.words("crawl", crawled, "--json"))
    assert done.code in (0, 3) and done.rows[-1]["run"]["attempts"] == {}
    assert len(rows(crawled)) == before


def test_a_scrape_writes_rows_for_what_is_unchanged(site: Site, tmp_path: Path) -> None:
    trawlnet(*site.words("crawl", tmp_path, *site.seeds, "--max-pages", 12))
    first = {row["url"]: row for row in rows(tmp_path)}
    done = trawlnet(*site.words("scrape", tmp_path, "--json"))
    assert done.code == 0, done.err
    unchanged = [row for row in rows(tmp_path) if row["http_status"] == "304"]
    assert unchanged
    for row in unchanged:
        assert row["content_bytes"] == "0"
        assert row["content_sha256"] == first[row["url"]]["content_sha256"]
    (figures,) = (tmp_path / "logs").glob("scraper_metrics-*.csv")
    metrics = last_figures(figures)
    assert metrics.keys() >= SCRAPER_FIGURES
    assert metrics["not_modified_304"] == len(unchanged)


def test_a_scrape_that_stops_at_its_limit_says_how_to_go_on_with_it(
    site: Site, tmp_path: Path
) -> None:
    trawlnet(*site.words("crawl", tmp_path, *site.seeds, "--max-pages", 12))
    done = trawlnet(*site.words("scrape", tmp_path, "--max-pages", 2, "--concurrency", 1))
    assert done.code == 4, done.err
    assert f"tasks left; continue: trawlnet web scrape -w {tmp_path}" in done.err


def test_a_scrape_beside_the_crawl_empties_the_spool_that_it_waits_for(
    site: Site, tmp_path: Path
) -> None:
    workspace, out = tmp_path / "w", tmp_path / "out"
    tiny = [word for key in TINY for word in ("--set", f"{key}=0.0000005")]
    words = (*site.words("crawl", workspace, *site.seeds, "--max-pages", 40), *tiny)
    with started(*words, folder=out) as crawl:
        wait_until(lambda: "beside this crawl" in crawl.err, "that the spool is full")
        assert "run trawlnet web scrape" in crawl.err
        again = trawlnet(*words)
        assert again.code == 11 and "is in use by pid" in again.err
        with started(*site.words("scrape", workspace), folder=out) as scrape:
            wait_until(lambda: "is crawling here" in scrape.err, "that it knows of the crawl")
            status = trawlnet("web", "status", "-w", workspace, "--json").rows[0]
            assert crawl.ended().code == 4, "it stops at its limit, and not at the spool's"
            assert scrape.ended().code in (0, 3)
    # Both may be over by the time that it is told.
    assert status["running"] is None or status["running"] != status.get("scrape", {}).get("running")
    fetched = {row["url"] for row in rows(workspace) if row["http_status"] == "200"}
    assert len(fetched) >= 40
    spool = (workspace / "spool" / "discoveries").glob("*.jsonl")
    told = {json.loads(line)["url"] for path in spool for line in path.read_text().splitlines()}
    with next((workspace / "logs").glob("pages-*-scrape.csv")).open(newline="") as file:
        assert {row["url"] for row in csv.DictReader(file)} >= told & fetched


TINY = ("spool.max_backlog_gb", "spool.backpressure_limit_gb")


def test_run_does_everything_and_asks_for_no_page_twice(site: Site, tmp_path: Path) -> None:
    spool = tmp_path / "spool" / "discoveries"
    spool.mkdir(parents=True)
    extra = f"{site.seeds[0]}gone/0?from=others"
    (spool / "discoveries-1760293778.jsonl").write_text(json.dumps({"url": extra}) + "\n")
    done = trawlnet(*site.words("run", tmp_path, *site.seeds, "--json"))
    assert done.code in (0, 3), done.err
    urls = [row["url"] for row in rows(tmp_path)]
    assert len(urls) == len(set(urls))
    summaries = [row for row in done.rows if row.get("event") == "summary"]
    assert len(summaries) == 2 and summaries[1]["run"]["settled"] == {"not_found": 1}


def test_replay_makes_the_same_rows_again(site: Site, tmp_path: Path) -> None:
    trawlnet(*site.words("crawl", tmp_path, *site.seeds, "--max-pages", 8))
    before = rows(tmp_path)
    done = trawlnet("web", "replay", "-w", tmp_path, "--json")
    assert done.rows[0]["damaged"] == 0 and done.rows[0]["captures"] == len(before)
    (made,) = (tmp_path / "logs").glob("pages-replay-*.csv")
    with made.open(newline="") as file:
        assert list(csv.DictReader(file)) == before


def test_bodies_that_replay_finds_damaged_are_fetched_again_by_a_scrape(
    site: Site, tmp_path: Path
) -> None:
    trawlnet(*site.words("crawl", tmp_path, *site.seeds, "--max-pages", 8))
    words = site.words("scrape", tmp_path, "--json")
    trawlnet(*words)  # Works the spool off, so that only what is put back is left.
    first, second, *others = sorted((tmp_path / "store" / "html").glob("*/*/*.html"))
    whole = first.read_bytes(), second.read_bytes()
    first.write_bytes(whole[0][:-1] + b"?")
    second.unlink()
    done = trawlnet("web", "replay", "-w", tmp_path, "--json")
    assert done.code == 1 and others
    assert done.error["hint"].endswith(f"trawlnet web scrape -w {tmp_path}")
    done = trawlnet(*words)
    assert done.rows[-1]["run"]["settled"] == {"ok": 2}
    assert (first.read_bytes(), second.read_bytes()) == whole
    assert trawlnet("web", "replay", "-w", tmp_path, "--json").code == 0


def test_a_run_and_status_tell_what_was_left_out(site: Site, tmp_path: Path) -> None:
    words = site.words("crawl", tmp_path, *site.seeds, "--max-depth", 0)
    told = trawlnet(*words).err
    assert "left out: " in told and "too many links from a seed (caps.max_depth)" in told
    status = trawlnet("web", "status", "-w", tmp_path, "--json").rows[0]
    assert status["left_out"]["too many links from a seed"] > 0
    assert status["pages"] == len(rows(tmp_path)) and status["spool_unread_bytes"] > 0
    (summary,) = trawlnet(*words, "--json").rows[-1:]
    assert summary["left_out"] == status["left_out"]
    assert "too many links" in trawlnet("web", "status", "-w", tmp_path).out


def test_a_limit_ends_with_its_own_code(site: Site, tmp_path: Path) -> None:
    done = trawlnet(*site.words("crawl", tmp_path, *site.seeds, "--max-pages", 3))
    assert done.code == 4
    assert len([row for row in rows(tmp_path) if row["http_status"] == "200"]) == 3


def test_sigterm_saves_and_the_next_crawl_goes_on(site: Site, tmp_path: Path) -> None:
    slow = ("--set", "limits.req_per_sec=2", "--set", "caps.max_depth=null")
    words = (*site.words("crawl", tmp_path / "w", *site.seeds), *slow)
    with started(*words, folder=tmp_path / "out") as program:
        wait_until(lambda: bool(list((tmp_path / "w").glob("store/html/*/*/*"))), "a stored page")
        program.tell(signal.SIGTERM)
        assert program.ended().code == 130
    kept = len(rows(tmp_path / "w"))
    assert kept > 0
    trawlnet(*site.words("crawl", tmp_path / "w", "--max-pages", 5))
    urls = [row["url"] for row in rows(tmp_path / "w")]
    assert len(urls) > kept and len(urls) == len(set(urls))


@pytest.mark.parametrize(("verb", "file"), [("crawl", "stop.crawler"), ("scrape", "stop.scraper")])
def test_stop_files_go_by_the_role(verb: str, file: str, site: Site, tmp_path: Path) -> None:
    (tmp_path / file).touch()
    seeds = site.seeds if verb == "crawl" else ()
    done = trawlnet(*site.words(verb, tmp_path, *seeds))
    assert done.code == 130
    assert file in done.err


def test_flags_can_be_variables_and_reach_every_key(site: Site, tmp_path: Path) -> None:
    done = trawlnet(*site.words("crawl", tmp_path, *site.seeds), TRAWLNET_WEB_MAX_PAGES="2")
    assert done.code == 4
    assert trawlnet("web", "status", "-w", tmp_path, TRAWLNET_WEB_MAX_PAGES="2").code == 0


def test_an_agent_without_a_contact_is_refused(tmp_path: Path) -> None:
    done = at_once("web", "crawl", "-w", tmp_path, "https://example.org/", "--json")
    assert done.code == 2 and "user_agent" in done.error["hint"]
    words = ("web", "crawl", "-w", tmp_path, "https://example.org/", "--user-agent", "Bot/1.0")
    done = at_once(*words, "--json")
    assert done.code == 2 and "--user-agent" in done.error["error"]


@pytest.mark.parametrize("pair", ["limits.req_per_sec=-1", "limits.nonsense=1", "nothing"])
def test_a_wrong_key_is_named(pair: str, tmp_path: Path) -> None:
    done = at_once("web", "crawl", "-w", tmp_path / "new", "--set", pair, "--json")
    assert done.code == 2
    assert pair.partition("=")[0] in done.error["error"]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "pair, hint",
    [
        ("limits.req_per_second=1", "did you mean limits.req_per_sec?"),
        ("limit.req_per_sec=1", "did you mean limits?"),
        ("caps.scopes=[{nme: x}]", "did you mean caps.scopes.0.name?"),
    ],
)
def test_a_typo_in_a_key_is_answered_with_the_key_that_was_meant(
    pair: str, hint: str, tmp_path: Path
) -> None:
    done = at_once("web", "crawl", "-w", tmp_path / "new", "--set", pair, "--json")
    assert done.code == 2
    assert done.error["error"].endswith(": no such key")
    assert done.error["hint"] == hint


def test_a_crawl_without_seeds_says_what_to_type(tmp_path: Path) -> None:
    done = at_once("web", "crawl", "-w", tmp_path, "--allow-private-hosts", "--json")
    assert done.code == 2 and "https://example.org/" in done.error["hint"]


@pytest.mark.parametrize("verb", ["status", "failures", "retry", "reset", "replay"])
def test_looking_at_a_workspace_that_is_not_there_has_its_own_code(
    verb: str, tmp_path: Path
) -> None:
    assert at_once("web", verb, "-w", tmp_path / "none", "--json").code == 10


def test_reset_deletes_what_the_crawl_left_and_not_the_config(site: Site, tmp_path: Path) -> None:
    at_once("web", "configure", "-w", tmp_path)
    trawlnet(*site.words("crawl", tmp_path, *site.seeds, "--max-pages", 3))
    assert trawlnet("web", "reset", "-w", tmp_path, "--yes").code == 0
    assert (tmp_path / "trawlnet.yaml").exists() and (tmp_path / "seeds.txt").exists()
    assert not list(tmp_path.glob("store/html/*/*/*")) and not rows(tmp_path)
    done = trawlnet(*site.words("crawl", tmp_path, *site.seeds, "--max-pages", 3))
    assert done.code == 4


@pytest.mark.parametrize(
    ("name", "hint"),
    [("MAX_PAGE", "did you mean TRAWLNET_WEB_MAX_PAGES?"), ("QQQ", "MAX_PAGES, ")],
)
def test_a_mistake_in_a_variable_is_told_with_the_nearest_that_is_known(
    name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"TRAWLNET_WEB_{name}", "5")
    ran = at_once("web", "crawl", "http://127.0.0.1:1/", "-w", tmp_path)
    assert ran.code == 2 and f"unknown variable TRAWLNET_WEB_{name}" in ran.err
    assert hint in ran.err


def test_private_addresses_are_named_with_what_allows_them(site: Site, tmp_path: Path) -> None:
    workspace, agent = tmp_path / "site", ("--user-agent", "Bot/1.0 (+https://a.org)")
    words = ("web", "crawl", "-w", workspace, "--max-depth", 0, *agent)
    refused = trawlnet(*words, site.seeds[0])
    assert refused.code == 3, "nothing was crawled"
    what = "private addresses or unusual ports"
    assert f"left out: 1 {what} (--allow-private-hosts)" in refused.err
    retry = ("web", "retry", "-w", workspace, "--reason", "refused")
    assert refused.err.splitlines()[-1] == (
        f"hint: to allow {what}: trawlnet {' '.join(map(str, retry))}, "
        "then the same command with --allow-private-hosts"
    )
    (status,) = at_once("web", "status", "-w", workspace, "--json").rows
    assert status["left_out"] == {what: 1}
    assert at_once(*retry).code == 0
    assert trawlnet(*words, "--allow-private-hosts", "--json").code == 0
    assert rows(workspace), "the page was fetched"
    for number, seed in enumerate(("http://localhost/", "http://10.0.0.1/")):
        one = trawlnet(*words[:3], tmp_path / f"{number}", *agent, seed, "--json")
        assert (one.code, one.rows[-1]["left_out"]) == (3, {what: 1}), seed


def test_an_address_that_no_flag_allows_is_refused_without_a_hint(tmp_path: Path) -> None:
    agent = ("--user-agent", "Bot/1.0 (+https://a.org)")
    never = trawlnet("web", "crawl", "-w", tmp_path / "a", "http://169.254.0.1/", *agent)
    assert never.code == 0 and "refused 1" in never.err
    assert "--allow-private-hosts" not in never.err

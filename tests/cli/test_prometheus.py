"""A real Prometheus scrapes running crawls of every kind: each panel, rule and metric has data."""

from __future__ import annotations

import json
import math
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.program import Started, started, wait_until
from tests.support.servers import free_port, require
from trawlnet.observe.metrics import catalogue as names
from trawlnet.observe.metrics.catalogue import CATALOGUE, Series, SeriesKind

FOLDER = Path(__file__).parents[2] / "deploy" / "observe"
BOARDS = sorted((FOLDER / "boards").glob("*.json"))
CRAWLERS = ("repos", "ids", "web", "pds")
FIRST = 15_000_000_000  # The first id of the simulated API.
# Labels that Prometheus adds, or that belong to a kind of metric.
OF_TARGETS = {"__name__", "instance", "job", "workspace", "le"}
# Series of the scrape itself and of the client library.
FOREIGN = ("process_", "scrape_", "up", "python_")
# The source is read once, before the first scrape: nothing has happened between two of them.
RARE = (names.PAGE_DIDS,)
# All that was ever scraped: what is rare may have happened before a board has its turn.
NO_CHOICE = {"$workspace": ".*", "$instance": ".*", "$crawler": ".*", "$__rate_interval": "1h"}


@dataclass(frozen=True, slots=True)
class Prometheus:
    url: str

    def get(self, path: str, **query: str) -> Any:
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def values(self, expr: str) -> list[float]:
        return [float(row["value"][1]) for row in self.get("query", query=expr)["result"]]


def ready(program: Started) -> dict[str, Any]:
    wait_until(lambda: program.out.endswith("\n"), "the ready line")
    return dict(json.loads(program.out))


def crawl_words(crawler: str, worlds: Mapping[str, dict[str, Any]]) -> tuple[object, ...]:
    """A crawl of a simulated world at a pace at which it outlasts the test."""
    atproto, ids, web = worlds["atproto"], worlds["ids"], worlds["web"]
    sources = ("--relay", atproto["relay"], "--plc-url", atproto["plc"])
    match crawler:
        case "repos":
            live = ("--follow", "--live-tables", "off")
            return (*sources, *live, "--default-pds-rps", 0.4, "--small-pds-rps", 0.4)
        case "pds":
            rates = ("--requests-per-minute", 360, "--plc-rps", 100, "--concurrency", 1)
            looked = ("--collections", "app.bsky.feed.post", "--batch", 50, "--follow")
            return (*sources, *rates, *looked)
        case "ids":
            where = ("--base-url", ids["base_url"], "--target", FIRST + 500, "--buffer", 500)
            return (*where, "--max-rps", 20)
        case _:
            return (*web["seeds"], "--req-per-sec", 2)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    program, folder = require("prometheus"), tmp_path_factory.mktemp("scraped")
    with ExitStack() as stack:

        def start(name: str, *words: object) -> Started:
            return stack.enter_context(started(*words, folder=folder / name))

        small, lively = ("--scale", 0.2), ("--acts", 2, "--spoilt", 0.3)
        kinds = {"atproto": (*small, "--healthy", *lively), "ids": ("--scale", 1), "web": small}
        served = {
            kind: start(
                kind, "sim", kind, "--seed", 11, "--scale", 1 if kind == "ids" else 0.2, *more
            )
            for kind, more in kinds.items()
        }
        worlds = {kind: ready(world) for kind, world in served.items()}
        crawls = {}
        for crawler in CRAWLERS:
            common = ("-w", folder / f"w-{crawler}", "--allow-private-hosts")
            words = (*common, "--metrics-address", "127.0.0.1:0", *crawl_words(crawler, worlds))
            crawls[crawler] = start(crawler, crawler, "crawl", *words)
        where = ("-w", folder / "w-pds", "--plc-url", worlds["atproto"]["plc"], "--port", 0)
        registry = start("serve", "pds", "serve", *where, "--json", "--allow-private-hosts")
        targets = {crawler: address_of(crawl) for crawler, crawl in crawls.items()}
        storing = ("-w", folder / "w-ids", "--metrics-address", "127.0.0.1:0")
        targets["store"] = address_of(start("store", "ids", "store", *storing))
        crawls["repos"].says("metrics on ")  # Its workspace is there.
        events = ("-w", folder / "w-repos", "--port", 0, "--json")
        place = ready(start("events", "repos", "serve", *events))["url"]
        targets["events"] = place.removeprefix("ws://").removesuffix("/subscribe")
        base = ready(registry)["url"]
        targets["registry"] = base.removeprefix("http://")
        register(base)
        server = stack.enter_context(scraping(program, folder, targets))
        yield server
        for crawler, crawl in crawls.items():
            assert crawl.process.poll() is None, f"{crawler} ended before it was looked at"


def address_of(crawl: Started) -> str:
    crawl.says("metrics on ")
    found = re.search(r"metrics on http://([^/]+)/metrics", crawl.err)
    assert found
    return found[1]


def register(base: str) -> None:
    """A registration that is refused is one, too."""
    body = json.dumps({"pdsUrl": "https://nobody.invalid"}).encode()
    method = "pub.chive.sync.registerPDS"
    request = urllib.request.Request(
        f"{base}/xrpc/{method}", body, {"Content-Type": "application/json"}
    )
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        assert error.code < 500


@contextmanager
def scraping(program: str, folder: Path, targets: Mapping[str, str]) -> Iterator[Prometheus]:
    by_workspace = [
        {"targets": [address], "labels": {"workspace": name}} for name, address in targets.items()
    ]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(FOLDER / "trawlnet.rules.yml")],
        "scrape_configs": [{"job_name": "trawlnet", "static_configs": by_workspace}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=log,
        )
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")
        wait_until(lambda: scraped(server, len(targets)), "Prometheus and two scrapes")
        yield server
    finally:
        process.kill()
        process.wait()


def scraped(server: Prometheus, targets: int) -> bool:
    """Two scrapes of every target: from then on there are rates."""
    try:
        urllib.request.urlopen(f"{server.url}/-/ready", timeout=5).close()
    except OSError:
        return False
    counts = server.values("count_over_time(up[1m])")
    return len(counts) == targets and min(counts) >= 2


def chosen(expr: str) -> str:
    for name, value in NO_CHOICE.items():
        expr = expr.replace(name, value)
    return expr


def silent(server: Prometheus, exprs: set[str]) -> set[str]:
    """Those of the queries that return no number; of rare events, no sample."""
    return {expr for expr in exprs if not any(tells(expr, n) for n in server.values(expr))}


def tells(expr: str, value: float) -> bool:
    """A quantile or a share of nothing is not a number."""
    return not math.isnan(value) or any(name in expr for name in RARE)


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_every_panel_has_data(prometheus: Prometheus, path: Path) -> None:
    left = {
        chosen(target["expr"])
        for panel in json.loads(path.read_text())["panels"]
        for target in panel.get("targets", ())
    }
    assert left
    deadline = time.monotonic() + 150.0
    while left and time.monotonic() < deadline:
        if left := silent(prometheus, left):
            time.sleep(0.5)
    assert not left, left


def test_every_rule_evaluates_and_every_recorded_series_is_there(prometheus: Prometheus) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] != "unknown" for rule in rules()), "an evaluation")
    assert len(rules()) > 20
    assert [rule for rule in rules() if rule["health"] != "ok" or rule.get("lastError")] == []
    recorded = {rule["name"] for rule in rules() if rule["type"] == "recording"}
    wait_until(lambda: not silent(prometheus, recorded), f"data of {recorded}")


def test_every_metric_is_scraped_as_it_is_listed(prometheus: Prometheus) -> None:
    def metadata() -> dict[str, Any]:
        return {name: rows[0] for name, rows in prometheus.get("metadata").items()}

    def missing() -> set[str]:
        return {one.exposed for one in CATALOGUE} - metadata().keys()

    wait_until(lambda: not missing(), "every metric")
    listed = {one.exposed: one for one in CATALOGUE}
    for name, row in metadata().items():
        if not name.startswith(FOREIGN) and not name.endswith("_created"):
            assert name in listed, f"{name} is not in the catalogue"
            assert row["help"] == listed[name].text
            assert row["type"] == (
                "unknown" if listed[name].kind is SeriesKind.UNKNOWN else listed[name].kind
            )


@pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.name)
def test_a_metric_has_the_labels_that_are_listed(prometheus: Prometheus, one: Series) -> None:
    name = f"{one.name}_bucket" if one.kind is SeriesKind.HISTOGRAM else one.exposed
    wait_until(lambda: bool(prometheus.get("series", **{"match[]": name})), name)
    for series in prometheus.get("series", **{"match[]": name}):
        assert series.keys() - OF_TARGETS == set(one.labels)

"""`trawlnet dashboard` and `--dashboard` as processes: what they answer, and to whom."""

from __future__ import annotations

import http.client
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.support.pages.dashboard_run import (
    HOSTILE,
    Dashboard,
    dashboard_of,
    made_workspace,
    many_lanes,
)
from tests.support.program import PATIENCE, at_once, started, wait_until
from tests.support.servers import free_port, redis_server

TOKEN = "correct-horse-battery"
SLOWLY = 0.5  # Requests per second to each host: a crawl of a minute, to be looked at and told.


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_workspace(tmp_path_factory.mktemp("made") / "w", many_lanes(3000))


@pytest.fixture(scope="module")
def site(workspace: Path) -> Iterator[Dashboard]:
    with dashboard_of(workspace) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(workspace: Path) -> Iterator[Dashboard]:
    with dashboard_of(workspace, TRAWLNET_DASHBOARD_TOKEN=TOKEN) as running:
        yield running


def order(site: Dashboard, action: str, **more: str) -> str:
    """The fields of the form that asks, filled in by the page itself."""
    asked = site.ask("GET", f"/ask?{urlencode({'crawler': 'web', 'do': action, **more})}")
    assert asked.status == 200
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', asked.text)
    return urlencode(dict(found))


def test_every_answer_has_the_safe_headers(site: Dashboard) -> None:
    for path in ("/", "/ask?crawler=web&do=pause", "/nowhere", "/static/live.js", "/enter"):
        headers = site.ask("GET", path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_the_page_tells_of_a_killed_crawl_without_a_script(site: Dashboard) -> None:
    page = site.ask("GET", "/").text
    assert ">cut short</strong>" in page
    assert "Figures as of 2026-09-21" in page
    assert "3,000 of 3,000 hosts" in page
    assert page.count("<tr id=") == 50


def test_a_host_named_like_a_script_stays_text(site: Dashboard) -> None:
    page = site.ask("GET", f"/?{urlencode({'q': HOSTILE, 'sort': 'lane'})}").text
    assert "1 of 3,000 hosts" in page
    assert page.count("<script") == 1
    assert '<script src="/static/live.js"' in page
    assert "&lt;script&gt;alert(1)" in page


def test_events_begin_with_everything(site: Dashboard) -> None:
    place = urlsplit(site.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    connection.request("GET", "/events?q=host000")
    response = connection.getresponse()
    assert response.getheader("content-type", "").startswith("text/event-stream")
    line = response.readline().decode()
    connection.close()
    change = json.loads(line.removeprefix("data: "))
    assert len(change["order"]) == len(change["rows"]) == 10
    assert "cut short" in change["parts"]["standing"]
    assert "<script" not in line


def test_a_question_about_events_ends(site: Dashboard) -> None:
    assert site.ask("HEAD", "/events").status == 200


def test_asking_changes_nothing(site: Dashboard, workspace: Path) -> None:
    for action in ("pause", "drain", "resume", "retry"):
        assert site.ask("GET", f"/ask?crawler=web&do={action}").status == 200
    assert site.ask("GET", "/order?crawler=web&do=pause").status == 405
    assert not list(workspace.glob("pause*"))
    assert not list(workspace.glob("stop*"))


@pytest.mark.parametrize(
    "path",
    ["/ask?crawler=web&do=erase", "/ask?crawler=no&do=pause", "/ask?crawler=web&do=stop"],
)
def test_what_cannot_be_done_is_not_asked(site: Dashboard, path: str) -> None:
    assert site.ask("GET", path).status == 400


def test_a_form_without_its_stamp_or_from_elsewhere_does_nothing(
    site: Dashboard, workspace: Path
) -> None:
    fields = order(site, "pause")
    assert site.ask("POST", "/order", fields, own=False).status == 403
    foreign = site.ask("POST", "/order", fields, own=False, Sec_Fetch_Site="cross-site")
    assert foreign.status == 403
    assert site.ask("POST", "/order", "crawler=web&do=pause&stamp=guess").status == 403
    assert site.ask("POST", "/order", "x" * 10_000).status == 413
    assert site.ask("POST", "/order", fields, Content_Type="text/plain").status == 415
    assert not list(workspace.glob("pause*"))


def test_pause_and_resume_are_control_files(site: Dashboard, workspace: Path) -> None:
    done = site.ask("POST", "/order", order(site, "pause"))
    assert done.status == 303
    assert done.headers["location"].startswith("/?crawler=web")
    assert (workspace / "pause.web").exists()
    site.ask("POST", "/order", order(site, "resume"))
    assert not (workspace / "pause.web").exists()


def test_a_drain_leaves_no_file_once_the_crawl_is_over(site: Dashboard, workspace: Path) -> None:
    assert site.ask("POST", "/order", order(site, "drain")).status == 303
    wait_until(lambda: not (workspace / "stop.web").exists(), "the stop file to be swept")


def test_another_name_for_this_machine_is_not_answered(site: Dashboard) -> None:
    answer = site.ask("GET", "/", Host="evil.example")
    assert answer.status == 421
    assert "3,000" not in answer.text
    assert site.ask("GET", "/events", Host="evil.example:80").status == 421


def test_a_token_is_asked_for_once(guarded: Dashboard) -> None:
    assert guarded.ask("GET", "/").headers["location"] == "/enter"
    assert guarded.ask("GET", "/events").status == 401
    assert guarded.ask("POST", "/order", "do=pause").status == 401
    wrong = guarded.ask("POST", "/enter", urlencode({"token": "not-the-token-at-all"}))
    assert wrong.status == 403
    assert "set-cookie" not in wrong.headers
    right = guarded.ask("POST", "/enter", urlencode({"token": TOKEN}))
    cookie = right.headers["set-cookie"]
    assert right.status == 303
    assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    assert TOKEN not in cookie
    assert "3,000 hosts" in guarded.ask("GET", "/", Cookie=cookie.partition(";")[0]).text
    assert guarded.ask("GET", "/", Authorization=f"Bearer {TOKEN}").status == 200


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--host", "0.0.0.0"), 2, "no token"),
        (("--token", "short"), 2, "characters"),
        (("--host", "no.such.host.invalid", "--token", TOKEN), 2, "no such address"),
    ],
)
def test_what_is_not_safe_is_not_served(
    workspace: Path, flags: tuple[str, ...], code: int, words: str
) -> None:
    ran = at_once("dashboard", "-w", workspace, "--port", 0, *flags)
    assert ran.code == code
    assert words in ran.err


def test_a_port_that_is_taken_is_named_with_what_to_type(site: Dashboard, workspace: Path) -> None:
    port = urlsplit(site.url).port
    ran = at_once("dashboard", "-w", workspace, "--port", port)
    assert ran.code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in ran.err
    assert "--port 0" in ran.err


def test_a_missing_token_can_be_made_by_what_is_said(workspace: Path) -> None:
    ran = at_once("dashboard", "-w", workspace, "--host", "0.0.0.0")
    assert "export TRAWLNET_DASHBOARD_TOKEN=$(openssl rand -hex 16)" in ran.err


def test_a_fleet_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    where = ("dashboard", "-w", tmp_path / "none", "--json", "--store")
    with redis_server() as redis:
        idle = at_once(*where, redis.url)
        assert idle.code == 1
        assert "no fleet has begun" in idle.error["error"]
        assert "--fleet local" in idle.error["hint"]
    assert at_once(*where, redis.url).code == 12
    assert not (tmp_path / "none").exists()


def test_crawlers_of_one_workspace_are_a_click_apart(tmp_path: Path) -> None:
    for crawler in ("web", "ids"):
        (tmp_path / "w" / "state" / crawler).mkdir(parents=True)
    with dashboard_of(tmp_path / "w") as site:
        page = site.ask("GET", "/").text
        assert 'href="/?crawler=web"' in page
        assert 'href="/?crawler=ids"' in page
        assert "<h1>ids crawl</h1>" in site.ask("GET", "/?crawler=ids").text


def test_a_workspace_without_a_crawl_has_no_dashboard(tmp_path: Path) -> None:
    assert at_once("dashboard", "-w", tmp_path / "none").code == 10
    ran = at_once("dashboard", "-w", tmp_path)
    assert ran.code == 10
    assert "no crawl has begun" in ran.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["told", "killed"])
def test_a_dashboard_of_a_crawl_ends_with_it(
    network: Any, tmp_path: Path, number: signal.Signals
) -> None:
    command = network.crawl(tmp_path / "w", "--dashboard", "127.0.0.1:0", rps=SLOWLY)
    with started(*command, folder=tmp_path / "talk") as crawl:
        crawl.says("dashboard on http://")
        url = re.search(r"dashboard on (\S+)", crawl.err)
        assert url is not None
        site = Dashboard(url[1], crawl)
        assert f"pid {crawl.pid}" in site.ask("GET", "/").text
        crawl.tell(number)
        crawl.process.wait(PATIENCE)

        def is_gone() -> bool:
            try:
                site.ask("GET", "/static/icon.svg")
            except OSError:
                return True
            return False

        wait_until(is_gone, "the dashboard to end")


@pytest.mark.parametrize("address", ["8080x", ":70000", "host:"])
def test_an_address_that_is_none_is_said(network: Any, tmp_path: Path, address: str) -> None:
    ran = at_once(*network.crawl(tmp_path / "w", "--dashboard", address))
    assert ran.code == 2
    assert "--dashboard :8080" in ran.err


def test_the_registry_is_behind_the_same_door(tmp_path: Path) -> None:
    registry = tmp_path / "w" / "state" / "pds"
    registry.mkdir(parents=True)
    told = {"TRAWLNET_PDS_CONTACT": "you@example.org", "TRAWLNET_DASHBOARD_TOKEN": TOKEN}
    with dashboard_of(tmp_path / "w", **told) as site:
        assert site.ask("GET", "/registry/").status == 401
        key = {"Authorization": f"Bearer {TOKEN}"}
        page = site.ask("GET", "/registry/", **key)
        assert page.status == 200
        assert "personal data servers" in page.text
        assert 'href="/' not in page.text
        style = site.ask("GET", "/registry/static/style.css", **key)
        assert style.headers["content-type"].startswith("text/css")
        assert 'href="/registry/"' in site.ask("GET", "/", **key).text


def test_a_registry_that_cannot_be_served_says_why(tmp_path: Path) -> None:
    (tmp_path / "w" / "state" / "pds").mkdir(parents=True)
    with dashboard_of(tmp_path / "w") as site:
        page = site.ask("GET", "/registry/")
        assert page.status == 503
        assert "--contact" in page.text
        assert site.ask("GET", "/").status == 200


def test_a_crawl_whose_state_is_on_a_server_is_asked_there(tmp_path: Path) -> None:
    (tmp_path / "w" / "state" / "repos").mkdir(parents=True)
    with redis_server() as redis:
        with dashboard_of(tmp_path / "w", TRAWLNET_REPOS_STORE=redis.url) as site:
            page = site.ask("GET", "/").text
            assert "Segments" in page
            assert "not begun" in page
        redis.kill()
        with dashboard_of(tmp_path / "w", TRAWLNET_REPOS_STORE=redis.url) as site:
            assert site.ask("GET", "/enter").status == 200
        told = {"TRAWLNET_REPOS_STORE": redis.url, "TRAWLNET_REPOS_FLEET": "local"}
        with dashboard_of(tmp_path / "w", **told) as site:
            page = site.ask("GET", "/")
            assert page.status == 200
            assert "not begun" in page.text


def test_a_crawl_obeys_its_dashboard_and_nothing_is_left_behind(
    network: Any, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    command = network.crawl(workspace, "--dashboard", ":0", rps=SLOWLY)
    with started(*command, folder=tmp_path / "talk") as crawl:
        crawl.says("dashboard on http://")
        url = re.search(r"dashboard on (\S+)", crawl.err)
        assert url is not None
        site = Dashboard(url[1], crawl)

        def tell(action: str) -> None:
            asked = site.ask("GET", f"/ask?crawler=repos&do={action}").text
            found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', asked)
            assert site.ask("POST", "/order", urlencode(dict(found))).status == 303

        def log() -> str:
            return "".join(path.read_text() for path in (workspace / "logs").glob("repos-*"))

        tell("retry")
        crawl.until(lambda: '"retried"' in log(), "the order to be obeyed")
        tell("pause")
        crawl.says("paused")
        tell("drain")
        ended = crawl.ended()
    assert ended.code == 130
    assert [path.name for path in workspace.glob("*.repos")] == []
    assert list((workspace / "state" / "repos" / "orders").iterdir()) == []


def test_a_button_that_did_nothing_says_why(tmp_path: Path) -> None:
    workspace = made_workspace(tmp_path / "w", many_lanes(3))
    address = f"redis://127.0.0.1:{free_port()}/0"
    (workspace / "trawlnet.yaml").write_text(f"web:\n  redis_address: {address}\n")
    with dashboard_of(workspace) as site:
        done = site.ask("POST", "/order", order(site, "retry"))
        assert done.status == 409
        assert "Nothing was reopened: " in done.text and "The keys are open again" not in done.text

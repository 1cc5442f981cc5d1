"""`pds serve` from outside: a real server on loopback, asked over real sockets."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote, unquote, urljoin

import pytest

from tests.support.pds.registry_rows import fill_registry
from tests.support.pds.registry_site import METHOD, Running, account, serving
from trawlnet.engine.outcome import Reason
from trawlnet.net.server import http as server
from trawlnet.tables.registry.rules import PdsSource, PdsStatus

ENDPOINT = f"/xrpc/{METHOD}"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """For tests that leave nothing behind that another would trip over."""
    with serving(tmp_path_factory.mktemp("registry") / "r.db", seed=fill_registry) as running:
        yield running


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Running]:
    async def five(url: str, did: str) -> int:
        return 5

    with serving(tmp_path / "r.db", scan=five) as running:
        yield running


def test_a_new_pds_is_entered_and_waits(fresh: Running) -> None:
    url = fresh.world.urls["pds"]
    answer = fresh.register(f"{url.upper().replace('HTTP', 'http')}/xrpc/?x=1#y")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    message = answer.json.pop("message")
    assert "registered" in message
    said = {key: answer.json[key] for key in ("pdsUrl", "registered", "status")}
    assert said == {"pdsUrl": url, "registered": True, "status": "pending"}
    row = fresh.run(fresh.registry.get(url))
    assert row is not None
    assert (row.discovery_source, row.status) == (PdsSource.USER, PdsStatus.PENDING)


def test_a_known_pds_is_said_to_be_known_and_not_asked_again(fresh: Running) -> None:
    url = fresh.world.urls["pds"]
    fresh.register(url)
    asked = fresh.world.asked["pds"]
    answer = fresh.register(url + "/")
    assert (answer.status, answer.json["status"]) == (200, "already_exists")
    assert "pending" in answer.json["message"]
    assert fresh.world.asked["pds"] == asked


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("relay", "relay"),
        ("listing", "relay"),
        ("html", "describe itself"),
        ("huge", "describe itself"),
        ("redirect", "describeServer"),
        ("error", "describeServer"),
    ],
)
def test_what_is_no_pds_is_refused(shared: Running, kind: str, word: str) -> None:
    url = shared.world.urls[kind]
    answer = shared.register(url)
    assert (answer.status, answer.json["error"]) == (400, "InvalidRequest")
    assert word in answer.json["message"]
    assert shared.run(shared.registry.get(url)) is None
    assert shared.world.asked["canary"] == 0


def test_a_host_that_asks_us_to_wait_is_left_alone(fresh: Running) -> None:
    url = fresh.world.urls["busy"]
    first, second = fresh.register(url), fresh.register(url)
    assert (first.status, first.json["error"]) == (503, "ServiceUnavailable")
    assert second.status == 503
    assert 0 < int(second.headers["retry-after"]) <= 120
    assert fresh.world.asked["busy"] == 1


def test_a_host_that_does_not_answer_is_refused(shared: Running) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        answer = shared.register(f"http://127.0.0.1:{nobody.getsockname()[1]}")
    assert (answer.status, answer.json["error"]) == (400, "InvalidRequest")
    assert "connect" in answer.json["message"]


def test_an_unreachable_pds_that_answers_again_is_revived(fresh: Running) -> None:
    url = fresh.world.urls["pds"]
    fresh.register(url)
    now = time.time()
    for number in range(5):
        now += 86_400
        fresh.run(fresh.registry.claim_one(url, now, 60.0, f"scan {number}"))
        fresh.run(fresh.registry.failed(url, f"scan {number}", "away", Reason.TIMEOUT, now))
    assert _status(fresh, url) is PdsStatus.UNREACHABLE
    assert fresh.register(url).json["status"] == "already_exists"
    assert _status(fresh, url) is PdsStatus.PENDING


def test_an_unreachable_pds_that_is_still_away_stays_so(fresh: Running) -> None:
    url = fresh.world.urls["error"]
    fresh.run(fresh.registry.register(url, PdsSource.PLC, now=time.time()))
    now = time.time()
    for number in range(5):
        now += 86_400
        fresh.run(fresh.registry.claim_one(url, now, 60.0, f"scan {number}"))
        fresh.run(fresh.registry.failed(url, f"scan {number}", "away", Reason.TIMEOUT, now))
    answer = fresh.register(url)
    assert (answer.json["status"], "unreachable" in answer.json["message"]) == (
        "already_exists",
        True,
    )
    assert _status(fresh, url) is PdsStatus.UNREACHABLE


def _status(running: Running, url: str) -> PdsStatus:
    row = running.run(running.registry.get(url))
    assert row is not None
    return row.status


def test_a_caller_who_proves_it_is_scanned_at_once(fresh: Running) -> None:
    url = fresh.world.urls["pds"]
    alice = account(0, url)
    fresh.world.documents[alice.did] = alice.document
    answer = fresh.register(url, Authorization=f"Bearer {alice.token(time.time())}")
    assert answer.json["status"] == "scanned"
    assert answer.json["message"] == "PDS registered and 5 record(s) indexed from your account."
    again = fresh.register(url, Authorization=f"Bearer {alice.token(time.time(), jti='2')}")
    assert again.json["message"] == "5 record(s) indexed from your account."
    assert fresh.scans == [(url, alice.did)] * 2


def test_a_caller_who_lives_elsewhere_is_not_scanned(fresh: Running) -> None:
    alice = account(0, fresh.world.urls["other_pds"])
    fresh.world.documents[alice.did] = alice.document
    url = fresh.world.urls["pds"]
    answer = fresh.register(url, Authorization=f"Bearer {alice.token(time.time())}")
    assert answer.json["status"] == "pending"
    assert "another PDS" in answer.json["message"]
    assert fresh.scans == []


def test_a_caller_who_has_just_moved_is_found(fresh: Running) -> None:
    before, after = fresh.world.urls["other_pds"], fresh.world.urls["pds"]
    alice, moved = account(0, before), account(0, after)
    fresh.world.documents[alice.did] = alice.document
    fresh.register(before, Authorization=f"Bearer {alice.token(time.time())}")
    fresh.world.documents[alice.did] = moved.document
    answer = fresh.register(after, Authorization=f"Bearer {alice.token(time.time(), jti='2')}")
    assert answer.json["status"] == "scanned"
    assert fresh.scans[-1] == (after, alice.did)


def test_a_bad_token_is_an_error_and_enters_nothing(fresh: Running) -> None:
    url = fresh.world.urls["pds"]
    alice, mallory = account(0, url), account(1, url)
    fresh.world.documents[alice.did] = alice.document
    forged = mallory.token(time.time(), iss=alice.did)
    for header, error in (
        (f"Bearer {forged}", "BadJwtSignature"),
        (f"Bearer {alice.token(time.time(), aud='did:web:other.test')}", "BadJwtAudience"),
        (f"Bearer {alice.token(time.time() - 3600)}", "JwtExpired"),
        ("Bearer x", "BadJwt"),
        ("Bearer", "BadJwt"),
        ("Basic YTpi", "BadJwt"),
    ):
        answer = fresh.register(url, Authorization=header)
        assert (answer.status, answer.json["error"]) == (401, error)
        assert answer.headers["www-authenticate"] == "Bearer"
    assert fresh.run(fresh.registry.get(url)) is None
    assert fresh.world.asked["pds"] == 0


def test_a_token_cannot_be_used_twice(fresh: Running) -> None:
    url = fresh.world.urls["pds"]
    alice = account(0, url)
    fresh.world.documents[alice.did] = alice.document
    header = f"Bearer {alice.token(time.time())}"
    assert fresh.register(url, Authorization=header).status == 200
    assert fresh.register(url, Authorization=header).json["error"] == "JwtReplayed"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"pdsUrl": 7}',
        b'{"pdsUrl": null}',
        b'{"pdsUrl": ""}',
        b'{"pdsUrl": "pds.atproto.garden"}',
        b'{"pdsUrl": "ftp://pds.atproto.garden"}',
        b'{"pdsUrl": "at://did:plc:abc"}',
        b'{"pdsUrl": "file:///etc/passwd"}',
        b'{"pdsUrl": "https://"}',
        b'{"pdsUrl": "https://a b.garden"}',
        b'{"pdsUrl": "https://<script>.garden"}',
        b'{"pdsUrl": "\\ud800://x"}',
        b'{"pdsUrl": "https://\\u0000.garden"}',
        b"[" * 5000,
        b"\xff\xfe",
        b'{"pdsUrl": "https://' + b"a" * 4000 + b'.garden"}',
    ],
    ids=range(20),
)
def test_what_is_no_url_is_refused(shared: Running, body: bytes) -> None:
    answer = shared.ask("POST", ENDPOINT, body, JSON)
    assert answer.status == 400
    assert answer.json["error"] == "InvalidRequest"
    assert answer.json["message"]


def test_a_body_too_large_is_not_read(shared: Running) -> None:
    assert shared.ask("POST", ENDPOINT, b"x" * 10_000, JSON).status == 413
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as line:
        head = f"POST {ENDPOINT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        line.sendall((head + "Transfer-Encoding: chunked\r\n\r\n").encode())
        chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
        sent = 0
        try:
            while sent < 100_000:
                line.sendall(chunk)
                sent += 1
        except OSError:
            pass  # The server has hung up.
    assert sent < 2000


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_who_does_not_come_out_with_a_request_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(server, "_REQUEST_SECONDS", 0.2)
    with (
        serving(tmp_path / "r.db") as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=10) as line,
    ):
        line.sendall(begun)
        assert line.recv(100) == b""


@pytest.mark.parametrize("said", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_another_type_of_body_is_refused(shared: Running, said: str) -> None:
    answer = shared.ask("POST", ENDPOINT, b'{"pdsUrl": "x"}', {"Content-Type": said})
    assert (answer.status, answer.json["error"]) == (415, "UnsupportedMediaType")


def test_a_charset_beside_the_type_does_not_matter(shared: Running) -> None:
    said = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert shared.ask("POST", ENDPOINT, b"{}", said).status == 400


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", ENDPOINT, "POST"), ("PUT", ENDPOINT, "POST"), ("POST", "/api/pds", "GET, HEAD")],
)
def test_another_method_is_told_which_one(
    shared: Running, method: str, path: str, allowed: str
) -> None:
    answer = shared.ask(method, path, b"{}", JSON)
    assert (answer.status, answer.json["error"]) == (405, "MethodNotAllowed")
    assert set(answer.headers["allow"].split(", ")) == set(allowed.split(", "))


def test_an_unknown_method_of_the_protocol_is_not_implemented(shared: Running) -> None:
    answer = shared.ask("GET", "/xrpc/com.atproto.sync.listRepos")
    assert (answer.status, answer.json["error"]) == (501, "MethodNotImplemented")


def test_an_address_that_comes_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    with serving(tmp_path / "r.db", registrations_per_minute=3) as running:
        url = running.world.urls["pds"]
        assert [running.register(url).status for _ in range(4)] == [200, 200, 200, 429]
        answer = running.register(url)
        assert answer.json["error"] == "RateLimitExceeded"
        assert 1 <= int(answer.headers["retry-after"]) <= 20
        assert running.ask("GET", "/api/pds").status == 200


def test_nobody_can_pretend_to_be_behind_a_proxy(tmp_path: Path) -> None:
    with serving(tmp_path / "r.db", registrations_per_minute=1) as running:
        url = running.world.urls["pds"]
        said = [running.register(url, **{"X-Forwarded-For": f"192.0.2.{n}"}) for n in range(3)]
        assert [one.status for one in said] == [200, 429, 429]


def test_a_trusted_proxy_speaks_for_others(tmp_path: Path) -> None:
    with serving(tmp_path / "r.db", registrations_per_minute=1, proxies=("127.0.0.1",)) as running:
        url = running.world.urls["pds"]
        said = [running.register(url, **{"X-Forwarded-For": f"192.0.2.{n}"}) for n in range(3)]
        assert [one.status for one in said] == [200, 200, 200]


def test_hosts_of_one_domain_come_in_one_by_one(tmp_path: Path) -> None:
    with serving(tmp_path / "r.db", hosts_per_hour=2) as running:
        kinds = ("pds", "other_pds", "canary")  # All at 127.0.0.1.
        answers = [running.register(running.world.urls[kind]) for kind in kinds]
        assert [one.status for one in answers] == [200, 200, 429]
        assert "domain" in answers[2].json["message"]
        assert int(answers[2].headers["retry-after"]) > 60
        assert running.world.asked["canary"] == 0
        # Who is known already costs nothing, and is not turned away.
        assert running.register(running.world.urls["pds"]).json["status"] == "already_exists"


def test_readers_are_held_to_a_rate_but_machines_that_watch_are_not(tmp_path: Path) -> None:
    with serving(tmp_path / "r.db", visits_per_minute=2) as running:
        said = [running.ask("GET", "/api/pds").status for _ in range(3)]
        assert said == [200, 200, 429]
        assert running.ask("GET", "/xrpc/_health").status == 200
        assert running.ask("GET", "/metrics").status == 200


def test_the_listing_is_paged_to_the_end_without_repeats(shared: Running) -> None:
    seen: list[str] = []
    path = "/api/pds?limit=50"
    for _ in range(10):
        page = shared.ask("GET", path).json
        seen += [row["pds_url"] for row in page["pdses"]]
        if "cursor" not in page:
            break
        path = f"/api/pds?limit=50&after={page['cursor']}"
    assert len(seen) == len(set(seen)) >= 180
    assert seen == sorted(seen)


def test_the_listing_can_be_narrowed(shared: Running) -> None:
    rows = shared.ask("GET", "/api/pds?q=CORAL&status=active&limit=1000").json["pdses"]
    assert rows
    assert all("coral" in row["pds_url"] and row["status"] == "active" for row in rows)
    relays = shared.ask("GET", "/api/pds?source=relay_listhosts&limit=1000").json["pdses"]
    assert relays
    assert {row["discovery_source"] for row in relays} == {"relay_listhosts"}
    assert shared.ask("GET", "/api/pds?q=%25").json["pdses"] == []


def test_the_page_is_turned_forwards_and_back_in_any_order(shared: Running) -> None:
    rows = shared.ask("GET", "/api/pds?source=relay_listhosts&limit=1000").json["pdses"]
    ranked = sorted(rows, key=lambda row: (-row["chive_record_count"], row["pds_url"]))
    seen: list[str] = []
    path: str | None = "/?source=relay_listhosts&sort=records"
    back: list[bool] = []
    for _ in range(20):
        if path is None:
            break
        body = shared.ask("GET", path).body.decode()
        records = sum(row["chive_record_count"] for row in rows)
        assert f"{len(rows):,} found, with {records:,} records" in body
        seen += [unquote(url) for url in re.findall(r'class="host" href="pds\?url=([^"]+)"', body)]
        back.append('rel="prev"' in body)
        following = re.search(r'rel="next" href="\./([^"#]+)#find"', body)
        path = f"/{unescape(following.group(1))}" if following else None
    assert seen == [row["pds_url"] for row in ranked]
    assert back == [False] + [True] * (len(back) - 1)


def test_each_server_has_a_page_of_its_own(shared: Running) -> None:
    row = shared.ask("GET", "/api/pds?status=unreachable&limit=1").json["pdses"][0]
    answer = shared.ask("GET", f"/pds?url={quote(row['pds_url'], safe='')}")
    body = unescape(answer.body.decode())
    assert answer.status == 200 and row["last_error"] in body and row["pds_url"] in body
    assert "Unreachable" in body
    assert shared.ask("GET", "/pds?url=https%3A%2F%2Fnobody.pds-world.net").status == 404
    assert shared.ask("GET", "/pds").status == 404


@pytest.mark.parametrize(
    "query",
    [
        "page=0",
        "page=x",
        "sort=size",
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=-1",
        "limit=1e3",
        "limit=%D9%A3",
        "status=asleep",
        "source=%27",
        "q=%00",
        f"q={'a' * 254}",
        "after=%0a",
    ],
)
def test_a_parameter_that_fits_nothing_is_refused(shared: Running, query: str) -> None:
    answer = shared.ask("GET", f"/api/pds?{query}")
    assert (answer.status, answer.json["error"]) == (400, "InvalidRequest")


def test_figures_are_there_for_machines(shared: Running) -> None:
    shared.register(shared.world.urls["pds"])
    text = shared.ask("GET", "/metrics").body.decode()
    assert 'trawlnet_registry_hosts{status="active"}' in text
    assert f'trawlnet_registry_requests_total{{route="{ENDPOINT}",status_class="2xx"}}' in text
    assert "trawlnet_registrations_total{result=" in text
    shared.ask("GET", "/no-such-page-of-a-stranger")
    assert "stranger" not in shared.ask("GET", "/metrics").body.decode()


def test_every_answer_has_the_safe_headers(shared: Running) -> None:
    for path in ("/", "/docs", "/api/pds", "/metrics", "/nowhere", "/xrpc/_health", ENDPOINT):
        headers = shared.ask("GET", path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_a_page_that_is_not_there_finds_its_style_wherever_it_is_not(shared: Running) -> None:
    page = shared.ask("GET", "/no/such/place", headers={"Accept": "text/html"}).body.decode()
    assert 'href="../../static/style.css"' in page
    assert 'href="../.././"' in page


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_the_form_of_our_own_page_registers(fresh: Running) -> None:
    url = fresh.world.urls["pds"]
    said = {**FORM, "Origin": fresh.url}
    answer = fresh.ask("POST", "/register", f"pds_url={url}".encode(), said)
    assert answer.status == 303
    there = urljoin("/register", answer.headers["location"]).partition("#")[0]
    page = fresh.ask("GET", there)
    assert f"{url} is registered" in page.body.decode()
    assert fresh.run(fresh.registry.get(url)) is not None


@pytest.mark.parametrize(
    "said",
    [
        {"Origin": "https://evil.test"},
        {"Origin": "null"},
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1"},
    ],
    ids=["another", "hidden", "unsaid", "cross-site", "same-site"],
)
def test_the_form_of_another_site_is_refused(fresh: Running, said: dict[str, str]) -> None:
    url = fresh.world.urls["pds"]
    answer = fresh.ask("POST", "/register", f"pds_url={url}".encode(), {**FORM, **said})
    assert answer.status == 403
    assert fresh.run(fresh.registry.get(url)) is None


def test_a_form_that_is_refused_says_why_and_keeps_what_was_typed(shared: Running) -> None:
    said = {**FORM, "Origin": shared.url}
    typed = b"pds_url=%22%3E%3Cscript%3Ealert(1)%3C/script%3E"
    answer = shared.ask("POST", "/register", typed, said)
    page = answer.body.decode()
    assert answer.status == 400
    assert 'role="alert"' in page
    assert 'value="&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"' in page
    assert "<script" not in page


def test_no_link_can_make_the_page_say_something_untrue(shared: Running) -> None:
    page = shared.ask("GET", "/?registered=https://never.heard-of.net").body.decode()
    assert "heard-of" not in page


def test_what_strangers_said_is_shown_as_text(shared: Running) -> None:
    everything = "".join(
        shared.ask("GET", f"/?status={status}").body.decode() for status in PdsStatus
    )
    assert "&lt;script&gt;alert(&#39;listRepos" in everything.replace("<wbr>", "")
    assert "<script" not in everything


def test_the_description_names_every_route_for_programs(shared: Running) -> None:
    document = shared.ask("GET", "/openapi.json").json
    page = shared.ask("GET", "/docs").body.decode().replace("<wbr>", "")
    for path, operations in document["paths"].items():
        assert path in page
        for method in operations:
            assert shared.ask(method.upper(), path, b"{}", JSON).status != 404
    assert json.dumps(document).count("registerPDS") >= 2

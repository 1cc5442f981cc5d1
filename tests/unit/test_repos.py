"""The repos crawler's decisions: what an error means, what a page names, which pages lie."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import ValidationError

from trawlnet.crawlers.atproto.answers import error_outcome, speaks_for_account
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.repos.accounts.visit_planner import ListedAccount
from trawlnet.crawlers.repos.build import open_parts, reading_threads
from trawlnet.crawlers.repos.config import ReposConfig, limits, manners
from trawlnet.crawlers.repos.listing import HostRules, listing_url, read_page
from trawlnet.crawlers.repos.sources import share_before
from trawlnet.crawlers.repos.work import (
    Listing,
    ListingKind,
    RepoVisit,
    Resolution,
    did_of,
    read_task,
)
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.net.client.answer import Response
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics

PDS = "https://pds.example"
REPOS = Listing(ListingKind.REPOS, PDS)
HOSTS = Listing(ListingKind.HOSTS, "https://relay.example")
DID = "did:plc:" + "a" * 24


def answer(
    status: int, body: bytes = b"", wait: float | None = None, kind: str = "text/html"
) -> Response:
    headers = CIMultiDictProxy(CIMultiDict({"Content-Type": kind}))
    return Response(status, headers, body, "u", (), 0.0, len(body), wait)


def error(status: int, name: Any, message: Any = "x") -> Response:
    return answer(status, orjson.dumps({"error": name, "message": message}))


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (error(400, "RepoNotFound"), Reason.NOT_FOUND),
        (error(400, "RepoDeactivated"), Reason.DEACTIVATED),
        (error(400, "RepoTakendown"), Reason.TAKENDOWN),
        (error(400, "RepoSuspended"), Reason.SUSPENDED),
        (error(404, "RepoTakendown"), Reason.TAKENDOWN),
        (error(400, "InvalidRequest", "Could not find repo for DID: x"), Reason.NOT_FOUND),
        (error(400, "InvalidRequest", "not: Could not find repo"), Reason.HTTP_ERROR),
        (error(400, "Other", "RepoDeactivated RepoNotFound"), Reason.HTTP_ERROR),
        (error(400, ["RepoNotFound"]), Reason.HTTP_ERROR),
        (error(401, "AuthMissing"), Reason.HTTP_ERROR),
        (error(503, "RepoNotFound"), Reason.UNAVAILABLE),
        (answer(404, b"<html>RepoDeactivated"), Reason.NOT_FOUND),
        (answer(400, b"RepoTakendown"), Reason.HTTP_ERROR),
        (answer(400, b"[" * 5000), Reason.HTTP_ERROR),
        (answer(400, b"\xff\xfe"), Reason.HTTP_ERROR),
        (answer(400, b"3"), Reason.HTTP_ERROR),
        (answer(429, b"", wait=7.0), Reason.RATE_LIMITED),
        (answer(400, b'{"error":"RepoDea', kind="application/json"), Reason.TRUNCATED),
        (answer(404, b"", kind="application/json"), Reason.TRUNCATED),
        (answer(500, b"{", kind="application/json"), Reason.UNAVAILABLE),
    ],
)
def test_the_error_s_name_decides_and_never_a_part_of_the_text(
    response: Response, reason: Reason
) -> None:
    outcome = error_outcome(response)
    assert outcome.reason is reason
    assert outcome.wait == response.wait
    assert outcome.detail.startswith(f"HTTP {response.status}")


@pytest.mark.parametrize(
    ("response", "speaks"),
    [
        (error(400, "RepoNotFound"), True),
        (error(400, "RepoTakendown", ""), True),
        (error(400, "InvalidRequest", "Could not find repo for DID: x"), True),
        (error(400, "InvalidRequest", "something else"), False),
        (error(404, "NotFound"), False),
        (answer(404, b"<html>this domain is for sale"), False),
        (answer(410), False),
    ],
)
def test_only_the_protocol_s_own_words_bury_an_account(response: Response, speaks: bool) -> None:
    assert speaks_for_account(error_outcome(response)) is speaks


def test_a_hostile_message_is_a_short_printable_detail() -> None:
    outcome = error_outcome(error(400, "\x1b[2J" * 500, "\r\n" * 500))
    assert outcome.detail.isprintable()
    assert len(outcome.detail) < 300


def page(rows: Sequence[Any], cursor: str | None = None, what: str = "repos") -> bytes:
    return orjson.dumps({what: rows} | ({"cursor": cursor} if cursor is not None else {}))


def read(listing: Listing, body: bytes, rules: HostRules | None = None) -> Outcome:
    """With every account that the page claims as a visit, whoever says so."""
    page = read_page(listing, body, rules or HostRules())
    if page is None:
        return Outcome(Reason.PARSE_ERROR)
    return page.outcome([RepoVisit(claim.did, claim.pds).task() for claim in page.claims])


def test_a_page_of_repos_and_the_page_after_it_are_one_outcome() -> None:
    rows = [{"did": DID, "rev": "3k"}, {"did": "did:web:x", "active": False, "rev": 5}]
    listed = read_page(REPOS, page(rows, "c1"), HostRules())
    assert listed is not None
    assert listed.claims == [
        ListedAccount(DID, PDS, "3k"),
        ListedAccount("did:web:x", PDS, active=False),
    ]
    outcome = listed.outcome([RepoVisit(DID, PDS).task()])
    first, after = outcome.found
    assert outcome.reason is Reason.OK
    assert (first.key, first.lane) == (DID, "pds.example")
    following = read_task(after)
    assert isinstance(following, Listing)
    assert (following.cursor, following.number) == ("c1", 2)
    assert after.score < first.score


@pytest.mark.parametrize(
    "work",
    [
        REPOS,
        Listing(ListingKind.HOSTS, PDS, "c", 3, 1, (5, 6)),
        Resolution(DID, "https://plc.example"),
        RepoVisit(DID, PDS, "did:key:z", "3k"),
    ],
)
def test_work_comes_back_from_its_task_as_it_was(work: Any) -> None:
    assert read_task(work.task()) == work
    if not isinstance(work, Listing):
        assert did_of(work.task().key) == DID


@pytest.mark.parametrize("cursor", [None, ""])
def test_a_listing_ends_where_there_is_no_cursor_and_not_at_a_short_page(
    cursor: str | None,
) -> None:
    assert len(read(REPOS, page([{"did": DID}], cursor)).found) == 1
    assert len(read(REPOS, page([], "more")).found) == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"repos": {}}', b'{"cursor": "x"}', b'{"repos": [], "cursor": 5}',
     b'{"repos": [], "cursor": "' + b"x" * 3000 + b'"}', b"\xff"],
)  # fmt: skip
def test_what_is_not_a_page_is_said_to_be_none(body: bytes) -> None:
    assert read(REPOS, body).reason is Reason.PARSE_ERROR


def test_rows_that_name_nothing_are_left_out_and_counted() -> None:
    rows = [None, 3, {}, {"did": 5}, {"did": "did:"}, {"did": f"{DID}\n"}, {"did": DID}]
    outcome = read(REPOS, page(rows))
    assert [task.key for task in outcome.found] == [DID]
    assert outcome.detail == "1 named, 6 left out"


def follow(pages: Sequence[bytes], most: int = 200) -> tuple[Outcome, int]:
    """Turn pages until the listing ends; the last one is served for ever."""
    listing = REPOS
    for number in range(most):
        outcome = read(listing, pages[min(number, len(pages) - 1)].replace(b"%n", b"%d" % number))
        following = outcome.found[-1] if outcome.found else None
        work = read_task(following) if following is not None else None
        if not isinstance(work, Listing):
            return outcome, number + 1
        listing = work
    raise AssertionError("no end")


def test_a_cursor_that_repeats_ends_the_listing_and_keeps_the_page() -> None:
    outcome, asked = follow([page([{"did": DID}], "same")])
    assert (outcome.reason, asked) == (Reason.LOOP, 2)
    assert outcome.found[0].key.startswith(DID)


def test_the_same_page_under_new_cursors_ends_the_listing() -> None:
    outcome, asked = follow([page([{"did": DID}], "c%n")])
    assert (outcome.reason, asked) == (Reason.LOOP, 2)


def test_pages_in_a_small_circle_end_the_listing() -> None:
    circle = [page([{"did": f"did:web:{n}"}], "c%n") for n in (1, 2, 3)] * 50
    outcome, asked = follow(circle)
    assert (outcome.reason, asked) == (Reason.LOOP, 4)


def test_empty_pages_are_followed_for_a_while_only() -> None:
    outcome, asked = follow([page([], "c%n")])
    assert (outcome.reason, asked) == (Reason.LOOP, 20)
    some = [page([], "c%n")] * 10 + [page([{"did": DID}], "c%n")] + [page([], "c%n")] * 10
    assert follow([*some, page([{"did": "did:web:x"}])])[0].reason is Reason.OK


def test_a_listing_without_end_has_a_last_page() -> None:
    listing = Listing(ListingKind.REPOS, PDS, "c", number=50_000)
    assert read(listing, page([{"did": DID}], "d")).reason is Reason.LOOP


@pytest.mark.parametrize(
    ("name", "private", "url"),
    [
        ("pds.example", False, "https://pds.example"),
        ("PDS.Example:8443", False, "https://pds.example:8443"),
        ("127.0.0.2:9000", True, "http://127.0.0.2:9000"),
        ("127.0.0.2:9000", False, "https://127.0.0.2:9000"),
        ("[::1]:9000", True, "http://[::1]:9000"),
        ("localhost:1", True, "http://localhost:1"),
        ("pds.example", True, "https://pds.example"),
    ],
)
def test_hosts_are_asked_over_https_unless_the_world_is_private(
    name: str, private: bool, url: str
) -> None:
    body = page([{"hostname": name}], what="hosts")
    (task,) = read(HOSTS, body, HostRules(allow_private=private)).found
    assert read_task(task) == Listing(ListingKind.REPOS, url)


@pytest.mark.parametrize(
    "row",
    [{"hostname": "a b"}, {"hostname": "x/../y"}, {"hostname": "u@h"}, {"hostname": ""}, {},
     {"hostname": "h:99999"}, {"hostname": "h:0"}, {"hostname": "h\n"}, {"hostname": 5}, 7,
     {"hostname": "é.example"}, {"hostname": "x" * 300}, {"hostname": "h", "status": "banned"},
     {"hostname": "skipped.example"}, {"hostname": "..."}],
)  # fmt: skip
def test_hosts_that_are_none_banned_or_unwanted_are_left_out(row: Any) -> None:
    rules = HostRules(skip=frozenset({"skipped.example"}))
    assert read(HOSTS, page([row], what="hosts"), rules).found == []


def test_cursors_and_dids_are_escaped_in_urls() -> None:
    listing = Listing(ListingKind.REPOS, PDS, cursor="1::did:web:a%3A1&x=y")
    assert listing_url(listing) == (
        f"{PDS}/xrpc/com.atproto.sync.listRepos?limit=1000"
        "&cursor=1%3A%3Adid%3Aweb%3Aa%253A1%26x%3Dy"
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [("100MB", 100 << 20), ("1.5 gb", 3 << 29), ("7", 7), ("2k", 2048), ("1TB", 1 << 40)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert ReposConfig(max_repo_size=text).max_repo_size == size  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "1XB", "0", "1e9", "nan"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        ReposConfig(max_repo_size=text)  # type: ignore[arg-type]


def test_the_config_decides_manners_and_limits() -> None:
    config = ReposConfig(
        default_pds_rps=9, pds_concurrency=2, halve_after=3, min_pds_rps=1, block_after=7,
        attempts=4, retry_base=0.5, retry_cap=60, max_tasks=11, max_seconds=2.5,
    )  # fmt: skip
    polite, most = manners(config), limits(config)
    assert (polite.rate, polite.concurrency, polite.halve_every) == (9, 2, 3)
    assert (polite.floor, polite.block_at) == (1, 7)
    assert (most.retry.attempts, most.retry.base, most.retry.cap) == (4, 0.5, 60)
    assert (most.most_tasks, most.most_seconds) == (11, 2.5)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"contact": "a@b.org"}, "trawlnet repos plc"),
        ({"contact": "a@b.org", "source": "relay"}, "--relay"),
        ({"contact": "a@b.org", "source": "file"}, "--dids"),
        ({"contact": "a@b.org", "dids": "/nowhere"}, "--dids"),
        ({"contact": "a@b.org", "dids": __file__}, "one DID per line"),
        (
            {"relay": "https://r.example", "contact": "a@b.org", "plc_url": "x"},
            "https://plc.directory",
        ),
        ({"relay": "relay.example", "contact": "a@b.org"}, "https://relay.example"),
        ({"relay": "https://", "contact": "a@b.org"}, "https://relay.example"),
        ({"relay": "https://r.example"}, "--contact"),
        ({"relay": "https://r.example", "contact": "me"}, "--contact"),
    ],
)
def test_a_crawl_that_cannot_start_says_what_to_type(
    given: dict[str, Any], hint: str, tmp_path: Path
) -> None:
    async def start() -> None:
        clock = SystemClock()
        async with open_parts(ReposConfig(**given), tmp_path, clock, CrawlMetrics("repos", clock)):
            pass

    with pytest.raises(NotReady) as trouble:
        asyncio.run(start())
    assert hint in trouble.value.hint
    assert not (tmp_path / "archive").exists()


@pytest.mark.parametrize(("cores", "threads"), [(None, 2), (1, 2), (2, 2), (3, 3), (64, 4)])
def test_as_many_threads_read_repositories_as_there_are_cores_within_bounds(
    cores: int | None, threads: int
) -> None:
    assert reading_threads(cores) == threads


@pytest.mark.parametrize(
    ("did", "share"),
    [
        ("did:key:z6Mk", 0.0),
        ("did:plc:222222222222222222222222", 0.0),
        ("did:plc:a22222222222222222222222", 6 / 32),
        ("did:plc:zzzzzzzzzzzzzzzzzzzzzzzz", 1.0),
        ("did:web:example.org", 1.0),
    ],
)
def test_how_far_a_sweep_is_shows_in_its_last_did(did: str, share: float) -> None:
    assert share_before(did) == pytest.approx(share)

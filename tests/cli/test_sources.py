"""A crawl whose source could not be read is not done, whatever the source said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.net.answering import answering
from tests.support.program import at_once
from trawlnet.engine.outcome import Outcome, Reason

AGENT = "Bot/1.0 (+https://example.org/bot)"
HOSTS = b'{"hosts": [], "cursor": "next"}'
EMPTY = b'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>'


@pytest.mark.parametrize(
    ("answers", "detail"),
    [
        ([(404, b"")], "this listing was not read to the end: not_found: HTTP 404"),
        ([(410, b"")], "HTTP 410"),
        ([(200, HOSTS), (404, b"")], "this listing was not read to the end: not_found: HTTP 404"),
    ],
    ids=["missing", "gone", "second-page"],
)
def test_a_relay_whose_listing_is_refused_leaves_a_crawl_that_is_not_done(
    answers: list[tuple[int, bytes]], detail: str, tmp_path: Path
) -> None:
    with answering(*answers) as url:
        where = ("-w", tmp_path / "net")
        ran = at_once("repos", "crawl", *where, "--relay", url, "--allow-private-hosts", "--json")
        assert ran.code == 3 and ran.rows[-1]["given_up"] == 1, ran.err
        (row,) = at_once("repos", "failures", *where, "--json").rows
        assert detail in row["detail"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [((404, b""), 3), ((200, b"<html>hello</html>"), 3), ((200, EMPTY), 0)],
    ids=["missing", "a-page", "empty"],
)
def test_a_sitemap_that_the_config_names_is_read_or_the_crawl_is_not_done(
    answer: tuple[int, bytes], code: int, tmp_path: Path
) -> None:
    with answering(answer) as url:
        named = ("--set", f"sitemaps.urls=[{url}/sitemap.xml]", "--allowed-host", "127.0.0.1")
        flags = ("--user-agent", AGENT, "--allow-private-hosts", "-w", tmp_path / "site")
        ran = at_once("web", "crawl", *named, *flags, "--json")
    assert ran.code == code and ran.rows[-1]["given_up"] == (code == 3), ran.err


@pytest.mark.parametrize("answer", [(404, b""), (503, b""), (200, b"<html></html>")], ids=str)
def test_a_schedule_that_ends_says_which_source_was_not_read(
    answer: tuple[int, bytes], tmp_path: Path
) -> None:
    with answering(answer) as url:
        flags = ("--once", "--relay", url, "--allow-private-hosts", "-w", tmp_path, "--json")
        ran = at_once("pds", "crawl", *flags)
    assert ran.code == 12 and f"did not finish reading a source: {url}" in ran.error["error"], (
        ran.err
    )


@pytest.mark.parametrize("is_partial", [True, False])
def test_a_dead_source_leaves_the_closing_lines(is_partial: bool, tmp_path: Path) -> None:
    with answering((404, b"")) as dead, answering((200, b'{"hosts": []}')) as good:
        relays = ("--relay", good if is_partial else dead, "--relay", f"{dead}")
        flags = (*relays, "--allow-private-hosts", "-w", tmp_path)
        code = 3 if is_partial else 12
        assert at_once("pds", "discover", *flags).code == code
        told = at_once("pds", "crawl", "--once", *flags)
        ran = at_once("pds", "crawl", "--once", *flags, "--json", "--discovery-interval", 1)
    assert told.code == code and "done after" in told.err, told.err
    assert "did not finish reading a source" in told.err.split("done after")[1]
    assert ran.rows[-1]["event"] == "summary"


def test_a_no_that_the_crawl_needs_is_told_with_its_reason() -> None:
    refused = Outcome(Reason.REFUSED, detail="a private address")
    told = refused.as_given_up("not read")
    assert not told.reason.answer and told.detail == "not read: refused: a private address"
    for outcome in (Outcome(Reason.OK), Outcome(Reason.TIMEOUT, wait=3.0)):
        assert outcome.as_given_up("not read") is outcome, "done, or tried again and counted"

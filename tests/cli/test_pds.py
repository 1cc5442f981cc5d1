"""`trawlnet pds` as its users type it, against the simulated network."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import at_once, started, trawlnet, wait_until
from tests.support.servers import free_port, postgres_server

POSTS = "app.bsky.feed.post"
COLUMNS = {
    *("pds_url", "discovered_at", "discovery_source", "status", "last_scan_at", "next_scan_at"),
    *("has_chive_records", "chive_record_count", "consecutive_failures", "scan_priority"),
    *("last_error", "updated_at"),
}


def sources(network: Any) -> tuple[object, ...]:
    return ("--plc-url", network.ready["plc"], "--relay", network.relay, "--allow-private-hosts")


def crawling(network: Any, workspace: Path, *more: object) -> tuple[object, ...]:
    rates = ("--requests-per-minute", 60_000, "--plc-rps", 1000, "--max-records-per-pds", 100_000)
    chosen = ("--collections", POSTS, "--batch", 50, "--concurrency", 4)
    return ("pds", "crawl", "-w", workspace, *sources(network), *rates, *chosen, *more)


def posts_by_host(network: Any) -> Counter[str]:
    """Of accounts that are active, where they live."""
    counts: Counter[str] = Counter()
    for row in network.manifest["dids"].values():
        if row["archivable"]:
            counts[row["pds"]] += row["records"].get(POSTS, 0)
    return counts


def listed(workspace: Path, *more: object) -> dict[str, dict[str, Any]]:
    ran = at_once("pds", "list", "-w", workspace, "--json", *more)
    assert ran.code == 0, ran.err
    return {row["pds_url"]: row for row in ran.rows}


def test_discovery_counts_by_source_and_a_second_one_finds_nothing_new(
    network: Any, tmp_path: Path
) -> None:
    ran = trawlnet("pds", "discover", "-w", tmp_path / "net", *sources(network), "--json")
    assert ran.code == 0, ran.err
    (told,) = ran.rows
    assert set(told) == {"plc_enumeration", "relay_listhosts"}
    for row in told.values():
        assert row["found"] == row["new"] + row["known"] + row["refused"]
    assert sum(row["new"] for row in told.values()) == len(network.ready["pds"])
    rows = listed(tmp_path / "net")
    assert set(rows) == set(network.ready["pds"])
    assert all(row.keys() >= COLUMNS and row["status"] == "pending" for row in rows.values())
    (again,) = trawlnet("pds", "discover", "-w", tmp_path / "net", *sources(network), "--json").rows
    assert sum(row["new"] for row in again.values()) == 0


def test_a_crawl_finds_scans_and_counts_every_record(network: Any, tmp_path: Path) -> None:
    ran = trawlnet(*crawling(network, tmp_path / "net", "--once", "--json"))
    assert ran.code == 0, ran.err
    assert "discovering PDSes first" in ran.err.splitlines()[0], "or it waits without a word"
    expected = posts_by_host(network)
    for url, row in listed(tmp_path / "net").items():
        assert row["chive_record_count"] == expected[url]
        assert row["status"] == ("active" if expected[url] else "no_chive_records")
        assert row["last_scan_at"].endswith("Z") and row["next_scan_at"] > row["last_scan_at"]
    (status,) = at_once("pds", "status", "-w", tmp_path / "net", "--json").rows
    assert status["total"] == sum(status["by_status"].values()) == len(network.ready["pds"])
    assert (status["due"], status["chive_records"]) == (0, expected.total())
    with sqlite3.connect(tmp_path / "net/state/pds/registry.db") as db:
        assert db.execute("SELECT COUNT(*) FROM pds_registry").fetchone() == (len(expected),)
    # Nothing is due: the next one asks nobody.
    again = trawlnet(*crawling(network, tmp_path / "net", "--once", "--json"))
    assert again.rows[-1]["run"]["attempts"] == {}


def test_a_crawl_that_stays_ends_with_a_signal_and_gives_back_what_it_has(
    network: Any, tmp_path: Path
) -> None:
    words = crawling(network, tmp_path / "net", "--requests-per-minute", 60, "--scan-timeout", 2)
    with started(*words, folder=tmp_path / "out") as crawl:
        state = tmp_path / "net/state/pds/registry.db"
        wait_until(lambda: state.exists() and _scanning(state) > 0, "a scan under way")
        crawl.tell(signal.SIGTERM)
        assert crawl.ended().code == 130
    assert _scanning(state) == 0
    rows = listed(tmp_path / "net")
    assert set(rows) == set(network.ready["pds"])


def test_a_scan_that_is_told_to_stop_gives_its_claim_back(network: Any, tmp_path: Path) -> None:
    words = ("pds", "scan", "-w", tmp_path / "net", network.ready["pds"][0], "--plc-url")
    more = (network.ready["plc"], "--collections", POSTS, "--allow-private-hosts")
    with started(*words, *more, "--requests-per-minute", 1, folder=tmp_path / "out") as scan:
        state = tmp_path / "net/state/pds/registry.db"
        wait_until(lambda: state.exists() and _walks(state) > 0, "the first page, saved")
        scan.tell(signal.SIGTERM)
        assert scan.ended().code == 130
    (row,) = listed(tmp_path / "net").values()
    assert row["status"] == "pending"
    assert row["last_try_at"] is not None, "whoever goes on keeps the distance to it"


def test_a_scan_goes_on_slice_after_slice_and_one_slice_is_enough_if_one_says_so(
    network: Any, tmp_path: Path
) -> None:
    posts = posts_by_host(network)
    url = max(posts, key=lambda one: posts[one])
    words = ("pds", "scan", "-w", tmp_path, url, "--plc-url", network.ready["plc"], "--json")
    more = ("--collections", POSTS, "--allow-private-hosts", "--max-records-per-pds", 2)
    fast = ("--plc-rps", 1000, "--requests-per-minute", 60_000)
    brief = trawlnet(*words, *more, *fast, "--one-slice")
    assert (brief.code, brief.rows[0]["result"], brief.rows[0]["found"]) == (0, "partial", 2)
    row = listed(tmp_path)[url]
    assert (row["chive_record_count"], row["indexed_record_count"]) == (2, 2), "what is there"
    assert row["has_chive_records"] is None, "which a whole scan will tell"
    (status,) = at_once("pds", "status", "-w", tmp_path, "--json").rows
    assert (status["chive_records"], status["indexed_records"]) == (2, 2)
    assert " 2 records " in at_once("pds", "list", "-w", tmp_path).out
    whole = trawlnet(*words, *more, *fast)
    assert (whole.code, whole.rows[0]["result"]) == (0, "complete"), whole.err
    assert whole.rows[0]["found"] == posts[url] - 2
    assert "so far; the scan continues" in whole.err
    assert listed(tmp_path)[url]["chive_record_count"] == posts[url]


def _scanning(state: Path) -> int:
    return _counted(state, "SELECT COUNT(*) FROM pds_registry WHERE status = 'scanning'")


def _walks(state: Path) -> int:
    return _counted(state, "SELECT COUNT(*) FROM scan_progress")


def _counted(state: Path, query: str) -> int:
    try:
        with sqlite3.connect(f"file:{state}?mode=ro", uri=True) as db:
            return int(db.execute(query).fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # Not made yet.


def test_registering_is_by_any_spelling_and_refused_with_a_reason(tmp_path: Path) -> None:
    ran = at_once(
        "pds", "register", "-w", tmp_path, "HTTPS://PDS.Net-A.org:443/x", "--no-ask", "--json"
    )
    assert (ran.code, ran.rows[0]["pds_url"]) == (0, "https://pds.net-a.org")
    assert ran.rows[0]["result"] == "new"
    again = at_once("pds", "register", "-w", tmp_path, "pds.net-a.org", "--json")
    assert (again.code, again.rows[0]["result"]) == (0, "known")
    for url, reason in (("https://127.0.0.1", "address"), ("https://localhost", "private_name")):
        refused = at_once("pds", "register", "-w", tmp_path, url, "--json")
        assert refused.code == 1
        assert (refused.rows[0]["result"], refused.rows[0]["reason"]) == ("refused", reason)
    assert len(at_once("pds", "list", "-w", tmp_path, "--json").rows) == 1
    for url in ("not a url", "ftp://pds.net-a.org", "https://user@pds.net-a.org"):
        told = at_once("pds", "register", "-w", tmp_path, url)
        assert told.code == 1 and "write it like https://pds.example" in told.err, told.err
    address = at_once("pds", "ban", "-w", tmp_path, "127.0.0.1")
    assert address.code == 0 and "below" not in address.err
    assert "and its subdomains" in at_once("pds", "ban", "-w", tmp_path, "net-b.org").err


def test_a_dead_server_is_a_failure_that_can_be_listed_and_put_back(tmp_path: Path) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    fast = ("--allow-private-hosts", "--requests-per-minute", 60_000)
    scan = ("pds", "scan", "-w", tmp_path, dead, *fast, "--json")
    # Nobody knows it: a mistyped name is told, and not asked for weeks.
    ran = at_once(*scan)
    assert (ran.code, ran.rows[0]["reason"], listed(tmp_path)) == (3, "connection_error", {})
    register = ("pds", "register", "-w", tmp_path, dead, "--allow-private-hosts", "--no-ask")
    assert at_once(*register).code == 0
    ran = at_once(*scan)
    assert ran.code == 3
    assert (ran.rows[0]["result"], ran.rows[0]["reason"]) == ("failed", "connection_error")
    (failure,) = at_once("pds", "failures", "-w", tmp_path, "--json").rows
    assert set(failure) == {"key", "lane", "reason", "detail", "attempt", "at"}
    assert (failure["key"], failure["attempt"]) == (dead, 1)
    assert at_once("pds", "failures", "-w", tmp_path, "--reason", "timeout", "--json").rows == []
    assert at_once("pds", "retry", "-w", tmp_path, "--json").rows == [{"put_back": 1}]
    row = listed(tmp_path, "--status", "pending")[dead]
    assert row["consecutive_failures"] == 0
    assert at_once("pds", "reset", "-w", tmp_path, "--yes").code == 0
    assert listed(tmp_path) == {}


def test_a_crawl_whose_scan_failed_is_not_done(tmp_path: Path) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    private = ("-w", tmp_path, "--allow-private-hosts")
    assert at_once("pds", "register", *private, dead, "--no-ask").code == 0
    crawl = ("pds", "crawl", "--once", *private, "--requests-per-minute", 60_000)
    ran = at_once(*crawl)
    assert ran.code == 3 and "done after" in ran.err, ran.err
    assert "1 task failed, to be tried again later; list with: trawlnet pds failures" in ran.err
    # It is not due yet, and still not done.
    again = at_once(*crawl, "--json")
    assert again.code == again.rows[-1]["exit_code"] == 3, again.err
    assert (again.rows[-1]["given_up"], again.rows[-1]["failing"]) == (0, 1)
    assert at_once("pds", "retry", *private[:2]).code == 0
    assert len(at_once("pds", "failures", *private[:2], "--json").rows) == 0


def test_an_empty_registry_ends_a_crawl_or_is_waited_for_in_so_many_words(tmp_path: Path) -> None:
    shared = ("-w", tmp_path / "net", "--registry", tmp_path / "shared.db")
    private = (*shared, "--allow-private-hosts")
    assert at_once("pds", "register", *private, "http://127.0.0.1:9", "--no-ask").code == 0
    assert at_once("pds", "remove", *shared, "http://127.0.0.1:9").code == 0
    once = at_once("pds", "crawl", *private, "--once", "--json")
    register = f"trawlnet pds register -w {tmp_path}/net --registry {tmp_path}/shared.db URL"
    assert once.code == 2 and register in once.error["hint"], once.err
    staying = at_once("pds", "crawl", *private, "--max-seconds", 0.1)
    assert staying.code == 4 and "waiting for other processes to add one" in staying.err, (
        staying.err
    )


def test_one_account_can_be_scanned_on_its_own(network: Any, tmp_path: Path) -> None:
    wanted = ((d, r) for d, r in network.manifest["dids"].items() if r["archivable"])
    did, row = next((d, r) for d, r in wanted if r["records"].get(POSTS))
    words = ("--plc-url", network.ready["plc"], "--collections", POSTS, "--allow-private-hosts")
    ran = trawlnet("pds", "scan", "-w", tmp_path, row["pds"], "--did", did, *words, "--json",
                   "--requests-per-minute", 60_000)  # fmt: skip
    assert ran.code == 0, ran.err
    assert ran.rows[0]["indexed"] == row["records"][POSTS]
    with sqlite3.connect(tmp_path / "state/pds/registry.db") as db:
        found = db.execute("SELECT DISTINCT did, pds_url FROM records").fetchall()
    assert found == [(did, row["pds"])]


@pytest.mark.parametrize("verb", ["list", "status", "failures", "retry"])
def test_a_missing_workspace_has_its_own_exit_code(verb: str, tmp_path: Path) -> None:
    ran = at_once("pds", verb, "-w", tmp_path / "nowhere", "--json")
    assert ran.code == 10 and "hint" in ran.error
    assert not (tmp_path / "nowhere").exists()


def test_mistakes_are_named_before_anything_is_made(tmp_path: Path) -> None:
    net = tmp_path / "net"
    for words, part in (
        (("discover",), "no source"),
        (("list", "--status", "dead"), "'dead' is not one of the statuses"),
        (("scan", "https://pds.net-a.org", "--did", "nobody"), "--did takes a DID"),
        (("scan", "https://pds.net-a.org", "--did", "did:plc:nope"), "is not a DID"),
        (("crawl", "--batch", "0"), "at least 1"),
        (("crawl", "--contact", "a@b.example", "--max-seconds", "1"), "the registry has no PDS"),
        (("crawl", "--contact", "a@b.example", "--once"), "the registry has no PDS"),
    ):
        (tmp_path / "there").mkdir(exist_ok=True)
        place = tmp_path / "there" if words[0] == "list" else net
        ran = at_once("pds", *words, "-w", place, "--json")
        assert ran.code == 2 and part in ran.error["error"], ran.err
    assert not net.exists()


def test_a_registry_on_a_server_is_shared_and_needs_no_workspace(
    network: Any, tmp_path: Path
) -> None:
    with postgres_server() as server:
        where = ("--registry", server.url)
        ran = trawlnet(*crawling(network, tmp_path / "net", "--once", *where))
        assert ran.code == 0, ran.err
        rows = listed(tmp_path / "elsewhere", *where)
        assert {u: r["chive_record_count"] for u, r in rows.items()} == {
            url: posts_by_host(network)[url] for url in network.ready["pds"]
        }
        (status,) = at_once("pds", "status", "-w", tmp_path / "x", *where, "--json").rows
        assert status["total"] == len(rows)
        reset = at_once("pds", "reset", "-w", tmp_path / "net", *where, "--yes", "--json")
        assert reset.code == 0 and listed(tmp_path / "net", *where) == {}
    gone = at_once("pds", "list", "-w", tmp_path / "net", *where, "--json")
    assert gone.code == 12 and json.loads(gone.err.splitlines()[-1])["hint"]


@pytest.mark.parametrize("glob", ["pub.chive", "pub", "", "pub..*", "pub.chive.[ab]*", "a b.c.*"])
def test_a_pattern_that_fits_no_collection_is_refused(tmp_path: Path, glob: str) -> None:
    ran = at_once("pds", "scan", "-w", tmp_path, "https://pds.example", "--collections", glob)
    assert ran.code == 2 and "app.bsky.*" in ran.err


def test_other_collections_withdraw_nothing_and_are_named_when_nothing_fits(
    network: Any, tmp_path: Path
) -> None:
    url = network.ready["pds"][0]
    pace = ("--requests-per-minute", 60_000, "--plc-rps", 1000, "--max-records-per-pds", 100_000)
    known = ("--plc-url", network.ready["plc"], "--allow-private-hosts", *pace)
    scan = ("pds", "scan", "-w", tmp_path / "net", url, *known, "--collections")
    assert trawlnet(*scan, POSTS).code == 0
    before = listed(tmp_path / "net")[url]
    mistyped = trawlnet(*scan, "app.bksy.*", "--json")
    assert mistyped.code == 0 and "no record there matches --collections app.bksy.*" in mistyped.err
    (row,) = mistyped.rows
    assert row["held"] == {}
    after = listed(tmp_path / "net")[url]
    assert after["chive_record_count"] == before["chive_record_count"] > 0
    again = trawlnet(*scan, POSTS)
    assert again.code == 0 and "0 records read" in again.err and "hint" not in again.err


def test_a_crawl_and_its_status_name_collections_that_nothing_fits(
    network: Any, tmp_path: Path
) -> None:
    pace = ("--requests-per-minute", 60_000, "--plc-rps", 1000, "--max-records-per-pds", 100_000)
    known = ("--plc-url", network.ready["plc"], "--allow-private-hosts", *pace)
    url = network.ready["pds"][0]
    register = ("pds", "register", "-w", tmp_path, url, "--allow-private-hosts", "--no-ask")
    assert at_once(*register).code == 0
    (row,) = at_once("pds", "status", "-w", tmp_path, "--json").rows
    assert row["collections_without_records"] == [], "nothing was scanned yet"
    (tmp_path / "trawlnet.yaml").write_text(f"pds:\n  collections: [{POSTS}, app.bksy.*]\n")
    ran = trawlnet("pds", "crawl", "-w", tmp_path, "--once", *known)
    assert "no record scanned so far matches --collections app.bksy.*" in ran.err
    assert POSTS not in ran.err.partition("fits --collections")[2]
    (row,) = at_once("pds", "status", "-w", tmp_path, "--json").rows
    assert row["collections_without_records"] == ["app.bksy.*"]


def test_a_scan_that_looked_at_nothing_does_not_say_that_nothing_fits(
    network: Any, tmp_path: Path
) -> None:
    did, home = next((d, r["pds"]) for d, r in network.manifest["dids"].items() if r["archivable"])
    elsewhere = next(url for url in network.ready["pds"] if url != home)
    dead = f"http://127.0.0.1:{free_port()}"
    known = ("--plc-url", network.ready["plc"], "--allow-private-hosts", "--collections", POSTS)
    for words in ((dead,), (elsewhere, "--did", did)):
        ran = trawlnet("pds", "scan", "-w", tmp_path, *words, *known, "--json", "--one-slice")
        assert (ran.code, ran.rows[0]["result"]) == (3, "failed"), ran.err
        assert "no record there matches" not in ran.err


def test_whoever_is_registered_is_asked_what_it_is(network: Any, tmp_path: Path) -> None:
    register = ("pds", "register", "-w", tmp_path, "--allow-private-hosts", "--json")
    dead = f"http://127.0.0.1:{free_port()}"
    relay = network.relay.replace("ws://", "http://")
    for url, reason in ((dead, "silent"), (relay, "unwell"), (network.ready["plc"], "unwell")):
        ran = at_once(*register, url)
        assert (ran.code, ran.rows[0]["reason"]) == (1, reason), url
    ran = at_once(*register, network.ready["pds"][0])
    assert (ran.code, ran.rows[0]["result"]) == (0, "new")
    assert set(listed(tmp_path)) == {network.ready["pds"][0]}
    # Whoever knows better may say so.
    assert at_once(*register, dead, "--no-ask").rows[0]["result"] == "new"


def test_whoever_wants_to_be_left_alone_is(network: Any, tmp_path: Path) -> None:
    net = tmp_path / "net"
    first, second, *_ = network.ready["pds"]
    pace = ("--requests-per-minute", 60_000, "--plc-rps", 1000, "--max-records-per-pds", 100_000)
    known = ("--plc-url", network.ready["plc"], "--allow-private-hosts", *pace)
    scan = (*known, "--collections", POSTS, "--json")
    for url in (first, second):
        assert trawlnet("pds", "scan", "-w", net, url, *scan).code == 0
    gone = at_once("pds", "remove", "-w", net, first, "--json")
    assert (gone.code, gone.rows) == (0, [{"removed": [first]}])
    assert at_once("pds", "remove", "-w", net, first).code == 1
    host = second.removeprefix("http://").partition(":")[0]
    banned = at_once("pds", "ban", "-w", net, second, "--reason", "by mail", "--erase", "--json")
    assert banned.rows == [{"removed": [second], "banned": host}]
    assert listed(net) == {}
    with sqlite3.connect(net / "state/pds/registry.db") as db:
        kept = dict(db.execute("SELECT pds_url, COUNT(*) FROM records GROUP BY pds_url"))
        live = "SELECT COUNT(*) FROM records WHERE deleted_at IS NULL"
        assert set(kept) == {first} and db.execute(live).fetchone() == (0,)
    # Neither scans, nor registrations, nor discovery.
    asked = trawlnet("pds", "scan", "-w", net, second, *scan)
    assert (asked.code, asked.rows[0]["reason"]) == (3, "banned")
    assert "no record there matches" not in asked.err
    register = ("pds", "register", "-w", net, "--allow-private-hosts", "--json", second)
    assert at_once(*register).rows[0]["reason"] == "banned"
    (found,) = trawlnet("pds", "discover", "-w", net, *sources(network), "--json").rows
    assert found["relay_listhosts"]["refused_by"]["banned"] == 1
    assert second not in listed(net) and first in listed(net)
    (row,) = at_once("pds", "bans", "-w", net, "--json").rows
    assert (row["name"], row["reason"]) == (host, "by mail")
    assert at_once("pds", "unban", "-w", net, host).code == 0
    assert at_once("pds", "unban", "-w", net, host).code == 1
    assert at_once(*register).rows[0]["result"] == "new"
    assert at_once("pds", "ban", "-w", net, "com").code == 2


@pytest.mark.parametrize(
    ("text", "host"),
    [("pds.example", "pds.example"), ("https://A.ngrok.io/x", "a.ngrok.io"), ("[::1]:80", "::1")],
)
def test_any_host_can_be_banned_also_one_that_is_never_registered(
    text: str, host: str, tmp_path: Path
) -> None:
    """The example in the help of `pds ban` was refused."""
    ran = at_once("pds", "ban", text, "-w", tmp_path, "--json")
    assert ran.code == 0, ran.err
    assert ran.rows[-1]["banned"] == host

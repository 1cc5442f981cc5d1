"""A hint repeats the flags that say where: what is typed from it works on the same state."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.support.program import Ran, at_once
from trawlnet.cli.common.workspace import Workspace, located
from trawlnet.cli.crawl.ending import CrawlEnded, sum_up
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Counts

PDS = "https://pds.trawlnet-test.org"


def commands_of(ran: Ran) -> list[list[str]]:
    """Those that its hint names, as a shell would split them."""
    _, _, hint = ran.err.partition("hint: ")
    return [shlex.split(part.rstrip()) for part in hint.split("trawlnet ")[1:]]


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        (("unban", "pds.example"), "not banned: pds.example"),
        (("remove", PDS), f"not in the registry: {PDS}"),
    ],
)
def test_what_is_not_there_is_an_error_with_a_hint(
    tmp_path: Path, verb: tuple[str, ...], message: str
) -> None:
    registry = tmp_path / "my registry.db"
    place = ("-w", tmp_path / "net", "--registry", registry)
    ran = at_once("pds", *verb, *place)
    assert ran.code == 1
    assert ran.err.splitlines()[-2] == f"error: {message}"
    (named,) = commands_of(ran)
    assert named[1] in ("bans", "list") and named[2:] == [str(word) for word in place]
    assert at_once(*named).code == 0
    told = at_once("pds", *verb, *place, "--json")
    assert (told.code, len(told.rows)) == (1, 1), "the row is there as before"
    assert told.error["error"] == message and str(registry) in told.error["hint"]


def test_hints_about_a_registry_name_it(tmp_path: Path) -> None:
    place = ("-w", tmp_path / "net", "--registry", tmp_path / "r.db")
    words = " ".join(map(str, place))
    assert at_once("pds", "register", PDS, "--no-ask", *place).code == 0
    removed = at_once("pds", "remove", PDS, *place)
    assert f"trawlnet pds ban {words} {PDS}" in removed.err
    assert at_once("pds", "ban", PDS, *place).code == 0
    banned = at_once("pds", "register", PDS, "--no-ask", *place)
    assert f"trawlnet pds bans {words}, and trawlnet pds unban {words}" in banned.err
    missing = at_once("pds", "status", "-w", tmp_path / "none", *place[2:])
    assert f"trawlnet pds crawl -w {tmp_path}/none --registry {place[3]}" in missing.err
    missing = at_once("pds", "list", "-w", tmp_path / "none", *place[2:])
    assert f"trawlnet pds crawl -w {tmp_path}/none --registry {place[3]}" in missing.err


def test_a_place_is_what_the_user_has_given(tmp_path: Path) -> None:
    flags = {"redis_address": "redis://:secret@h:6379/0", "registry": None, "concurrency": 7}
    place = Workspace(tmp_path / "my net", "web", given=located(flags)).place
    assert place == f"-w '{tmp_path}/my net' --store redis://:...@h:6379/0"
    assert Workspace(Path("net"), "web").place == "-w ./net"


def test_the_end_of_a_crawl_says_where_its_failures_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Workspace(tmp_path, "pds", given=located({"registry": "r.db"}))
    counts = Counts(settled={Reason.TOO_LARGE: 1})
    sum_up(CrawlEnded(place, Ending.DONE, counts, Control(1), 1.0))
    assert f"trawlnet pds failures -w {tmp_path} --registry r.db\n" in capsys.readouterr().err

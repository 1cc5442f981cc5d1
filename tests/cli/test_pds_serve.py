"""`pds serve` as its users run it: a process, beside other commands on the same workspace."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pds.registry_site import METHOD, SERVICE, World, account, hosts
from tests.support.program import Started, at_once, started, trawlnet

ENDORSEMENT = {
    "$type": "pub.chive.review.endorsement",
    "eprintUri": "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/pub.chive.eprint.submission/3lscuqc52or2x",
    "contributions": ["methodological"],
    "createdAt": "2026-01-02T03:04:05Z",
}


@pytest.fixture
def world() -> Iterator[World]:
    with hosts() as one:
        yield one


def serve(workspace: Path, world: World, *more: object) -> tuple[object, ...]:
    flags = ("--plc-url", world.urls["plc"], "--allow-private-hosts", "--service-did", SERVICE)
    return ("pds", "serve", "-w", workspace, "--port", 0, *flags, "--json", *more)


def url_of(program: Started) -> str:
    program.until(lambda: program.out.endswith("\n"), "the ready line")
    return str(json.loads(program.out)["url"])


def post(base: str, url: str, token: str = "") -> Any:
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    body = json.dumps({"pdsUrl": url}).encode()
    request = urllib.request.Request(f"{base}/xrpc/{METHOD}", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_a_caller_finds_their_records_in_the_tables_of_the_workspace(
    world: World, tmp_path: Path
) -> None:
    pds = world.urls["pds"]
    alice = account(0, pds)
    world.documents[alice.did] = alice.document
    world.records[alice.did] = {"app.bsky.feed.post": [], ENDORSEMENT["$type"]: [ENDORSEMENT] * 2}
    workspace = tmp_path / "net"
    with started(*serve(workspace, world), folder=tmp_path) as program:
        base = url_of(program)
        with urllib.request.urlopen(f"{base}/xrpc/_health", timeout=60) as answer:
            assert answer.status == 200
        said = post(base, pds, alice.token(time.time()))
        assert said["status"] == "scanned"
        assert said["message"] == "PDS registered and 2 record(s) indexed from your account."
        assert post(base, pds)["status"] == "already_exists"
        # Within the ten requests of a minute, whoever asked.
        assert world.asked["pds"] <= 10
        rows = trawlnet("pds", "list", "-w", workspace, "--json").rows
        assert [(row["pds_url"], row["discovery_source"]) for row in rows] == [
            (pds, "user_registration")
        ]
        program.tell(signal.SIGTERM)
        assert program.ended().code == 0
    with sqlite3.connect(workspace / "state" / "pds" / "registry.db") as tables:
        found = tables.execute("SELECT did, pds_url FROM endorsements").fetchall()
    assert found == [(alice.did, pds)] * 2


def test_a_killed_server_has_forgotten_nothing(world: World, tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    with started(*serve(workspace, world), folder=tmp_path / "first") as program:
        assert post(url_of(program), world.urls["pds"])["status"] == "pending"
        program.tell(signal.SIGKILL)
    with started(*serve(workspace, world), folder=tmp_path / "second") as program:
        assert post(url_of(program), world.urls["pds"])["status"] == "already_exists"


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = at_once("pds", "serve", "-w", tmp_path, "--port", port, "--allow-private-hosts")
    assert ran.code == 1
    assert "in use" in ran.err


@pytest.mark.parametrize(
    ("flags", "code", "word"),
    [
        (("--service-did", "registry.example"), 2, "not a DID"),
        (("--behind-proxy", "everybody"), 2, "not an address"),
        (("--host", "nowhere.invalid"), 2, "--host"),
        (("--registry", "postgresql://127.0.0.1:1/none"), 12, "postgresql://"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_served(
    tmp_path: Path, flags: tuple[str, ...], code: int, word: str
) -> None:
    ran = at_once("pds", "serve", "-w", tmp_path, "--port", 0, "--allow-private-hosts", *flags)
    assert (ran.code, word in ran.err) == (code, True), ran.err


def test_without_a_contact_no_host_is_asked_on_anybodys_behalf(tmp_path: Path) -> None:
    ran = at_once("pds", "serve", "-w", tmp_path, "--port", 0)
    assert ran.code == 2
    assert "--contact" in ran.err

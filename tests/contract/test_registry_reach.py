"""What strangers cannot make the registry connect to, and what it says when it has no registry."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pds.registry_site import Answer, Running, account, serving
from tests.support.program import wait_until
from tests.support.servers import postgres_server

IS_KNOWN = ("pending", "already_exists")
# Every way to write an address that is not the public internet's.
FORMS = (
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.1.",
    "%31%32%37.0.0.1",
    "\uff11\uff12\uff17.\uff10.\uff10.\uff11",  # Digits as wide as Chinese characters.
    "127\u30020\u30020\u30021",  # Dots that a name may be written with.
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.168.0.1",
    "192.0.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[2002:7f00:1::]",
    "[64:ff9b::7f00:1]",
    "[2001:0:7f00:1::1]",
    "[fe80::1]",
    "[fc00::1]",
    "[ff02::1]",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "pds.localhost",
    "printer.local",
    "metadata.google.internal",
    "router",
    "1.0.0.127.in-addr.arpa",
)


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """As it would face the internet: nothing private is allowed."""
    where = tmp_path_factory.mktemp("registry") / "r.db"
    with serving(where, allow_private=False) as running:
        yield running


@pytest.mark.parametrize("form", FORMS, ids=[str(n) for n in range(len(FORMS))])
@pytest.mark.parametrize(
    "shape", ["https://{}", "https://{}:{port}", "https://user:pw@{}", "http://{}:{port}"]
)
def test_an_address_of_our_own_network_is_refused(public: Running, form: str, shape: str) -> None:
    port = public.world.urls["canary"].rpartition(":")[2]
    answer = public.register(shape.format(form, port=port))
    assert (answer.status, answer.json["error"]) == (400, "InvalidRequest")
    assert public.world.asked["canary"] == 0


def names_that_lead_to(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """A public name whose owner points it somewhere: only the lookup itself is made up."""
    real = socket.getaddrinfo

    def lookup(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if str(host).endswith(".atproto.garden"):
            return real(address, port, type=socket.SOCK_STREAM)
        return real(host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:10.0.0.1", "2002:7f00:1::1"],
)
def test_a_public_name_for_a_private_address_is_refused_when_connecting(
    public: Running, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    names_that_lead_to(monkeypatch, address)
    # A name of its own each time: lookups are remembered.
    name = "".join(c if c.isalnum() else "-" for c in address).strip("-")
    answer = public.register(f"https://x{name}.atproto.garden")
    assert answer.status == 400
    assert "does not connect to" in answer.json["message"]


def test_the_document_of_a_caller_is_not_fetched_from_our_own_network(
    public: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_that_lead_to(monkeypatch, "127.0.0.1")
    for did in ("did:web:localhost", "did:web:127.0.0.1", "did:web:web.atproto.garden"):
        caller = account(0, "https://pds.atproto.garden")
        token = caller.token(time.time(), iss=did, jti=did)
        answer = public.register("https://a.garden", Authorization=f"Bearer {token}")
        assert (answer.status, answer.json["error"]) == (401, "BadJwtIss")
    assert sum(public.world.asked.values()) == 0


def test_a_redirect_leads_nowhere(tmp_path: Path) -> None:
    with serving(tmp_path / "r.db") as running:
        assert running.register(running.world.urls["redirect"]).status == 400
        assert running.world.asked["redirect"] == 1
        assert running.world.asked["canary"] == 0


@pytest.mark.slow
def test_without_its_registry_the_service_says_so_and_comes_back_with_it() -> None:
    with postgres_server() as server, serving(server.url, registry_seconds=0.3) as running:
        url = running.world.urls["pds"]
        assert _answered(lambda: running.register(url)).json["status"] in IS_KNOWN
        server.kill()
        answer = running.register(running.world.urls["other_pds"])
        assert (answer.status, answer.json["error"]) == (503, "ServiceUnavailable")
        assert int(answer.headers["retry-after"]) > 0
        for path in ("/", "/api/pds", "/xrpc/_health"):
            assert running.ask("GET", path, headers={"Accept": "text/html"}).status == 503
        assert running.ask("GET", "/metrics").status == 200
        server.start()
        assert _answered(lambda: running.ask("GET", "/xrpc/_health")).status == 200
        assert _answered(lambda: running.register(url)).json["status"] == "already_exists"


def _answered(ask: Callable[[], Answer]) -> Answer:
    """What is said once the registry has answered in time: on a busy machine it may not at first,
    and what was given up on may have been done."""
    answers: list[Answer] = []

    def is_said() -> bool:
        answers.append(ask())
        return answers[-1].status != 503

    wait_until(is_said, "an answer of the registry")
    return answers[-1]

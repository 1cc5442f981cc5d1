"""Whatever fits the description of the endpoint, or nearly does, is answered as it says."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.pds.registry_rows import fill_registry
from tests.support.pds.registry_site import Running, serving
from trawlnet.tables.registry.registry import Registry

OPERATIONS = (
    ("/xrpc/pub.chive.sync.registerPDS", "POST"),
    ("/xrpc/_health", "GET"),
    ("/api/pds", "GET"),
    ("/metrics", "GET"),
    ("/openapi.json", "GET"),
)
WITH_INPUT = ("/xrpc/pub.chive.sync.registerPDS", "/api/pds")
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    async def few(registry: Registry, now: float) -> None:
        await fill_registry(registry, now, count=30)

    def lookup(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host in ("127.0.0.1", "localhost"):
            return found(host, port, *rest, **more)
        raise socket.gaierror(socket.EAI_NONAME, "made-up names are not looked up anywhere")

    where, found = tmp_path_factory.mktemp("registry") / "r.db", socket.getaddrinfo
    # As strangers meet it: no host of this machine is asked, whatever URL is made up.
    with (
        pytest.MonkeyPatch.context() as patched,
        serving(where, seed=few, allow_private=False) as one,
    ):
        patched.setattr(socket, "getaddrinfo", lookup)
        yield one


def test_every_operation_is_tried(running: Running) -> None:
    document = running.ask("GET", "/openapi.json").json
    described = {
        (path, verb.upper()) for path, verbs in document["paths"].items() for verb in verbs
    }
    assert described == set(OPERATIONS)


# Without parameters there is nothing to get wrong.
TRIALS = [
    pytest.param(path, method, mode, id=f"{mode.value} {method} {path}")
    for path, method in OPERATIONS
    for mode in schemathesis.GenerationMode
    if mode is schemathesis.GenerationMode.POSITIVE or path in WITH_INPUT
]


@pytest.mark.parametrize(("path", "method", "mode"), TRIALS)
def test_no_request_breaks_the_endpoint(
    running: Running, path: str, method: str, mode: schemathesis.GenerationMode
) -> None:
    schema = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
    cases = schema[path][method].as_strategy(generation_mode=mode)
    tried = 0

    @settings(
        max_examples=30,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def ask(case: schemathesis.Case) -> None:
        nonlocal tried
        tried += 1
        case.call_and_validate(checks=CHECKS, timeout=20)

    ask()
    assert tried

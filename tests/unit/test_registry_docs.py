"""The reference of the registry's API names everything that the code can say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trawlnet.crawlers.atproto.serviceauth import AuthError
from trawlnet.crawlers.pds.site.answers import _ERRORS
from trawlnet.crawlers.pds.site.app import _ROUTES
from trawlnet.crawlers.pds.site.page import packaged
from trawlnet.crawlers.pds.site.register import Fault, RegisterState
from trawlnet.observe.metrics.catalogue import REGISTRATIONS, REGISTRY_HOSTS, REGISTRY_REQUESTS
from trawlnet.tables.registry.rules import PdsSource, PdsStatus

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "registry-api.md"
DESCRIPTION = json.loads(packaged("openapi.json"))


@pytest.mark.parametrize("words", [AuthError, Fault, RegisterState, PdsStatus, PdsSource])
def test_every_word_is_documented(words: type[AuthError]) -> None:
    text = REFERENCE.read_text()
    assert [str(word) for word in words if f"`{word}`" not in text] == []


def test_every_route_error_and_metric_is_documented() -> None:
    text = REFERENCE.read_text()
    routes = [f"`{verb} {path}" for path, verb, _ in _ROUTES if "/static/" not in path]
    assert [route for route in routes if route not in text] == []
    errors = set(_ERRORS.values()) - {"NotFound", "Forbidden"}
    assert [error for error in errors if f"`{error}`" not in text] == []
    for metric in (f"{REGISTRY_REQUESTS}_total", f"{REGISTRATIONS}_total", REGISTRY_HOSTS):
        assert f"`{metric}`" in text


def test_the_description_has_the_words_of_the_code() -> None:
    schemas = DESCRIPTION["components"]["schemas"]
    assert schemas["Status"]["enum"] == list(PdsStatus)
    assert schemas["Source"]["enum"] == list(PdsSource)
    assert schemas["Registered"]["properties"]["status"]["enum"] == list(RegisterState)
    programs = {path for path, _, _ in _ROUTES if path.startswith(("/xrpc", "/api", "/metrics"))}
    assert programs <= set(DESCRIPTION["paths"])

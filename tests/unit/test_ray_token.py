"""Which token Ray is told to use, and that nothing of it stays."""

from __future__ import annotations

import pytest

from trawlnet.fleet.ray_token import LOCAL, authenticated

THERE = "ray://head.example:10001"


def told(address: str, environ: dict[str, str]) -> dict[str, str]:
    before = dict(environ)
    with authenticated(address, environ):
        inside = dict(environ)
        environ["RAY_AUTH_MODE"] = "token"  # As Ray itself does when it starts a cluster.
    assert environ == before
    return inside


def test_a_cluster_on_this_machine_has_a_token_of_its_own() -> None:
    first, second = told(LOCAL, {}), told(LOCAL, {})
    assert first.keys() == {"RAY_AUTH_TOKEN"} and first != second
    assert len(first["RAY_AUTH_TOKEN"]) == 64


def test_a_cluster_that_is_named_is_told_only_what_was_set() -> None:
    """A command with a token does not hear from the workers of a cluster that has none."""
    for given in ({}, {"RAY_AUTH_TOKEN": "x"}, {"RAY_AUTH_MODE": "token"}):
        assert told(THERE, dict(given)) == given


@pytest.mark.parametrize("address", [LOCAL, THERE])
def test_what_somebody_has_set_stands(address: str) -> None:
    given = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "x"}
    assert told(address, dict(given)) == given

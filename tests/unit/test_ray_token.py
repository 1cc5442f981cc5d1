"""Which token Ray is told to use, and that nothing of it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from trawlnet.fleet.ray_token import LOCAL, authenticated

THERE = "ray://head.example:10001"


def told(address: str, environ: dict[str, str], home: Path) -> dict[str, str]:
    before = dict(environ)
    with authenticated(address, environ, home):
        inside = dict(environ)
        environ["RAY_AUTH_MODE"] = "token"  # As Ray itself does when it starts a cluster.
    assert environ == before
    return inside


def test_a_cluster_on_this_machine_has_a_token_of_its_own(tmp_path: Path) -> None:
    first, second = told(LOCAL, {}, tmp_path), told(LOCAL, {}, tmp_path)
    assert first.keys() == {"RAY_AUTH_TOKEN"} and first != second
    assert len(first["RAY_AUTH_TOKEN"]) == 64


@pytest.mark.parametrize("name", ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"])
def test_a_token_that_is_here_is_sent_to_a_cluster(name: str, tmp_path: Path) -> None:
    assert told(THERE, {}, tmp_path) == {}
    assert told(THERE, {name: "x"}, tmp_path) == {name: "x", "RAY_AUTH_MODE": "token"}
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("x")
    assert told(THERE, {}, tmp_path) == {"RAY_AUTH_MODE": "token"}


@pytest.mark.parametrize("address", [LOCAL, THERE])
def test_what_somebody_has_set_stands(address: str, tmp_path: Path) -> None:
    given = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "x"}
    assert told(address, dict(given), tmp_path) == given

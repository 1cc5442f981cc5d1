"""A Ray that does not start at once on a busy machine."""

from __future__ import annotations

import pytest

from trawlnet.crawlers.errors import NotReady
from trawlnet.fleet.ray import _join


class StubbornRay:
    """Fails to start so many times."""

    def __init__(self, failures: int, words: str) -> None:
        self.failures, self.words, self.starts = failures, words, 0

    def init(self, **options: object) -> None:
        self.starts += 1
        if self.starts <= self.failures:
            raise RuntimeError(self.words)

    def shutdown(self) -> None:
        pass


def test_a_cluster_of_our_own_is_started_again_whatever_ray_says() -> None:
    ray = StubbornRay(2, "the GCS did not answer")
    _join(ray, "local")
    assert ray.starts == 3


def test_a_cluster_of_our_own_that_never_starts_is_not_called_absent() -> None:
    with pytest.raises(NotReady, match="did not start on this machine: no memory") as raised:
        _join(StubbornRay(99, "no memory\nat all"), "local")
    assert "--fleet local" not in raised.value.hint


def test_a_cluster_elsewhere_that_refuses_is_asked_once() -> None:
    ray = StubbornRay(99, "refused")
    with pytest.raises(NotReady, match=r"no Ray cluster answers at ray://x:1: refused"):
        _join(ray, "ray://x:1")
    assert ray.starts == 1

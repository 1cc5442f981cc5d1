"""How many worlds a test draws: a few in `make test`, many times as many in `make worlds`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings


def examples(few: int) -> int:
    """`few` worlds in an ordinary run; `TRAWLNET_WORLDS=20` draws twenty times as many. In CI,
    where they are always the same, half as many."""
    if "CI" in os.environ:
        return max(1, few // 2)
    return few * int(os.environ.get("TRAWLNET_WORLDS", "1"))


def worlds(few: int) -> settings:
    """Fresh worlds in every run, but in CI the same ones: a landing is no place for a finding. A
    failure prints the blob that brings it back.

    Nothing is remembered between runs: a finding becomes a fixed case in the test file.
    """
    return settings(
        max_examples=examples(few),
        deadline=None,
        derandomize="CI" in os.environ,
        database=None,
        print_blob=True,
        phases=_phases(),
        suppress_health_check=list(HealthCheck),
    )


def _phases() -> tuple[Phase, ...]:
    """Where it only matters that a world is wrong, nobody waits for a small one."""
    if os.environ.get("TRAWLNET_SHRINK") == "0":
        return (Phase.explicit, Phase.generate)
    return tuple(Phase)

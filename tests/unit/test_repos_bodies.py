"""Memory for bodies: of the size asked for, used again, and never by two at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trawlnet.archive.format.repoblock import Buffer
from trawlnet.crawlers.repos.visiting.bodies import Bodies

LARGE = 1 << 20


def memory_of(body: Buffer) -> object:
    return body.obj if isinstance(body, memoryview) else body


@given(st.lists(st.tuples(st.integers(1, 3 * LARGE), st.booleans()), max_size=40))
def test_no_memory_is_lent_twice_and_no_more_is_kept_than_allowed(
    steps: list[tuple[int, bool]],
) -> None:
    bodies = Bodies(4 * LARGE)
    lent: list[Buffer] = []
    for size, back in steps:
        body = bodies.take(size)
        assert len(body) == size
        assert all(memory_of(body) is not memory_of(other) for other in lent)
        lent.append(body)
        if back:
            bodies.give_back(lent.pop(0))
        assert sum(map(len, bodies._kept)) == bodies._kept_bytes <= 4 * LARGE


def test_a_body_of_nearly_the_same_size_gets_the_memory_of_the_last_one() -> None:
    bodies = Bodies(4 * LARGE)
    first = bodies.take(LARGE)
    memory = memory_of(first)
    bodies.give_back(first)
    assert memory_of(bodies.take(LARGE - 5000)) is memory


def test_a_small_body_does_not_get_much_more_than_it_takes() -> None:
    bodies = Bodies(8 * LARGE)
    bodies.give_back(bodies.take(4 * LARGE))
    assert len(memory_of(bodies.take(LARGE))) <= LARGE * 9 // 8  # type: ignore[arg-type]


def test_what_was_not_taken_here_is_left_alone() -> None:
    bodies = Bodies(4 * LARGE)
    for stranger in (b"bytes", bytearray(LARGE), memoryview(b"mapped")):
        bodies.give_back(stranger)
    assert not bodies._kept

"""Threads that calls are handed to: in order, taken back, outlived by their loop, let go of."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop

from trawlnet.engine.threads import Threads, giving_way

LOOPS = pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
LONG = 10.0  # Seconds: nothing here takes so long unless it is broken.


def run(main: Coroutine[Any, Any, Any], new_loop: Any = asyncio.new_event_loop) -> Any:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(asyncio.wait_for(main, LONG))


def handed(threads: Threads, call: Any, *args: Any) -> asyncio.Future[Any]:
    return asyncio.get_running_loop().run_in_executor(threads, call, *args)


@LOOPS
def test_results_and_errors_come_back_from_another_thread(new_loop: Any) -> None:
    async def main() -> None:
        threads = Threads(1, "one")
        assert await handed(threads, divmod, 7, 2) == (3, 1)
        assert await handed(threads, threading.get_ident) != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await handed(threads, divmod, 1, 0)
        with pytest.raises(SystemExit):
            await handed(threads, exit, 3)
        assert await handed(threads, len, "still there") == 11
        threads.shutdown()

    run(main(), new_loop)


@LOOPS
def test_one_thread_makes_calls_in_the_order_in_which_they_came(new_loop: Any) -> None:
    made: list[int] = []

    async def main() -> None:
        threads = Threads(1, "one")
        await asyncio.gather(*[handed(threads, made.append, n) for n in range(1000)])
        threads.shutdown()

    run(main(), new_loop)
    assert made == list(range(1000))


def test_several_threads_work_at_once() -> None:
    async def main() -> None:
        threads, both = Threads(2, "two"), threading.Barrier(2)
        await asyncio.gather(*[handed(threads, both.wait, LONG) for _ in range(2)])
        threads.shutdown()

    run(main())


@LOOPS
def test_a_cancelled_call_is_taken_back_unless_it_was_begun(new_loop: Any) -> None:
    begun, go_on = threading.Event(), threading.Event()
    made: list[str] = []

    def first() -> None:
        begun.set()
        go_on.wait(LONG)
        made.append("first")

    async def main() -> None:
        threads = Threads(1, "one")
        calls = [handed(threads, first)]
        calls += [handed(threads, made.append, word) for word in ("second", "third")]
        await asyncio.to_thread(begun.wait, LONG)
        calls[0].cancel()
        calls[1].cancel()
        go_on.set()
        await calls[2]
        threads.shutdown()

    run(main(), new_loop)
    assert made == ["first", "third"]


@LOOPS
def test_threads_outlive_the_loop_that_asked_them(new_loop: Any) -> None:
    threads, go_on = Threads(1, "one"), threading.Event()

    async def leave() -> None:
        handed(threads, go_on.wait, LONG)

    async def come_back() -> int:
        go_on.set()
        return await handed(threads, len, "back")

    run(leave(), new_loop)
    assert run(come_back(), new_loop) == 4
    threads.shutdown()


def test_letting_go_waits_for_what_was_handed_over_and_takes_nothing_more() -> None:
    made: list[int] = []

    async def main() -> None:
        threads = Threads(2, "two")
        for n in range(100):
            handed(threads, made.append, n)
        threads.shutdown()
        assert sorted(made) == list(range(100))
        with pytest.raises(RuntimeError, match="shut down"):
            handed(threads, len, "")

    run(main())


def test_of_a_call_that_is_over_nothing_is_kept() -> None:
    class Body:
        pass

    async def main() -> None:
        threads, body = Threads(1, "one"), Body()
        kept = weakref.ref(body)
        await handed(threads, id, body)
        await handed(threads, len, "")  # The thread is past the first one for certain.
        del body
        assert kept() is None
        threads.shutdown()

    run(main())


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="a policy of Linux")
def test_who_gives_way_does_so_until_the_end_and_those_it_gives_way_to_do_not() -> None:
    async def main() -> list[int]:
        threads = Threads(1, "one")
        policies = [os.sched_getscheduler(0)]
        with giving_way():
            policies += [os.sched_getscheduler(0), await handed(threads, os.sched_getscheduler, 0)]
            with giving_way():
                pass  # Of two, the first one decides when it is over.
            policies.append(os.sched_getscheduler(0))
        policies.append(os.sched_getscheduler(0))
        threads.shutdown()
        return policies

    other, batch = os.SCHED_OTHER, os.SCHED_BATCH
    assert run(main()) == [other, batch, other, batch, other]


def test_a_system_that_lets_nobody_give_way_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: Any) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(os, "sched_setscheduler", forbidden, raising=False)
    with giving_way():
        pass
    monkeypatch.delattr(os, "SCHED_BATCH", raising=False)
    with giving_way():
        pass


@LOOPS
def test_calls_that_wait_are_made_together_and_told_of_once(new_loop: Any) -> None:
    async def main() -> None:
        threads, made = Threads(1, "one", most=4), threading.Semaphore(0)
        begin, end, later = threading.Event(), threading.Event(), threading.Event()
        first = handed(threads, lambda: made.release() or begin.wait(LONG))
        assert await asyncio.to_thread(made.acquire, timeout=LONG)
        together = [
            handed(threads, divmod, 1, 0),
            handed(threads, made.release),
            handed(threads, len, "result"),
            handed(threads, end.wait, LONG),
        ]
        next_one = handed(threads, later.wait, LONG)
        begin.set()
        assert await first
        assert await asyncio.to_thread(made.acquire, timeout=LONG)
        assert not any(one.done() for one in together), "two were made, and nobody was told"
        end.set()
        results = await asyncio.gather(*together, return_exceptions=True)
        assert isinstance(results[0], ZeroDivisionError), "an error is that of its call alone"
        assert results[1:] == [None, 6, True]
        assert not next_one.done(), "which is not one of the four"
        later.set()
        assert await next_one
        threads.shutdown()

    run(main(), new_loop)


def test_a_call_taken_back_is_not_made_with_the_others() -> None:
    made: list[int] = []

    async def main() -> None:
        threads, go_on = Threads(1, "one", most=8), threading.Event()
        first = handed(threads, go_on.wait, LONG)
        futures = [handed(threads, made.append, n) for n in range(5)]
        futures[2].cancel()
        go_on.set()
        await first
        await asyncio.gather(*futures, return_exceptions=True)
        threads.shutdown()

    run(main())
    assert made == [0, 1, 3, 4]


def test_all_threads_end_however_many_calls_one_took() -> None:
    made: list[int] = []

    async def main() -> None:
        threads, go_on = Threads(2, "two", most=8), threading.Event()
        both = [handed(threads, go_on.wait, LONG) for _ in range(2)]
        for n in range(20):
            handed(threads, made.append, n)
        threads.shutdown(wait=False)
        go_on.set()
        await asyncio.gather(*both)
        await asyncio.to_thread(threads.shutdown)

    run(main())
    assert sorted(made) == list(range(20))


def test_what_can_be_done_together_is_one_call_and_an_error_is_still_that_of_one() -> None:
    seen: list[list[tuple[Any, ...]]] = []

    def inverse(number: int) -> float:
        return 1 / number

    def inverses(calls: list[tuple[Any, ...]]) -> list[float]:
        seen.append(calls)
        return [1 / number for (number,) in calls]

    async def main() -> list[object]:
        threads, begun = Threads(1, "one", 3, {inverse: inverses}), threading.Event()
        begin = threading.Event()
        handed(threads, lambda: begun.set() or begin.wait(LONG))
        assert await asyncio.to_thread(begun.wait, LONG)
        futures = [handed(threads, inverse, n) for n in (1, 2, 4, 5, 0, 8, 10)]
        begin.set()
        results = await asyncio.gather(*futures, return_exceptions=True)
        threads.shutdown()
        return results

    *before, error, after, last = run(main())
    assert (*before, after, last) == (1.0, 0.5, 0.25, 0.2, 0.125, 0.1)
    assert isinstance(error, ZeroDivisionError)
    assert seen == [[(1,), (2,), (4,)], [(5,), (0,), (8,)]], "the last one came alone"


@LOOPS
def test_who_is_cancelled_waits_for_the_end_of_a_whole_call(new_loop: Any) -> None:
    made: list[str] = []
    going, may_end = threading.Event(), threading.Event()

    def slow() -> None:
        going.set()
        may_end.wait(LONG)
        made.append("slow")

    async def main() -> None:
        threads = Threads(1, "one")

        async def wait_for(call: Any, *args: Any) -> None:
            await threads.submit_whole(call, *args)

        first = asyncio.create_task(wait_for(slow))
        second = asyncio.create_task(wait_for(made.append, "not begun"))
        await asyncio.to_thread(going.wait, LONG)
        for task in (first, second):
            task.cancel()
        await asyncio.sleep(0.01)
        assert not first.done() and not second.done()
        may_end.set()
        await asyncio.wait([first, second])
        assert first.cancelled() and second.cancelled()
        with pytest.raises(ZeroDivisionError):
            await threads.submit_whole(divmod, 1, 0)
        threads.shutdown()

    run(main(), new_loop)
    assert made == ["slow", "not begun"]

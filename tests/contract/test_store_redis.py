"""What only the Redis store promises: key names, several owners, a server that goes away."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import redis as client

from tests.support.losing_answers import losing_answers
from tests.support.servers import RedisServer, free_port, redis_server
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Ledger, Page
from trawlnet.engine.task import Task
from trawlnet.stores.errors import StateLost, StoreError, StoreUnreachable
from trawlnet.stores.open import erase_store, open_store
from trawlnet.stores.redis.work.store import RedisStore

NOW = 1_700_000_000.0
TTL = 60.0


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}:"


def run(tell: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(tell())


async def leased(store: Ledger, most: int = 9, now: float = NOW) -> list[str]:
    return [task.key for task in (await store.lease({"pds": most}, now, TTL)).tasks]


def tasks(*keys: str) -> list[Task]:
    return [Task(key, "pds") for key in keys]


@pytest.mark.parametrize("remember_done", [True, False])
def test_keys_have_the_names_and_types_others_read(
    redis: RedisServer, prefix: str, remember_done: bool
) -> None:
    async def tell() -> None:
        store = await RedisStore.open(redis.url, prefix=prefix, remember_done=remember_done)
        await store.feed(Page(tasks("did:a", "did:b", "did:c", "did:d"), "did:d"))
        a, b, c, _ = (await store.lease({"pds": 9}, NOW, TTL)).tasks
        await store.settle([Receipt(a, Reason.OK), Receipt(b, Reason.TAKENDOWN)])
        await store.settle([Receipt(c, Reason.TIMEOUT, next=c.retried(NOW))])
        await store.close()

    run(tell)
    server = client.Redis.from_url(redis.url)
    assert server.get(f"{prefix}cursor") == b"did:d"
    done = {b"did:a", b"did:b"} if remember_done else {b"did:b"}
    assert server.smembers(f"{prefix}completed") == done
    assert server.smembers(f"{prefix}failed:takendown") == {b"did:b"}
    assert not server.exists(f"{prefix}failed:timeout")
    assert not list(server.scan_iter(f"{prefix}leases:*"))


def test_the_default_prefix_is_crawler() -> None:
    async def tell(url: str) -> None:
        store = await open_store(url)
        await store.feed(Page(tasks("did:a"), "did:a"))
        await store.close()

    with redis_server() as server:
        asyncio.run(tell(server.url))
        names = client.Redis.from_url(server.url).keys("*")
        assert b"crawler:cursor" in names
        assert all(name.startswith(b"crawler:") for name in names)


def test_owners_do_not_get_each_others_tasks(redis: RedisServer, prefix: str) -> None:
    async def tell() -> None:
        one = await RedisStore.open(redis.url, prefix=prefix, owner="one")
        two = await RedisStore.open(redis.url, prefix=prefix, owner="two")
        await one.feed(Page(tasks("a", "b", "c"), "c"))
        assert await leased(one, 2) == ["a", "b"]
        assert await leased(two) == ["c"]
        # Only the holder can renew.
        await two.renew(["a"], NOW, 10 * TTL)
        assert await leased(two, now=NOW + TTL) == ["a", "b", "c"]
        await one.close()
        assert (await two.counts()).leased == 3
        await two.close()

    run(tell)


def test_a_restarted_owner_gets_its_tasks_back_at_once(redis: RedisServer, prefix: str) -> None:
    async def tell() -> None:
        crashed = await RedisStore.open(redis.url, prefix=prefix, owner="one")
        other = await RedisStore.open(redis.url, prefix=prefix, owner="two")
        await crashed.feed(Page(tasks("a", "b", "c"), "c"))
        assert await leased(crashed, 2) == ["a", "b"]
        assert await leased(other, 1) == ["c"]
        again = await RedisStore.open(redis.url, prefix=prefix, owner="one")
        assert await leased(again) == ["a", "b"]
        await again.settle([Receipt(task, Reason.OK) for task in tasks("a", "b")])
        assert (await again.counts()).settled == {Reason.OK: 2}
        for store in (crashed, other, again):
            await store.close()

    run(tell)


def test_looking_takes_nothing_from_a_running_crawl(redis: RedisServer, prefix: str) -> None:
    async def tell() -> None:
        crawl = await RedisStore.open(redis.url, prefix=prefix, owner="one")
        await crawl.feed(Page(tasks("a", "b"), "b"))
        await leased(crawl, 1)
        looker = await RedisStore.open(redis.url, prefix=prefix)
        assert (await looker.counts()).leased == 1
        await looker.close()
        assert (await crawl.counts()).leased == 1
        await crawl.close()

    run(tell)


def test_a_write_sent_again_after_a_lost_answer_counts_once(
    redis: RedisServer, prefix: str
) -> None:
    async def tell() -> None:
        async with losing_answers(redis.port) as proxy:
            store = await RedisStore.open(f"redis://127.0.0.1:{proxy.port}", prefix=prefix)
            proxy.lose = 1
            assert await store.feed(Page(tasks("a", "b"), "b")) == 2
            one, other = (await store.lease({"pds": 2}, NOW, TTL)).tasks
            proxy.lose = 1
            await store.settle(
                [Receipt(one, Reason.OK), Receipt(other, Reason.TIMEOUT, next=other.retried(NOW))]
            )
            assert proxy.lost == 2
            counts = await store.counts()
            assert counts.attempts == {Reason.OK: 1, Reason.TIMEOUT: 1}
            assert (counts.open, counts.leased, counts.known) == (1, 0, 2)
            await store.close()

    run(tell)


def test_a_lease_sent_again_after_a_lost_answer_leaves_nothing_behind(
    redis: RedisServer, prefix: str
) -> None:
    async def tell() -> None:
        async with losing_answers(redis.port) as proxy:
            store = await RedisStore.open(f"redis://127.0.0.1:{proxy.port}", prefix=prefix)
            await store.feed(Page(tasks("a", "b", "c", "d"), "d"))
            assert await leased(store, 1) == ["a"]
            proxy.lose = 1
            # Otherwise b and c would be with nobody until their lease is over: two minutes.
            assert await leased(store, 2) == ["b", "c"]
            assert proxy.lost == 1
            assert (await store.counts()).leased == 3
            assert await leased(store) == ["d"]
            await store.close()
        server = client.Redis.from_url(redis.url)
        assert not server.hlen(f"{prefix}lent")

    run(tell)


def test_the_cursor_of_a_page_in_parts_comes_with_the_last_part(
    redis: RedisServer, prefix: str
) -> None:
    async def tell() -> None:
        page = Page(tasks(*(str(n) for n in range(5_000))), "end")
        async with losing_answers(redis.port) as proxy:
            store = await RedisStore.open(f"redis://127.0.0.1:{proxy.port}", prefix=prefix)
            await store.feed(Page([], "start"))
            proxy.scripts_left = 1
            with pytest.raises(StoreUnreachable):
                await store.feed(page)
            proxy.scripts_left = None
            assert await store.cursor() == "start"
            known = (await store.counts()).known
            assert 0 < known < 5_000
            assert await store.feed(page) == 5_000 - known
            assert await store.cursor() == "end"
            await store.close()

    run(tell)


def test_a_killed_server_that_comes_back_has_everything() -> None:
    async def tell(server: RedisServer) -> None:
        store = await RedisStore.open(server.url, owner="one")
        await store.feed(Page(tasks("a", "b", "c"), "c"))
        first, _, _ = (await store.lease({"pds": 9}, NOW, TTL)).tasks
        await store.settle([Receipt(first, Reason.OK)])
        before = await store.counts()
        server.kill()
        server.start()
        assert await store.counts() == before
        assert await store.cursor() == "c"
        await store.settle([Receipt(task, Reason.OK) for task in tasks("b", "c")])
        assert (await store.counts()).settled == {Reason.OK: 3}
        await store.close()

    with redis_server() as server:
        asyncio.run(tell(server))


def test_a_server_that_is_gone_is_one_clear_error() -> None:
    async def tell(server: RedisServer) -> None:
        store = await RedisStore.open(server.url)
        server.kill()
        with pytest.raises(StoreUnreachable, match=str(server.port)) as gone:
            await store.feed(Page(tasks("a"), "a"))
        assert "start it" in gone.value.hint
        with pytest.raises(StoreUnreachable):
            await store.close()

    with redis_server() as server:
        asyncio.run(tell(server))


def test_a_server_that_lost_the_keys_is_one_loud_error() -> None:
    """Emptied by somebody, or replaced by an empty one: to every script, whatever it is about."""

    async def tell(url: str) -> None:
        store = await RedisStore.open(url, owner="one")
        await store.feed(Page(tasks("a", "b"), "b"))
        (task,) = (await store.lease({"pds": 1}, NOW, TTL)).tasks
        client.Redis.from_url(url).flushall()
        for call in (
            lambda: store.feed(Page(tasks("c"), "c")),
            lambda: store.settle([Receipt(task, Reason.OK)]),
            lambda: store.lease({"pds": 1}, NOW, TTL),
            lambda: store.renew(["a"], NOW, TTL),
            lambda: store.hold("pds", NOW),
            lambda: store.lanes(None, 10),
            store.counts,
            store.cursor,
        ):
            with pytest.raises(StateLost, match="lost") as lost:
                await call()
            assert "run the same command again" in lost.value.hint
        with pytest.raises(StateLost):
            await store.close()
        assert client.Redis.from_url(url).keys("*") == [], "nothing was written after that"
        again = await RedisStore.open(url, owner="one")
        assert await again.feed(Page(tasks("a", "b"), "b")) == 2
        await again.close()

    with redis_server() as server:
        asyncio.run(tell(server.url))


def test_a_crawl_that_is_reset_leaves_no_keys() -> None:
    async def tell(url: str) -> None:
        store = await RedisStore.open(url)
        await store.feed(Page(tasks("a"), "a"))
        await erase_store(url)
        with pytest.raises(StateLost):
            await store.counts()
        with pytest.raises(StateLost):
            await store.close()
        assert client.Redis.from_url(url).keys("*") == []

    with redis_server() as server:
        asyncio.run(tell(server.url))


def test_an_error_does_not_show_the_password() -> None:
    with pytest.raises(StoreUnreachable) as gone:
        asyncio.run(open_store(f"redis://me:secret@127.0.0.1:{free_port()}/0"))
    assert "secret" not in gone.value.message + gone.value.hint


def test_keys_of_a_newer_version_are_refused(redis: RedisServer, prefix: str) -> None:
    client.Redis.from_url(redis.url).set(f"{prefix}format", "trawlnet store 999")
    with pytest.raises(StoreError, match="999") as refused:
        asyncio.run(RedisStore.open(redis.url, prefix=prefix))
    assert "prefix" in refused.value.hint


def test_keys_of_somebody_else_are_one_clear_error(redis: RedisServer, prefix: str) -> None:
    client.Redis.from_url(redis.url).set(f"{prefix}tasks", "not a hash")

    async def tell() -> None:
        store = await RedisStore.open(redis.url, prefix=prefix)
        with pytest.raises(StoreError, match="WRONGTYPE") as refused:
            await store.feed(Page(tasks("a"), "a"))
        assert prefix in refused.value.hint
        await store.close()

    run(tell)


def test_without_the_client_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("trawlnet.stores.redis.work.store", "trawlnet.stores.redis.scripts"):
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(StoreError) as missing:
        asyncio.run(open_store("redis://127.0.0.1:1/0"))
    assert "pip install 'trawlnet[redis]'" in missing.value.hint

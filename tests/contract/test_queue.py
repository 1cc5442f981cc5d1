"""One contract, two queues: what publish and consume promise, over a spool and over RabbitMQ."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aio_pika
import orjson
import pytest

from tests.support.servers import RabbitServer, rabbitmq_server
from trawlnet.engine.task import Task
from trawlnet.queues import rabbitmq
from trawlnet.queues.open import open_queue
from trawlnet.queues.queue import Delivery, Queue, QueueOptions, QueueSink
from trawlnet.storage.errors import SinkError, SinkUnreachable

SOURCE = Path(__file__).parents[2] / "src"
PATIENCE = 60.0  # No step of these tests takes this long unless something hangs.


@dataclass
class SpoolWorld:
    where: str
    name: str = "finds"

    async def smuggle(self, raw: bytes) -> None:
        """A message that did not come through publish: the next segment of a careless writer."""
        folder = Path(self.where) / self.name
        folder.mkdir(exist_ok=True)
        number = 1 + sum(1 for _ in folder.glob("finds-*.jsonl"))
        (folder / f"finds-{number:012d}.jsonl").write_bytes(raw + b"\n")

    async def poison(self) -> list[bytes]:
        file = Path(self.where) / self.name / "finds.poison.jsonl"
        return [_poison_body(orjson.loads(line)) for line in file.read_bytes().splitlines()]


def _poison_body(record: dict[str, Any]) -> bytes:
    if "raw" in record:
        return str(record["raw"]).encode()
    return base64.b64decode(record["raw_base64"])


@dataclass
class RabbitWorld:
    where: str
    name: str

    async def smuggle(self, raw: bytes) -> None:
        async with await aio_pika.connect(self.where) as connection:
            channel = await connection.channel()
            await channel.declare_queue(self.name, durable=True)
            await channel.default_exchange.publish(aio_pika.Message(raw), self.name)

    async def poison(self) -> list[bytes]:
        found = []
        async with await aio_pika.connect(self.where) as connection:
            queue = await (await connection.channel()).get_queue(f"{self.name}.poison")
            while message := await queue.get(fail=False):
                found.append(message.body)
                await message.ack()
        return found


World = SpoolWorld | RabbitWorld
names = (f"finds-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def node() -> Iterator[RabbitServer]:
    with rabbitmq_server() as server:
        yield server


@pytest.fixture
def rabbit(node: RabbitServer) -> RabbitServer:
    if node.process is None:  # The test before killed it.
        node.start()
    return node


@pytest.fixture(params=["spool", "rabbitmq"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "spool":
        return SpoolWorld(str(tmp_path))
    return RabbitWorld(request.getfixturevalue("rabbit").url, next(names))


@asynccontextmanager
async def opened(world: World, **options: Any) -> AsyncIterator[Queue]:
    options.setdefault("poll", 0.02)
    queue = await open_queue(world.where, world.name, QueueOptions(**options))
    try:
        async with asyncio.timeout(PATIENCE):
            yield queue
    finally:
        await queue.close()


async def take(queue: Queue, count: int, ack: bool = True) -> list[Any]:
    """So many messages from a consumer that ends then."""
    bodies = []
    async with aclosing(queue.consume(prefetch=max(count, 1))) as deliveries:
        async for delivery in deliveries:
            bodies.append(delivery.body)
            if ack:
                await delivery.ack()
            if len(bodies) == count:
                break
    return bodies


async def drained(queue: Queue) -> list[Any]:
    bodies = []
    async for delivery in queue.consume(drain=True):
        bodies.append(delivery.body)
        await delivery.ack()
    return bodies


def numbered(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"key": n} for n in range(start, start + count)]


def test_messages_come_in_the_order_of_publishing(world: World) -> None:
    async def scenario() -> None:
        async with opened(world, segment_bytes=500) as queue:
            for start in range(0, 300, 50):
                await queue.publish(numbered(50, start))
            assert await drained(queue) == numbered(300)
            assert await drained(queue) == []

    asyncio.run(scenario())


def test_a_bare_number_is_a_message_too(world: World) -> None:
    async def scenario() -> None:
        async with opened(world) as queue:
            await queue.publish([15_000_000_007, {"key": 1}, 2**63])
            assert await drained(queue) == [15_000_000_007, {"key": 1}, 2**63]

    asyncio.run(scenario())


def test_what_is_json_already_is_not_written_anew(world: World) -> None:
    async def scenario() -> None:
        async with opened(world) as queue:
            await queue.publish([orjson.Fragment(b'{"key":1, "b":[1.10]}'), {"key": 2}])
            assert await drained(queue) == [{"key": 1, "b": [1.1]}, {"key": 2}]

    asyncio.run(scenario())


def test_what_was_published_is_there_for_another_process(world: World) -> None:
    async def publish() -> None:
        async with opened(world) as queue:
            await queue.publish(numbered(20))

    async def consume() -> list[Any]:
        async with opened(world) as queue:
            return await drained(queue)

    asyncio.run(publish())
    assert asyncio.run(consume()) == numbered(20)


def test_unacked_messages_come_again_and_acked_ones_do_not(world: World) -> None:
    async def scenario() -> None:
        async with opened(world) as queue:
            await queue.publish(numbered(10))
            assert await take(queue, 4) == numbered(4)
            assert await take(queue, 3, ack=False) == numbered(3, 4)
            assert await drained(queue) == numbered(6, 4)
        async with opened(world) as queue:
            await queue.publish(numbered(5))
            await take(queue, 2, ack=False)
        async with opened(world) as queue:
            assert await drained(queue) == numbered(5)

    asyncio.run(scenario())


CONSUMER = """
import asyncio, sys
from trawlnet.queues.open import open_queue

async def main(where, name):
    queue = await open_queue(where, name)
    held = []
    async for delivery in queue.consume():
        held.append(delivery)
        if len(held) == 3:
            await held[0].ack()
        if len(held) == 5:
            print("holding", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_killed_consumer_gives_back_what_it_had_not_acked(world: World) -> None:
    async def publish() -> None:
        async with opened(world) as queue:
            await queue.publish(numbered(8))

    async def rest() -> list[Any]:
        async with opened(world) as queue:
            return await drained(queue)

    asyncio.run(publish())
    command = [sys.executable, "-c", CONSUMER, world.where, world.name]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == b"holding\n"
        consumer.send_signal(signal.SIGKILL)
    came = asyncio.run(rest())
    assert [m for m in came if m["key"] > 0] == numbered(7, 1)


def test_acks_out_of_order_lose_nothing(world: World) -> None:
    async def scenario() -> None:
        async with opened(world) as queue:
            await queue.publish(numbered(6))
            async with aclosing(queue.consume()) as deliveries:
                held = [await anext(deliveries) for _ in range(6)]
                for delivery in reversed(held[1:]):
                    await delivery.ack()
        async with opened(world) as queue:
            came = await drained(queue)
            assert came[0] == {"key": 0}
            await held[0].ack()
            assert await drained(queue) == []

    asyncio.run(scenario())


def test_poison_is_kept_aside_and_the_others_go_on(world: World) -> None:
    bad = [b"not json", b"[1, 2]", b"\xff\xfe", b'{"key": NaN}', b"[" * 5000]

    async def scenario() -> None:
        for raw in bad:
            await world.smuggle(raw)
        await world.smuggle(b'{"key": "good"}')
        async with opened(world) as queue:
            async with aclosing(queue.consume()) as deliveries:
                first = await anext(deliveries)
                assert first.body == {"key": "good"}
                await first.put_aside("the consumer cannot use it")
            assert (await queue.counts()).poisoned == 6
            assert await drained(queue) == []
        assert await world.poison() == [*bad, b'{"key": "good"}']

    asyncio.run(scenario())


def test_a_message_over_the_bound_is_put_aside_by_its_publisher(world: World) -> None:
    async def scenario() -> None:
        async with opened(world, message_bytes=100) as queue:
            await queue.publish([{"key": 1}, {"key": "x" * 150}, {"key": 2}])
            assert await drained(queue) == [{"key": 1}, {"key": 2}]
            assert (await queue.counts()).poisoned == 1
        assert b"".join(await world.poison()) == orjson.dumps({"key": "x" * 150})

    asyncio.run(scenario())


def test_a_full_backlog_pauses_the_publisher_until_messages_are_acked(world: World) -> None:
    message = {"key": "x" * 90}

    async def scenario() -> None:
        async with opened(world, backlog_bytes=5_000) as queue:
            published = 0

            async def produce() -> None:
                nonlocal published
                for _ in range(20):
                    await queue.publish([message] * 10)
                    published += 10

            async with asyncio.TaskGroup() as group:
                producer = group.create_task(produce())
                while published < 50:
                    await asyncio.sleep(0.001)
                await asyncio.sleep(0.2)
                assert 50 <= published <= 60, "it ran ahead of the bound"
                assert not producer.done()
                assert len(await take(queue, 200)) == 200
            assert published == 200

    asyncio.run(scenario())


def test_several_consumers_share_the_messages(world: World) -> None:
    async def scenario() -> None:
        async with opened(world) as queue:
            seen: list[list[int]] = [[], []]
            all_seen, both_work = asyncio.Event(), asyncio.Event()

            async def work(mine: list[int]) -> None:
                async with aclosing(queue.consume(prefetch=2)) as deliveries:
                    async for delivery in deliveries:
                        mine.append(delivery.body["key"])
                        if all(seen):
                            both_work.set()
                        await both_work.wait()
                        await delivery.ack()
                        if sum(map(len, seen)) == 100:
                            all_seen.set()

            workers = [asyncio.create_task(work(mine)) for mine in seen]
            await queue.publish(numbered(100))
            await all_seen.wait()
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            assert sorted(seen[0] + seen[1]) == list(range(100))
            assert seen[0] == sorted(seen[0])

    asyncio.run(scenario())


def test_a_consumer_holds_no_more_than_its_prefetch(world: World) -> None:
    async def scenario() -> None:
        async with opened(world) as queue:
            await queue.publish(numbered(10))
            async with aclosing(queue.consume(prefetch=3)) as deliveries:
                held = [await anext(deliveries) for _ in range(3)]
                fourth = asyncio.ensure_future(anext(deliveries))
                await asyncio.sleep(0.1)
                assert not fourth.done()
                await held[1].ack()
                assert (await fourth).body == {"key": 3}

    asyncio.run(scenario())


def test_draining_waits_for_what_is_still_being_worked_on(world: World) -> None:
    async def scenario() -> None:
        async with opened(world) as queue:
            await queue.publish(numbered(30))
            done: list[int] = []

            async def work(delivery: Delivery) -> None:
                await asyncio.sleep(0.01)
                await delivery.ack()
                done.append(delivery.body["key"])

            async with asyncio.TaskGroup() as group:
                async for delivery in queue.consume(prefetch=7, drain=True):
                    group.create_task(work(delivery))
            assert sorted(done) == list(range(30))
            assert await drained(queue) == []

    asyncio.run(scenario())


def test_a_waiting_consumer_is_woken_by_a_publish(world: World) -> None:
    async def scenario() -> None:
        async with opened(world, poll=PATIENCE) as queue:
            await queue.publish(numbered(1))
            async with aclosing(queue.consume()) as deliveries:
                await (await anext(deliveries)).ack()
                waiting = asyncio.ensure_future(anext(deliveries))
                await asyncio.sleep(0.05)
                await queue.publish([{"key": "woken"}])
                assert (await waiting).body == {"key": "woken"}

    asyncio.run(scenario())


def test_any_text_and_any_size_comes_back_as_it_was(world: World) -> None:
    messages = [
        {"key": "nul \x00, newline \n\r, separators \u2028\u2029"},
        {"key": "ünïcode 🐟 \ufeff"},
        {"key": "lone surrogate \ud800"},
        {"key": None, "nested": {"list": [1, -2.5, True, "x"]}, "": ""},
        {"key": 2**64 - 1},
        {"key": "large", "body": "y" * 3_000_000},
        {},
    ]

    async def scenario() -> None:
        async with opened(world) as queue:
            await queue.publish(messages)
            assert await drained(queue) == messages

    asyncio.run(scenario())


def test_a_message_that_is_not_json_is_refused_and_none_of_its_batch_is_sent(world: World) -> None:
    async def scenario() -> None:
        async with opened(world) as queue:
            for wrong in ({"key": object()}, {"key": 2**70}):
                with pytest.raises(SinkError):
                    await queue.publish([{"key": 1}, wrong])
            await queue.publish([])
            assert await drained(queue) == []

    asyncio.run(scenario())


def test_ten_thousand_messages_pass(world: World) -> None:
    async def scenario() -> None:
        async with opened(world) as queue:
            for start in range(0, 10_000, 1000):
                await queue.publish(numbered(1000, start))
            assert await drained(queue) == numbered(10_000)

    asyncio.run(scenario())


def test_the_sink_publishes_each_item_with_its_key(world: World) -> None:
    async def scenario() -> None:
        async with opened(world) as queue:
            sink = QueueSink(queue, lambda task, item: {"key": task.key, "item": item})
            await sink.write([(Task("a", "lane"), [1, 2]), (Task("b", "lane"), [])])
            assert await drained(queue) == [{"key": "a", "item": 1}, {"key": "a", "item": 2}]

    asyncio.run(scenario())


def test_confirmed_messages_survive_a_killed_server_and_clients_reconnect(
    rabbit: RabbitServer,
) -> None:
    world = RabbitWorld(rabbit.url, next(names))

    async def scenario() -> None:
        async with opened(world) as queue:
            await queue.publish(numbered(50))
            async with aclosing(queue.consume(prefetch=10)) as deliveries:
                held = [await anext(deliveries) for _ in range(10)]
                await asyncio.to_thread(rabbit.kill)
                publishing = asyncio.create_task(queue.publish(numbered(10, 50)))
                await asyncio.to_thread(rabbit.start)
                await publishing
                await held[0].ack()
            assert await drained(queue) == numbered(60)

    asyncio.run(scenario())


def test_a_queue_deleted_on_the_server_is_made_again_and_nothing_is_dropped(
    rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq, "_IDLE_CHECK", 0.1)
    world = RabbitWorld(rabbit.url, next(names))

    async def scenario() -> None:
        async with opened(world) as queue, aclosing(queue.consume()) as deliveries:
            await queue.publish(numbered(1))
            await (await anext(deliveries)).ack()
            async with await aio_pika.connect(rabbit.url) as connection:
                await (await connection.channel()).queue_delete(world.name)
            await queue.publish(numbered(5, 1))
            for key in range(1, 6):
                delivery = await anext(deliveries)
                assert delivery.body == {"key": key}
                await delivery.ack()

    asyncio.run(scenario())


def test_an_absent_server_is_one_clear_error_without_the_password() -> None:
    with pytest.raises(SinkUnreachable) as caught:
        asyncio.run(open_queue("amqp://me:hunter2@127.0.0.1:1/", "finds"))
    assert "127.0.0.1:1" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.hint


def test_a_wrong_password_is_said_at_once_and_never_shown(
    rabbit: RabbitServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with pytest.raises(SinkError, match="refused the user or the password") as caught:
        asyncio.run(open_queue(rabbit.url.replace("guest:guest", "guest:hunter2"), "finds"))
    assert "hunter2" not in str(caught.value) + caplog.text


def test_a_server_that_stays_away_ends_the_patience(rabbit: RabbitServer) -> None:
    async def scenario() -> None:
        async with opened(RabbitWorld(rabbit.url, next(names)), patience=0.5) as queue:
            await queue.publish(numbered(1))
            rabbit.kill()
            with pytest.raises(SinkUnreachable, match=f"127.0.0.1:{rabbit.port}"):
                await queue.publish(numbered(1))

    asyncio.run(scenario())


def test_the_depth_is_what_nobody_has_acked(world: World) -> None:
    async def scenario() -> None:
        async with opened(world) as queue:
            await queue.publish([{"key": str(n)} for n in range(5)])
            await until(queue, 5)
            async with aclosing(queue.consume(2)) as deliveries:
                await (await anext(deliveries)).ack()
                await (await anext(deliveries)).ack()
            await until(queue, 3)

    async def until(queue: Queue, wanted: int) -> None:
        """A server counts a little later than it confirms."""
        async with asyncio.timeout(120.0):
            while await queue.depth() != wanted:
                await asyncio.sleep(0.05)

    asyncio.run(scenario())


def test_the_depth_of_a_long_spool_is_about_right(tmp_path: Path) -> None:
    async def scenario() -> int:
        queue = await open_queue(tmp_path, "long")
        await queue.publish([{"key": n, "body": "x" * 4000} for n in range(3000)])
        depth = await queue.depth()
        await queue.close()
        return depth

    assert asyncio.run(scenario()) == pytest.approx(3000, rel=0.01)

"""What others read in Redis about an archive that grows: its segment, and how much is in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from redis import exceptions
from redis.asyncio import Redis

from trawlnet.store.errors import StoreUnreachable

_PREFIX = "crawler:"
_AT_ONCE = 2000


class RedisKeys:
    """`crawler:segment_num` and `crawler:stats`, beside the keys of the store. They count over all
    runs, and over all processes that share the crawl."""

    def __init__(self, client: Redis, segment: Callable[[], int]) -> None:
        self._client = client
        self._segment = segment

    async def tell(self, repos: int, size: int) -> None:
        """So much more is durable."""
        pipe = self._client.pipeline(transaction=True)
        pipe.hincrby(_PREFIX + "stats", "total_crawled", repos)
        pipe.hincrby(_PREFIX + "stats", "bytes_written", size)
        pipe.set(_PREFIX + "segment_num", self._segment())
        try:
            await pipe.execute()
        except (exceptions.RedisError, OSError) as error:
            raise _trouble(error) from error

    async def read(self) -> dict[str, int]:
        """What the archives of all processes come to."""
        try:
            stats = await self._client.hgetall(_PREFIX + "stats")
            segment = await self._client.get(_PREFIX + "segment_num")
            completed = await self._client.scard(_PREFIX + "completed")
        except (exceptions.RedisError, OSError) as error:
            raise _trouble(error) from error
        return {
            "total_crawled": int(stats.get(b"total_crawled", 0)),
            "bytes_written": int(stats.get(b"bytes_written", 0)),
            "segment_num": int(segment or 0),
            "completed_count": int(completed),
        }

    async def forget_done(self, keys: Sequence[str]) -> None:
        """Keys that are done may be given once more; failures stay what they are."""
        for start in range(0, len(keys), _AT_ONCE):
            some = list(keys[start : start + _AT_ONCE])
            try:
                failed = await self._client.hmget(_PREFIX + "details", some)
                done = [key for key, row in zip(some, failed, strict=True) if row is None]
                if done:
                    await self._client.srem(_PREFIX + "completed", *done)
            except (exceptions.RedisError, OSError) as error:
                raise _trouble(error) from error

    async def close(self) -> None:
        await self._client.aclose()


def redis_keys(url: str, segment: Callable[[], int]) -> RedisKeys:
    return RedisKeys(Redis.from_url(url, socket_connect_timeout=5.0, socket_timeout=15.0), segment)


def _trouble(error: Exception) -> StoreUnreachable:
    return StoreUnreachable(
        f"Redis does not answer: {error}",
        "start it or check the address, then start again: nothing confirmed is lost",
    )

"""Config keys that several crawlers have: what each means, and within which bounds, said once.

Keys that belong together are a record, which a crawler's config inherits: fields alone, and the
check that they fit together.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trawlnet.crawlers.units import RedisAddress, Seconds, Size
from trawlnet.observe.alerts.shapes import WebhookShape

AllowPrivate = Annotated[
    bool, Field(description="Allow loopback and private addresses, any port, and plain http.")
]
Contact = Annotated[
    str, Field(description="Mail address or URL in the User-Agent, so that hosts can reach you.")
]
MetricsAddress = Annotated[
    str, Field(description="Serve Prometheus metrics on HOST:PORT (port 0 picks a free port).")
]
MaxSeconds = Annotated[Seconds | None, Field(gt=0, description="Stop after this many seconds.")]
RequestTimeout = Annotated[
    Seconds, Field(gt=0, description="Timeout of one whole request, in seconds.")
]
ConnectTimeout = Annotated[
    Seconds, Field(gt=0, description="Timeout for opening a connection, in seconds.")
]
PlcRate = Annotated[
    float, Field(gt=0, le=1000, description="Requests per second to the PLC directory.")
]


class _Options(BaseModel):
    # Deferred: the validators of the config that inherits the keys include these.
    model_config = ConfigDict(frozen=True, defer_build=True)


class StoreOptions(_Options):
    store: RedisAddress = Field(
        "", description="Keep the crawl's state in Redis: HOST:PORT, or redis://HOST:PORT/DB."
    )
    redis_address: RedisAddress = Field("", description="Another name of --store.")

    @model_validator(mode="after")
    def _one_store_under_both_names(self) -> Self:
        place = self.redis_address or self.store
        object.__setattr__(self, "redis_address", place)
        object.__setattr__(self, "store", place)
        return self


class FleetOptions(_Options):
    fleet: str = Field(
        "",
        description="Run the crawl as many processes: local, or the address of a Ray cluster "
        "(ray://HOST:10001, or HOST:6379 on one of its nodes).",
    )
    shards: int = Field(2, ge=1, le=512, description="Number of processes that share the crawl.")
    archive: str = Field(
        "",
        description="Archive of a fleet: s3://BUCKET/FOLDER, or a folder that all machines share.",
    )
    part_size: Size = Field(
        32 << 20, ge=1 << 10, le=256 << 20, description="Size at which a fleet uploads a part."
    )
    part_seconds: Seconds = Field(
        30.0,
        gt=0,
        description="Age at which a fleet uploads a smaller part; until then its tasks are "
        "unsettled.",
    )
    shard_timeout: Seconds = Field(
        15.0,
        ge=1,
        description="Give a shard's lanes to another shard when it has not reported for this long.",
    )


class ClickhouseOptions(_Options):
    clickhouse_address: str = Field(
        "",
        description="ClickHouse server (HOST:PORT or URL); without one, ClickHouse runs embedded.",
    )
    clickhouse_username: str = Field("default", description="User name on the ClickHouse server.")
    clickhouse_password: str = Field("", description="Password of the ClickHouse user.")
    clickhouse_database: str = Field("default", description="Database on the ClickHouse server.")


class AlertOptions(_Options):
    webhook: str = Field(
        "",
        description="Post alerts to this URL, which is never shown; without one, alerts are "
        "only logged.",
    )
    webhook_shape: WebhookShape = Field(
        WebhookShape.AUTO,
        description="Format of alerts: discord, slack or json; auto goes by the URL.",
    )

"""Config keys that several crawlers have: what each means, and within which bounds, said once."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trawlnet.crawlers.units import Seconds, Size
from trawlnet.observe.alerts.shapes import WebhookShape

ClickhouseUser = Annotated[str, Field(description="User of the ClickHouse server.")]
ClickhousePassword = Annotated[str, Field(description="Password of that user.")]
ClickhouseDatabase = Annotated[str, Field(description="Database on the ClickHouse server.")]

AlertUrl = Annotated[
    str, Field(description="URL that alerts are posted to, a secret; else they are logged.")
]
AlertShape = Annotated[
    WebhookShape, Field(description="How alerts are written: discord, slack, json, or by URL.")
]

Shards = Annotated[int, Field(ge=1, le=512, description="How many processes share the crawl.")]
ArchivePlace = Annotated[
    str, Field(description="Where a fleet archives: s3://BUCKET/FOLDER, or a shared folder.")
]
PartSize = Annotated[
    Size, Field(ge=1 << 10, le=256 << 20, description="A fleet puts a part of this size,")
]
PartSeconds = Annotated[
    Seconds, Field(gt=0, description="or of this age: nothing is settled before it is put.")
]
ShardTimeout = Annotated[
    Seconds, Field(ge=1, description="A shard silent for so long loses its lanes to another.")
]

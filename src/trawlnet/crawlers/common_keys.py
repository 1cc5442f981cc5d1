"""Config keys that several crawlers have: what each means, and within which bounds, said once."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trawlnet.crawlers.units import Seconds, Size
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

ClickhouseUser = Annotated[str, Field(description="User name on the ClickHouse server.")]
ClickhousePassword = Annotated[str, Field(description="Password of the ClickHouse user.")]
ClickhouseDatabase = Annotated[str, Field(description="Database on the ClickHouse server.")]

AlertUrl = Annotated[
    str,
    Field(
        description="Post alerts to this URL, which is never shown; without one, alerts are "
        "only logged."
    ),
]
AlertShape = Annotated[
    WebhookShape,
    Field(description="Format of alerts: discord, slack or json; auto goes by the URL."),
]

Shards = Annotated[
    int, Field(ge=1, le=512, description="Number of processes that share the crawl.")
]
ArchivePlace = Annotated[
    str,
    Field(
        description="Archive of a fleet: s3://BUCKET/FOLDER, or a folder that all machines share."
    ),
]
PartSize = Annotated[
    Size,
    Field(ge=1 << 10, le=256 << 20, description="Size at which a fleet uploads a part."),
]
PartSeconds = Annotated[
    Seconds,
    Field(
        gt=0,
        description="Age at which a fleet uploads a smaller part; until then its tasks are "
        "unsettled.",
    ),
]
ShardTimeout = Annotated[
    Seconds,
    Field(
        ge=1,
        description="Give a shard's lanes to another shard when it has not reported for this long.",
    ),
]

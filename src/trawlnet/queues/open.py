"""Which queue a folder or an address means."""

from __future__ import annotations

import re
from pathlib import Path

from trawlnet.loading import load
from trawlnet.queues.queue import Queue, QueueOptions
from trawlnet.queues.spool import Spool
from trawlnet.storage.errors import SinkError
from trawlnet.storage.workspace_format import check_formats

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


async def open_queue(where: str | Path, name: str, options: QueueOptions | None = None) -> Queue:
    """A directory is a spool with its segments in `where/name`; `amqp://` is a RabbitMQ server.
    Raises UnknownFormat for the spool of a workspace that a newer version wrote."""
    if not _NAME.fullmatch(name):
        raise SinkError(f"queue name {name!r} is refused", "use letters, digits, - and _")
    scheme = str(where).partition("://")[0] if "://" in str(where) else ""
    if not scheme:
        check_formats(Path(where).parent)
        return Spool(Path(where) / name, name, options or QueueOptions())
    if scheme not in ("amqp", "amqps"):
        raise SinkError(
            f"there is no queue for {scheme}:// addresses", "give a directory or an amqp:// URL"
        )
    try:
        server = load("trawlnet.queues.rabbitmq:RabbitQueue")
    except ImportError as error:
        raise SinkError(
            "RabbitMQ needs the package aio-pika", "pip install 'trawlnet[rabbitmq]'"
        ) from error
    queue: Queue = await server.connect(str(where), name, options or QueueOptions())
    return queue

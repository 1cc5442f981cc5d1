"""Freeze what a crawl has left, and thaw it: folders, Redis keys, PostgreSQL databases."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lmdb

from tests.support.servers import require_package

HERE = Path(__file__).parent


def freeze(name: str, folder: Path) -> Path:
    """Everything in the folder, under its name; LMDB files without their holes and free pages."""
    for path in sorted(folder.rglob("data.mdb")):
        _compact(path)
    for path in sorted(folder.rglob("lock.mdb")):
        path.unlink()
    frozen = HERE / f"{name}.tar.xz"
    with tarfile.open(frozen, "w:xz", preset=9) as tar:
        tar.add(folder, arcname=".", filter=_anonymous)
    return frozen


def thaw(name: str, folder: Path) -> Path:
    with tarfile.open(HERE / f"{name}.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    return folder


def copies(name: str) -> list[str]:
    """Each copy of this crawl, by whatever version: without a suffix, of a version or a commit."""
    version = re.compile(rf"{name}(-\d+\.\d+\.\d+|-[0-9a-f]{{8}})?")
    found = (path.name.removesuffix(".tar.xz") for path in HERE.glob("*.tar.xz"))
    return sorted(one for one in found if version.fullmatch(one))


def notes(folder: Path) -> dict[str, Any]:
    """What the code that wrote it said of it."""
    told: dict[str, Any] = json.loads((folder / "notes.json").read_text())
    return told


def freeze_redis(url: str, folder: Path) -> None:
    client = require_package("redis").Redis.from_url(url)
    rows = {}
    for key in sorted(client.scan_iter(count=1000)):
        dump = client.dump(key)
        if dump is not None:
            ttl = client.pttl(key)
            rows[key.decode()] = [max(0, ttl), base64.b64encode(dump).decode()]
    (folder / "redis.json").write_text(json.dumps(rows, indent=0))


def thaw_redis(folder: Path, url: str) -> None:
    client = require_package("redis").Redis.from_url(url)
    client.flushdb()
    for key, (ttl, dump) in json.loads((folder / "redis.json").read_text()).items():
        client.restore(key, ttl, base64.b64decode(dump))


async def freeze_rabbit(url: str, queues: Sequence[str], folder: Path) -> None:
    """The bodies of all messages, as they would be delivered."""
    found: dict[str, list[str]] = {}
    async with await require_package("aio_pika").connect(url) as connection:
        channel = await connection.channel()
        for name in queues:
            queue = await channel.get_queue(name)
            bodies = found[name] = []
            while message := await queue.get(no_ack=True, fail=False):
                bodies.append(message.body.decode())
    (folder / "rabbit.json").write_text(json.dumps(found, indent=0))


async def thaw_rabbit(folder: Path, url: str) -> dict[str, list[str]]:
    """Into the queues as they are made now: their bodies are what lasts."""
    found: dict[str, list[str]] = json.loads((folder / "rabbit.json").read_text())
    pika = require_package("aio_pika")
    async with await pika.connect(url) as connection:
        channel = await connection.channel()
        for name, bodies in found.items():
            for body in bodies:
                message = pika.Message(body.encode(), delivery_mode=2)
                await channel.default_exchange.publish(message, name)
    return found


def freeze_postgres(url: str, folder: Path) -> None:
    _run("pg_dump", "--no-owner", "--file", str(folder / "postgres.sql"), url)


def thaw_postgres(folder: Path, url: str) -> None:
    words = ("--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--output", "/dev/null")
    _run("psql", *words, "--file", str(folder / "postgres.sql"), url)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _compact(path: Path) -> None:
    small = path.with_suffix(".small")
    with (
        lmdb.open(str(path), subdir=False, max_dbs=64, lock=False) as env,
        small.open("wb") as file,
    ):
        env.copyfd(file.fileno(), compact=True)
    small.replace(path)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = int(entry.mtime)
    return entry

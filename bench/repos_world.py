"""The network that bench/repos.py crawls: repositories in files, and nginx to serve them.

Making records and trees is slow, so a world has a few dozen trees, and each account gets one of
them under a commit and a key of its own. What comes over the wire differs in the commit alone;
nobody who reads it can make use of that.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from repo_block import BASE32, made_record
from repo_block_peer import CRAWLED_AT_US
from tests.support.atproto.plc_log import operation_cid
from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.identity.keys import Curve
from trawlnet.atproto.tid import tid
from trawlnet.sim.private_key import PrivateKey
from trawlnet.sim.repository.car import CarBlock, car_frame, car_header
from trawlnet.sim.repository.commit import Commit
from trawlnet.sim.repository.mst import build_tree
from web_site import await_port, free_port

TREES = 32
HOSTS = 8  # PDSes: addresses of loopback, each a lane of its own.
SMALLEST, LARGEST = 1_000, 10_000  # Records of a mix.
_ACCOUNTS = "accounts.json"


@dataclass(frozen=True)
class Account:
    did: str
    key: str  # did:key.
    records: int


@dataclass(frozen=True)
class World:
    folder: Path
    accounts: Sequence[Account]
    size: int  # Bytes of all repositories.

    @property
    def records(self) -> int:
        return sum(account.records for account in self.accounts)


@dataclass(frozen=True)
class Served:
    hosts: Sequence[str]  # URLs of the PDSes.
    directory: str  # URL of the PLC directory.

    def pds_of(self, did: str) -> str:
        return self.hosts[sum(did.encode()) % len(self.hosts)]


def sizes_of(records: int | None) -> list[int]:
    """Of the trees; None is a mix whose sizes are spread evenly on a logarithmic scale."""
    if records is not None:
        return [records] * TREES
    spread = LARGEST / SMALLEST
    return [round(SMALLEST * spread ** ((n + 0.5) / TREES)) for n in range(TREES)]


def made_world(folder: Path, repos: int, records: int | None) -> World:
    """Made, or found as it was made before."""
    if not (folder / _ACCOUNTS).exists():
        _make(folder, repos, sizes_of(records))
    accounts = [Account(*row) for row in json.loads((folder / _ACCOUNTS).read_text())]
    size = sum((folder / "cars" / account.did).stat().st_size for account in accounts)
    return World(folder, accounts, size)


def _make(folder: Path, repos: int, sizes: Sequence[int]) -> None:
    rng = random.Random(len(sizes) + sum(sizes))
    trees = [_tree(rng, size) for size in sizes]
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "cars").mkdir(parents=True)
    accounts = []
    for number in range(repos):
        did = "did:plc:" + "".join(rng.choices(BASE32, k=24))
        # The curve of nearly all accounts of the network.
        signer = PrivateKey(Curve.K256, rng.randrange(1, 1 << 250))
        root, frames = trees[number % len(trees)]
        commit = Commit(did, root, tid(CRAWLED_AT_US)).signed(signer).encode()
        head = cid_of(commit)
        car = car_header([head]) + car_frame(head, commit) + frames
        (folder / "cars" / did).write_bytes(car)
        accounts.append((did, signer.public.did_key, sizes[number % len(trees)]))
    (folder / _ACCOUNTS).write_text(json.dumps(accounts))


def _tree(rng: random.Random, size: int) -> tuple[Cid, bytes]:
    """Its root, and all its blocks in no order: servers read them by rev and CID."""
    records = []
    for n in range(size):
        collection, value = made_record(rng, n)
        records.append((f"{collection}/{tid(CRAWLED_AT_US - n * 977_131)}".encode(), encode(value)))
    records.sort()
    blocks = [CarBlock(cid_of(data), data) for _, data in records]
    keyed = [(key, block.cid) for (key, _), block in zip(records, blocks, strict=True)]
    tree = build_tree(keyed)
    every = list(dict([*blocks, *tree.nodes]).items())
    rng.shuffle(every)
    return tree.root, b"".join(car_frame(cid, data) for cid, data in every)


@contextmanager
def served(world: World, scratch: Path) -> Iterator[tuple[Served, subprocess.Popen[bytes]]]:
    """nginx with the repositories, an export of the directory and the document of each account."""
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if binary is None:
        raise SystemExit("nginx is missing: apt-get install nginx-light")
    port = free_port()
    hosts = [f"http://127.0.0.{n + 1}:{port}" for n in range(HOSTS)]
    serving = Served(hosts, f"http://localhost:{port}")
    _write_directory(world, serving, scratch)
    config = scratch / "nginx.conf"
    config.write_text(_config(world, scratch, port))
    command = [binary, "-p", str(scratch), "-c", str(config), "-e", str(scratch / "error.log")]
    server = subprocess.Popen(command)
    try:
        await_port(port)
        yield serving, server
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def _write_directory(world: World, serving: Served, scratch: Path) -> None:
    (scratch / "documents").mkdir()
    lines = []
    for number, account in enumerate(world.accounts, start=1):
        pds = serving.pds_of(account.did)
        document = json.dumps(_document(account, pds))
        (scratch / "documents" / account.did).write_text(document)
        operation = _operation(account, pds)
        line = {"seq": number, "type": "sequenced_op", "did": account.did, "operation": operation}
        cid = str(operation_cid(operation))
        lines.append(json.dumps({**line, "cid": cid, "createdAt": "2025-07-01T00:00:00.000Z"}))
    (scratch / "export").write_text("\n".join(lines) + "\n")


def _operation(account: Account, pds: str) -> dict[str, object]:
    return {
        "type": "plc_operation",
        "rotationKeys": [account.key],
        "verificationMethods": {"atproto": account.key},
        "alsoKnownAs": [f"at://{account.did[-12:]}.example.org"],
        "services": {"atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": pds}},
        "prev": None,
        "sig": "x" * 86,  # The mirror keeps operations, it does not judge them.
    }


def _document(account: Account, pds: str) -> dict[str, object]:
    key = {
        "id": f"{account.did}#atproto",
        "type": "Multikey",
        "controller": account.did,
        "publicKeyMultibase": account.key.removeprefix("did:key:"),
    }
    service = {
        "id": "#atproto_pds",
        "type": "AtprotoPersonalDataServer",
        "serviceEndpoint": pds,
    }
    return {"id": account.did, "verificationMethod": [key], "service": [service]}


def _config(world: World, scratch: Path, port: int) -> str:
    user = "user root;" if os.geteuid() == 0 else ""
    last = len(world.accounts)
    listen = " ".join(f"listen 127.0.0.{n + 1}:{port} backlog=1024;" for n in range(HOSTS))
    return f"""
{user} worker_processes 1; daemon off; master_process off; pid {scratch}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
    access_log off; default_type application/vnd.ipld.car; types {{ }}
    client_body_temp_path {scratch}/body; proxy_temp_path {scratch}/proxy;
    fastcgi_temp_path {scratch}/fastcgi; uwsgi_temp_path {scratch}/uwsgi;
    scgi_temp_path {scratch}/scgi;
    sendfile on; sendfile_max_chunk 2m; tcp_nodelay on; gzip off; keepalive_requests 1000000;
    open_file_cache max=500; etag off;
    server {{
        {listen}
        location = /xrpc/com.atproto.sync.getRepo {{
            root {world.folder};
            rewrite ^ /cars/$arg_did break;
        }}
        location = /export {{
            root {scratch};
            if ($arg_after = {last}) {{ return 200 ""; }}
        }}
        location /did: {{ root {scratch}/documents; default_type application/json; }}
    }}
}}
"""

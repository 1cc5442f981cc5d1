"""Run the crawls of deploy/compose.yaml from the image, by their own command lines.

    make image-check     # calls this, as root, with the image built

Redis, RabbitMQ, PostgreSQL and Ray are real, with Debian's or the image's programs; ClickHouse and
S3 are the stand-ins of the tests. All of them are in networks of their own, under the names and
ports that the file gives them. What is crawled is simulated.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from image_check import IMAGE, PATIENCE, PLAIN, Podman, simulated, wait_until
from steps import step

from tests.support import servers
from tests.support.clickhouse_front import clickhouse_front

SERVICES = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
HERE, THERE = "10.77.0.1", "10.77.0.2"  # Redis is there: Ray's head has the same port.
LOCAL = dict.fromkeys(("rabbitmq", "postgres", "clickhouse", "s3"), "127.0.0.1")
HOSTS = {**LOCAL, "ray-head": HERE, "redis": THERE}
SECRETS = ("REDIS", "POSTGRES", "RABBITMQ", "CLICKHOUSE", "S3")
NEWEST = 60  # Id of the simulated API; the first is 1.
RAY_PATIENCE = 900.0  # Seconds until a fleet is done on a busy machine.


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", type=Path, required=True, help="podman's, with the image")
    arguments = parser.parse_args()
    if not os.environ.get("COMPOSE_CHECK_NETWORK"):
        os.environ["COMPOSE_CHECK_NETWORK"] = "own"
        again = ["unshare", "--net", sys.executable, *sys.argv]
        os.execvp("unshare", again)
    with TemporaryDirectory(prefix="compose-") as name, ExitStack() as stack:
        scratch = Path(name)
        scratch.chmod(0o755)
        compose = Compose(Podman(arguments.storage.resolve()), stack, given())
        step("redis, by its own command line", lambda: redis(scratch, stack, compose.values))
        step("ids and ids-store", lambda: ids(scratch, stack, compose))
        step("repos: a fleet on Ray, into S3", lambda: repos(scratch, stack, compose))
    return 0


def given() -> dict[str, str]:
    """What a user would write into .env."""
    values = {f"{name}_PASSWORD": f"hush{number}" for number, name in enumerate(SECRETS)}
    return {**values, "RAY_TOKEN": "0123456789abcdef" * 4, "CONTACT": "a@example.org"}


class Compose:
    """As much of it as runs one service at a time."""

    def __init__(self, podman: Podman, stack: ExitStack, values: dict[str, str]) -> None:
        self.podman, self.stack, self.values = podman, stack, values

    def text(self, value: str) -> str:
        def filled(found: re.Match[str]) -> str:
            name, rest = found[1], found[2]
            return self.values[name] if rest.startswith(":?") else self.values.get(name, rest[2:])

        return re.sub(r"\$\{(\w+)([^}]*)\}", filled, value).replace("$$", "$")

    def started(self, service: str, number: int = 1, **more: str) -> str:
        """Its command line and environment, with `more` of the latter: a world is simulated."""
        told = SERVICES[service]
        name = f"compose-{os.getpid()}-{service}-{number}"
        environment = {key: self.text(value) for key, value in told["environment"].items()}
        words = ["run", "--detach", "--name", name, "--network=host", *PLAIN]
        words += ["--cap-drop=ALL", "--security-opt=no-new-privileges"]
        words += [f"--add-host={host}:{address}" for host, address in HOSTS.items()]
        words += [f"--env={key}={value}" for key, value in (environment | more).items()]
        words += [f"--volume={one}" for one in told.get("volumes", ())]
        words += [f"--shm-size={told['shm_size']}"] if "shm_size" in told else []
        for volume in told.get("volumes", ()):
            self.stack.callback(
                self.podman, "volume", "rm", "--force", volume.partition(":")[0], check=False
            )
        self.podman(*words, IMAGE, *map(self.text, told["command"]))
        self.stack.callback(self.podman, "rm", "--force", "--volumes", name, check=False)
        return name

    def stopped(self, name: str) -> None:
        self.podman("stop", "--time=120", name)
        assert "saved" in self.said(name), self.said(name)

    def ended(self, name: str, patience: float = PATIENCE) -> int:
        return int(self.podman("wait", name, timeout=patience).stdout)

    def said(self, name: str) -> str:
        told = self.podman("logs", name)
        return str(told.stdout + told.stderr)

    def has_said(self, name: str, words: str) -> bool:
        return words in self.said(name)

    def runs(self, name: str) -> bool:
        told = self.podman("inspect", name, "--format={{.State.Running}}").stdout
        return str(told).strip() == "true"

    def until(self, name: str, true: Callable[[], bool], patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not true():
            if time.monotonic() > deadline or not self.runs(name):
                raise SystemExit(f"error: {name} has not come so far\n{self.said(name)[-4000:]}")
            time.sleep(0.5)

    def healthy(self, name: str, service: str) -> bool:
        test = SERVICES[service]["healthcheck"]["test"][1:]
        return self.podman("exec", name, *test, check=False).returncode == 0


def redis(scratch: Path, stack: ExitStack, values: Mapping[str, str]) -> str:
    folder = scratch / "redis"
    folder.mkdir()
    word = SERVICES["redis"]["command"][-1].replace("$$", "$")
    known = {**os.environ, "REDISCLI_AUTH": values["REDIS_PASSWORD"]}
    server = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", f"cd {folder} && {word}"],
        env=known,
        stdout=subprocess.DEVNULL,
    )
    stack.callback(server.wait)
    stack.callback(server.kill)
    join(server.pid)
    check = ["redis-cli", "-h", THERE, "ping"]
    wait_until(lambda: b"PONG" in subprocess.run(check, env=known, capture_output=True).stdout)
    return f"answers at {THERE}"


def join(pid: int) -> None:
    """This network and the one of a process: a cable between the two."""
    ours = "/proc/self/ns/net"
    wait_until(lambda: not os.path.samefile(f"/proc/{pid}/ns/net", ours))
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net"]
    for command in (
        ["ip", "link", "set", "lo", "up"],
        ["ip", "link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(pid)],
        ["ip", "address", "add", f"{HERE}/24", "dev", "here"],
        ["ip", "link", "set", "here", "up"],
        ["ip", "route", "add", "default", "via", THERE],  # Ray asks for the way to the world.
        [*inside, "ip", "link", "set", "lo", "up"],
        [*inside, "ip", "address", "add", f"{THERE}/24", "dev", "there"],
        [*inside, "ip", "link", "set", "there", "up"],
    ):
        subprocess.run(command, check=True)


def ids(scratch: Path, stack: ExitStack, compose: Compose) -> str:
    url = stack.enter_context(items())
    more = {"TRAWLNET_IDS_ALLOW_PRIVATE_HOSTS": "true"}
    compose.values |= {"IDS_BASE_URL": url, "IDS_TARGET": str(NEWEST), "IDS_KEY_VARIABLE": "none"}
    users = f"default_user = trawlnet\ndefault_pass = {compose.values['RABBITMQ_PASSWORD']}\n"
    stack.enter_context(servers.rabbitmq_server(5672, users))
    postgres = stack.enter_context(servers.postgres_server(5432)).url
    subprocess.run(["psql", "-q", "-c", "CREATE DATABASE trawlnet", postgres], check=True)
    password = compose.values["CLICKHOUSE_PASSWORD"]
    stack.enter_context(clickhouse_front(scratch / "clickhouse", password, 8123))
    crawl = compose.started("ids", **more)
    status = ["exec", crawl, "trawlnet", "ids", "status", "--json"]

    def told() -> dict[str, Any]:
        rows = compose.podman(*status, check=False).stdout.splitlines()
        return json.loads(rows[-1]) if rows else {}

    compose.until(crawl, lambda: told().get("stored") == NEWEST)
    compose.podman("healthcheck", "run", crawl)
    compose.stopped(crawl)  # Its metrics are at the port of the other's.
    store = compose.started("ids-store", **more)
    compose.until(store, lambda: items_in_clickhouse(password) == NEWEST)
    compose.podman("healthcheck", "run", store)
    compose.stopped(store)
    return f"{NEWEST} items, through RabbitMQ into ClickHouse"


def items_in_clickhouse(password: str) -> int:
    sql = urllib.parse.quote("SELECT count(DISTINCT id) FROM item_raw")
    request = urllib.request.Request(f"http://127.0.0.1:8123/?query={sql}")
    word = base64.b64encode(f"trawlnet:{password}".encode()).decode()
    request.add_header("Authorization", f"Basic {word}")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return int(answer.read())
    except urllib.error.HTTPError:
        return 0  # The table is still to be made.


def repos(scratch: Path, stack: ExitStack, compose: Compose) -> str:
    server = stack.enter_context(servers.s3_server(9000))
    server.make_bucket("archive")
    world = stack.enter_context(simulated(scratch))
    compose.values |= {"RELAY": world["relay"]}
    # Here names are in /etc/hosts only: gRPC's own resolver would wait for a server of names.
    names = {"GRPC_DNS_RESOLVER": "native"}
    head = compose.started("ray-head", **names)
    compose.until(head, lambda: compose.healthy(head, "ray-head"), RAY_PATIENCE)
    for number in range(1, SERVICES["ray-worker"]["deploy"]["replicas"] + 1):
        worker = compose.started("ray-worker", number, **names)
        compose.until(worker, partial(compose.has_said, worker, "Ray runtime started"))
    more = {"PLC_URL": world["plc"], "ALLOW_PRIVATE_HOSTS": "true", "DEFAULT_PDS_RPS": "50"}
    name = compose.started("repos", **{f"TRAWLNET_REPOS_{key}": more[key] for key in more})
    code = compose.ended(name, RAY_PATIENCE)
    assert code == 0, compose.said(name)[-4000:]
    options = tuple(f"--env={key}={value}" for key, value in server.environ.items())
    told = compose.podman.run("repos", "verify", "--json", "s3://archive/repos", options=options)
    return f"{json.loads(told.stdout.splitlines()[-1])['blocks']} repositories, verified"


@contextmanager
def items() -> Iterator[str]:
    """An API that has the items up to the newest."""

    class Items(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = re.search(r"/(\d+)\.json", self.path)
            number = int(found[1]) if found else NEWEST
            item = {"id": number, "time": time.time() - 60 * (NEWEST - number)}
            body = json.dumps(NEWEST if not found else item if number <= NEWEST else None).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((HERE, 0), Items)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{HERE}:{server.server_address[1]}"
    finally:
        server.shutdown()


if __name__ == "__main__":
    sys.exit(main())

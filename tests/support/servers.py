"""Private servers for tests: real ones, on free loopback ports, gone when the test is."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest

START_SECONDS = 120.0


def require(program: str) -> str:
    """The path of a server program; without it the test is skipped, and under CI it fails."""
    leave_out_of_quick_runs(program)
    return shutil.which(program) or missing(f"{program} is not installed: run `make services`")


def leave_out_of_quick_runs(program: str) -> None:
    """`make quick` starts no server; what is embedded goes through the same tests there."""
    if os.environ.get("TRAWLNET_QUICK"):
        pytest.skip(f"{program} is not started in a quick run", allow_module_level=True)


def require_package(name: str) -> Any:
    """An optional package, under the same rule."""
    try:
        return import_module(name)
    except ImportError:
        missing(f"the package {name} is not installed: pip install -e '.[dev]'")


def npm_packages(sources: Path, folder: Path) -> Path:
    """A copy of a program for node, with the packages that its lock file names."""
    npm = require("npm")
    shutil.copytree(sources, folder, dirs_exist_ok=True)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        missing(f"npm cannot install what {sources.name} needs: {done.stderr[-300:]}")
    return folder


def missing(message: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(message)
    warnings.warn(message, stacklevel=3)  # Shown at the end of the run, even a quiet one.
    pytest.skip(message, allow_module_level=True)


def free_port() -> int:
    """For a server that must be told one. No other process of this run is given it, and no
    connection: either could take it before the server does, or while a test has that killed."""
    return next(port for port in _PORTS if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _ports_of_this_process() -> Iterator[int]:
    """Below those that the system gives to connections, and below those of simulated networks."""
    lowest, each = 10_000, 600
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 16
    first = lowest + worker * each
    begin = os.getpid() % each  # Another run on this machine begins elsewhere.
    return itertools.cycle([*range(first + begin, first + each), *range(first, first + begin)])


_PORTS = _ports_of_this_process()


@dataclass
class RedisServer:
    """One redis-server whose data outlives its process, so that tests can kill it."""

    program: str
    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        # The log goes to a file: a pipe that nobody reads would stop the server.
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(self.program, "--port", str(self.port), "--bind", "127.0.0.1"),
                    *("--dir", str(self.folder), "--save", "", "--appendonly", "yes"),
                    # With "everysec" it answers before it writes while a sync is under way: on a
                    # busy disk a kill lost seconds of what it had acknowledged.
                    *("--appendfsync", "no", "--daemonize", "no"),
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError((self.folder / "redis.log").read_text()[-2000:])
            time.sleep(0.02)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as probe:
                probe.sendall(b"PING\r\n")
                # While it loads its data the server answers -LOADING.
                return probe.recv(5) == b"+PONG"
        except OSError:
            return False


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    program = require("redis-server")
    with tempfile.TemporaryDirectory(prefix="trawlnet-redis-") as folder:
        server = RedisServer(program, free_port(), Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


@dataclass
class RabbitServer:
    """One RabbitMQ node whose data outlives its process, so that tests can kill it."""

    program: str
    port: int
    epmd_port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def config(self) -> Path:
        return self.folder / "rabbitmq.conf"

    def start(self) -> None:
        with (self.folder / "out.log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.program],
                env=self._environment(),
                cwd=self.folder,
                user=_rabbit_user(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + RABBIT_START_SECONDS
        while not self._answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError((self.folder / "out.log").read_text()[-2000:])
            time.sleep(0.1)

    def kill(self) -> None:
        """The node is a child of the start script: both are in the session's process group."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """As people stop it: the node closes its connections and ends by itself."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(START_SECONDS)
            self.process = None

    def stop_epmd(self) -> None:
        """The port mapper that the node started outlives it."""
        epmd = shutil.which("epmd")
        if epmd:
            command = [epmd, "-port", str(self.epmd_port), "-kill"]
            subprocess.run(command, env=self._environment(), capture_output=True, check=False)

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            "HOME": str(self.folder),  # Where the node keeps its cookie.
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_RELAXED_COMMAND_CHECK": "1",
            "RABBITMQ_NODENAME": f"trawlnet{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(self.config),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none-env"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
        }

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2.0) as probe:
                probe.sendall(b"AMQP\x00\x00\x09\x01")
                # A node that is up begins with a method frame.
                return probe.recv(1) == b"\x01"
        except OSError:
            return False


RABBIT_START_SECONDS = 150.0


def _rabbit_user() -> str | None:
    """Root may not run a node: the package's own user does."""
    return "rabbitmq" if os.getuid() == 0 else None


@contextmanager
def rabbitmq_server(port: int = 0, config: str = "") -> Iterator[RabbitServer]:
    wrapper = require("rabbitmq-server")
    # Debian's wrapper insists on its own directories; the script behind it does not.
    direct = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    program = str(direct) if direct.exists() else wrapper
    with tempfile.TemporaryDirectory(prefix="trawlnet-rabbit-") as folder:
        if user := _rabbit_user():
            shutil.chown(folder, user)
        server = RabbitServer(program, port or free_port(), free_port(), Path(folder))
        server.config.write_text(config)
        try:
            server.start()
            yield server
        finally:
            server.kill()
            server.stop_epmd()


@dataclass
class PostgresServer:
    """One PostgreSQL cluster whose data outlives its process, so that tests can kill it."""

    programs: Path
    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://trawlnet@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        command = ["initdb", "-D", "data", "-U", "trawlnet", "-A", "trust", "-E", "UTF8"]
        command += ["--locale=C", "--no-sync", "--no-instructions"]
        made = subprocess.run(
            [str(self.programs / command[0]), *command[1:]],
            cwd=self.folder,
            user=_postgres_user(),
            capture_output=True,
            check=False,
        )
        if made.returncode:
            raise RuntimeError(made.stderr.decode()[-2000:])

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            # A killed process loses nothing that the kernel has; no test cuts the power.
            "fsync": "off",
            "max_connections": "60",
        }
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "postgres.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.programs / "postgres"), "-D", "data", *flags],
                cwd=self.folder,
                user=_postgres_user(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError((self.folder / "postgres.log").read_text()[-2000:])
            time.sleep(0.05)

    def kill(self) -> None:
        """Each backend has a session of its own: left alone it would answer a little longer."""
        if self.process is not None:
            pid = self.process.pid
            listed = Path(f"/proc/{pid}/task/{pid}/children")
            backends = listed.read_text().split() if listed.exists() else []
            self.process.kill()
            for backend in map(int, backends):
                try:
                    os.kill(backend, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # It has noticed by itself.
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        ready = [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False).returncode == 0


def _postgres_user() -> str | None:
    """Root may not run a cluster: the package's own user does."""
    return "postgres" if os.getuid() == 0 else None


@contextmanager
def postgres_server(port: int = 0) -> Iterator[PostgresServer]:
    leave_out_of_quick_runs("postgres")
    # Debian keeps each version's programs in a folder of its own, outside the path.
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    programs = (found[-1] if found else Path(require("postgres"))).parent
    with tempfile.TemporaryDirectory(prefix="trawlnet-postgres-") as folder:
        if user := _postgres_user():
            shutil.chown(folder, user)
        server = PostgresServer(programs, port or free_port(), Path(folder))
        try:
            server.make()
            server.start()
            yield server
        finally:
            server.kill()


@dataclass
class S3Server:
    """moto's server: the S3 protocol over HTTP, and all objects in its memory."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def options(self) -> dict[str, str]:
        return {
            "endpoint": f"http://127.0.0.1:{self.port}",
            "region": "us-east-1",
            "access_key_id": "someone",
            "secret_access_key": "a secret that nobody may read",
        }

    @property
    def environ(self) -> dict[str, str]:
        names = {"endpoint": "AWS_ENDPOINT_URL"}
        return {names.get(key, f"AWS_{key.upper()}"): value for key, value in self.options.items()}

    def make_bucket(self, name: str) -> str:
        """Gives its URL."""
        address = f"http://127.0.0.1:{self.port}/{name}"
        request = urllib.request.Request(address, method="PUT")
        # The first request makes it load what it serves with.
        urllib.request.urlopen(request, timeout=START_SECONDS).close()
        return f"s3://{name}"


@contextmanager
def s3_server(port: int = 0) -> Iterator[S3Server]:
    leave_out_of_quick_runs("moto")
    require_package("moto")
    port = port or free_port()
    command = [sys.executable, "-c", "from moto.server import main; main()"]
    process = subprocess.Popen(
        [*command, "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _listens(port):
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError("moto's server does not start")
            time.sleep(0.05)
        yield S3Server(port, process)
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True

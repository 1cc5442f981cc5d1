"""The files that start a fleet say what the program understands, and hold no secret."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.program import wait_until
from tests.support.servers import free_port
from trawlnet.cli.commands import TRAWLNET
from trawlnet.cli.dispatch import Group

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = sorted(DEPLOY.rglob("*.yaml"))


def values(document: Any) -> Iterator[Any]:
    yield document
    inner = document.values() if isinstance(document, dict) else document
    if isinstance(document, dict | list):
        for one in inner:
            yield from values(one)


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def command_lines(path: Path) -> list[list[str]]:
    lists = [one for found in documents(path) for one in values(found) if isinstance(one, list)]
    lines = [one[1:] if one[:1] == ["ended"] else one for one in lists]
    return [line for line in lines if line[:1] == ["trawlnet"]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_command_line_is_one_that_the_program_understands(path: Path) -> None:
    group = Group(TRAWLNET)
    for _, crawler, verb, *flags in command_lines(path):
        known = {flag for one in group.commands[crawler].commands[verb].params for flag in one.opts}
        assert {flag.partition("=")[0] for flag in flags} <= known


def test_there_is_a_crawl_in_both_worlds() -> None:
    lines = [line for path in FILES for line in command_lines(path)]
    assert len(lines) == 2
    assert all(any(flag.startswith("--fleet=ray://") for flag in line) for line in lines)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_secret_is_written_down(path: Path) -> None:
    assert not re.search(r"://[^/\s:@'|]*:[^@\s'|]+@", path.read_text())
    for document in documents(path):
        assert document.get("kind") != "Secret"
        for one in values(document):
            name = one.get("name", "") if isinstance(one, dict) else ""
            if isinstance(name, str) and re.search(r"PASSWORD|SECRET|KEY_ID", name):
                assert name.endswith("_FILE")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_kubernetes_objects_fit_their_schemas(path: Path) -> None:
    import kubernetes_validate as validate

    for document in documents(path):
        if document.get("apiVersion") in ("v1", "apps/v1", "batch/v1"):
            validate.validate(document, validate.latest_version(), strict=True)


COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_names_is_there(name: str) -> None:
    service = SERVICES[name]
    assert set(service.get("secrets", ())) <= COMPOSE["secrets"].keys()
    for volume in service.get("volumes", ()):
        assert volume.partition(":")[0] in COMPOSE["volumes"]
    read = {Path(word).name for word in re.findall(r"/run/secrets/\w+", str(service))}
    assert read <= set(service["secrets"]), "a secret is read that is not given"
    for other, how in service.get("depends_on", {}).items():
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other], "it would never be healthy"
        else:
            assert SERVICES[other]["restart"] == "on-failure", "it would never have ended"


def test_the_bucket_is_made_before_a_crawl_needs_it() -> None:
    (archive,) = [word for word in SERVICES["crawl"]["command"] if word.startswith("--archive=")]
    bucket = archive.removeprefix("--archive=s3://").partition("/")[0]
    made = "\n".join(SERVICES["bucket"]["command"])
    assert f"mb --ignore-existing store/{bucket}\n" in made
    waits = SERVICES["crawl"]["depends_on"]["bucket"]["condition"]
    assert waits == "service_completed_successfully"
    subprocess.run(["sh", "-n", "-ec", made.replace("$$", "$")], check=True)


def test_the_user_of_the_image_owns_the_folder_of_the_volume() -> None:
    (mount,) = [one.partition(":")[2] for one in SERVICES["crawl"]["volumes"]]
    image = (DEPLOY / "Dockerfile").read_text()
    home = re.search(r"^WORKDIR (/home/\S+)$", image, re.M)
    assert home and mount == f"{home[1]}/net"
    as_user = image[image.index("\nUSER crawler\n") :]
    assert "\nRUN mkdir net\n" in as_user[as_user.index(home[0]) :]
    assert f"--workspace={mount}" in SERVICES["crawl"]["command"]


def test_a_crawl_that_has_finished_is_not_started_again() -> None:
    crawl = SERVICES["crawl"]
    assert crawl["restart"] == "on-failure" and crawl["command"][0] == "ended"
    (job,) = documents(DEPLOY / "kubernetes" / "crawl.yaml")
    rules = job["spec"]["podFailurePolicy"]["rules"]
    assert [rule["onExitCodes"]["values"] for rule in rules] == [[2, 3, 4]]
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(("code", "told"), [(0, 0), (3, 0), (4, 0), (1, 1), (12, 12), (130, 130)])
def test_ended_tells_what_has_finished_from_what_has_failed(code: int, told: int) -> None:
    ran = subprocess.run([DEPLOY / "ended", "sh", "-c", f"exit {code}"], check=False)
    assert ran.returncode == told


def test_ended_hands_a_signal_on_and_waits_for_the_end() -> None:
    word = "trap 'sleep 0.1; echo saved; exit 130' TERM; echo ready; while :; do sleep 0.05; done"
    process = subprocess.Popen([DEPLOY / "ended", "sh", "-c", word], stdout=subprocess.PIPE)
    try:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.stdout.readline() == b"saved\n"
        assert process.wait(120) == 130
    finally:
        process.kill()
        process.wait()


def test_redis_starts_by_the_command_of_the_compose_file(tmp_path: Path) -> None:
    (tmp_path / "redis_url").write_text("redis://:hush@redis:6379/0\n")
    port = free_port()

    def here(word: str) -> str:
        return word.replace("$$", "$").replace("/run/secrets", str(tmp_path))

    start = here(SERVICES["redis"]["command"][-1]).replace(
        "redis-server ", f"redis-server --port {port} --dir {tmp_path} --bind 127.0.0.1 "
    )
    check = here(SERVICES["redis"]["healthcheck"]["test"][-1]).replace(
        "redis-cli ", f"redis-cli -p {port} "
    )
    process = subprocess.Popen(["sh", "-c", start], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: subprocess.run(["sh", "-c", check]).returncode == 0, "it is healthy")
        asked = subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True)
        assert b"NOAUTH" in asked.stdout
    finally:
        process.terminate()
        process.wait()


LOCKS = {
    DEPLOY.parent / "requirements.lock": ("dev",),
    DEPLOY / "requirements.lock": ("fleet", "clickhouse"),
}


def required(extras: tuple[str, ...]) -> list[Requirement]:
    """What pyproject.toml asks for, with the extras that it names within extras."""
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    found = [Requirement(line) for line in project["dependencies"]]
    waiting = list(extras)
    while waiting:
        for line in project["optional-dependencies"][waiting.pop()]:
            one = Requirement(line)
            if one.name == "trawlnet":
                waiting += one.extras
            else:
                found.append(one)
    return found


def locked(path: Path) -> dict[str, list[str]]:
    """The versions of each name; which one is installed may depend on the machine."""
    versions: dict[str, list[str]] = {}
    for name, version in re.findall(
        r"^([\w.-]+)(?:\[[^\]]*\])?==([\w.+!-]+)", path.read_text(), re.M
    ):
        versions.setdefault(canonicalize_name(name), []).append(version)
    return versions


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.parent.name)
def test_the_lock_is_of_what_the_project_asks_for(path: Path) -> None:
    versions = locked(path)
    for one in required(LOCKS[path]):
        found = versions.get(canonicalize_name(one.name), [])
        assert found, f"{one.name} is not locked; hint: make lock"
        assert all(one.specifier.contains(v, prereleases=True) for v in found), f"{one}: make lock"
    assert versions.keys() >= {"pip", "setuptools"}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.parent.name)
def test_every_file_is_locked_by_its_hash_and_comes_from_anywhere(path: Path) -> None:
    text = path.read_text()
    entries = re.split(r"\n(?=\S)", text.strip())[1:]
    assert len(entries) == sum(map(len, locked(path).values()))
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "://" not in text
    assert "index" not in text.partition("\n")[0]


def test_the_image_installs_only_what_is_locked() -> None:
    installs = re.findall(r"pip install ([^&\\]+)", (DEPLOY / "Dockerfile").read_text())
    assert len(installs) == 2
    assert "--require-hashes -r requirements.lock" in installs[0]
    assert "--no-deps --no-build-isolation" in installs[1]

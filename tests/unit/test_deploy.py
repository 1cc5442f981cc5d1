"""The files that start a fleet say what the program understands, and hold no secret."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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
    """What follows `trawlnet`, of every service and container."""
    lines = []
    for one in (one for document in documents(path) for one in values(document)):
        words = one.get("args", one.get("command")) if isinstance(one, dict) else None
        if isinstance(words, list) and words[:1] in (["repos"], ["pds"], ["ids"], ["web"]):
            lines.append(words)
    return lines


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_command_line_is_one_that_the_program_understands(path: Path) -> None:
    group = Group(TRAWLNET)
    for crawler, verb, *flags in command_lines(path):
        known = {flag for one in group.commands[crawler].commands[verb].params for flag in one.opts}
        assert {flag.partition("=")[0] for flag in flags if flag.startswith("-")} <= known


def test_every_crawler_is_started_and_a_fleet_in_both_worlds() -> None:
    lines = [line for path in FILES for line in command_lines(path)]
    assert {line[0] for line in lines if line[1] == "crawl"} == {"repos", "pds", "ids", "web"}
    assert sum(any(flag.startswith("--fleet=ray://") for flag in line) for line in lines) == 2


GIVEN = re.compile(r"\$\{\w+:\?[^}]+\}")  # A variable that compose refuses to be without.


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_secret_is_written_down(path: Path) -> None:
    text = GIVEN.sub("", path.read_text())
    assert not re.search(r"://[^/\s:@'|]*:[^@\s'|]+@", text)
    for document in documents(path):
        assert document.get("kind") != "Secret"
        for one in values(document):
            for name, value in one.items() if isinstance(one, dict) else ():
                if re.search(r"PASS|SECRET|TOKEN$|CLI_AUTH", str(name)):
                    assert GIVEN.fullmatch(value), name
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
OURS = {name: one for name, one in SERVICES.items() if one["image"] == "trawlnet:latest"}
CRAWLS = {name: one for name, one in OURS.items() if one["restart"] == "on-failure"}


def checked(*words: object) -> None:
    """By a program that was installed beside this Python."""
    command = [Path(sys.executable).with_name(str(words[0])), *words[1:]]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_compose_file_fits_its_schema() -> None:
    checked("check-jsonschema", "--builtin-schema=vendor.compose-spec", DEPLOY / "compose.yaml")


def test_the_dockerfile_keeps_the_rules() -> None:
    checked("hadolint", DEPLOY / "Dockerfile")


def test_what_compose_asks_for_is_in_the_example_of_its_environment() -> None:
    asked = set(re.findall(r"(?<!\$)\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    lines = (DEPLOY / ".env.example").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert given.keys() == asked
    assert not any(given[name] for name in given if re.search("PASSWORD|TOKEN|KEY$", name))


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_names_is_there(name: str) -> None:
    service = SERVICES[name]
    for volume in service.get("volumes", ()):
        place = volume.partition(":")[0]
        assert place in COMPOSE["volumes"] or (DEPLOY / place).is_dir()
    for other, how in service.get("depends_on", {}).items():
        assert set(service["profiles"]) <= set(SERVICES[other]["profiles"]), "it is not started"
        if how["condition"] == "service_healthy":
            assert "test" in SERVICES[other]["healthcheck"], "it would never be healthy"
        else:
            assert SERVICES[other]["restart"] == "on-failure", "it would never have ended"


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_private_and_kept(name: str) -> None:
    service = SERVICES[name]
    assert service["image"] == "trawlnet:latest" or re.search(r":\D*\d+\.?\d", service["image"])
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert service["restart"] in ("unless-stopped", "on-failure")
    if name not in OURS and name != "bucket":
        assert "healthcheck" in service and any(":/" in one for one in service["volumes"])


def test_a_volume_belongs_to_one_service() -> None:
    mounted = [one.partition(":")[0] for two in SERVICES.values() for one in two.get("volumes", ())]
    assert sorted(one for one in mounted if "/" not in one) == sorted(COMPOSE["volumes"])


def test_the_bucket_is_made_before_a_crawl_needs_it() -> None:
    (archive,) = [word for word in SERVICES["repos"]["command"] if word.startswith("--archive=")]
    bucket = archive.removeprefix("--archive=s3://").partition("/")[0]
    made = "\n".join(SERVICES["bucket"]["command"])
    assert f"mb --ignore-existing store/{bucket}\n" in made
    waits = SERVICES["repos"]["depends_on"]["bucket"]["condition"]
    assert waits == "service_completed_successfully"
    subprocess.run(["sh", "-n", "-ec", made.replace("$$", "$")], check=True)


def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile: each word in capitals, and what follows it."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.M)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line)]


def test_the_user_of_the_image_owns_the_folder_of_the_volume() -> None:
    steps = instructions()
    told = dict(steps)
    assert told["USER"] == "1000:1000" and told["VOLUME"] == told["WORKDIR"] == "/data"
    assert any("install -d -o crawler -g crawler /data" in rest for _, rest in steps)
    assert "TRAWLNET_WORKSPACE=/data" in told["ENV"]
    assert len(CRAWLS) == 5
    for service in CRAWLS.values():
        assert [one.partition(":")[2] for one in service["volumes"]] == ["/data"]
    for line in (line for path in FILES for line in command_lines(path)):
        assert not any(flag.startswith(("-w", "--workspace")) for flag in line)


def test_the_image_is_given_only_what_it_installs() -> None:
    ignored = (DEPLOY.parent / ".dockerignore").read_text().split()
    assert ignored[0] == "*"
    copied = " ".join(rest for word, rest in instructions() if word in ("COPY", "RUN"))
    for given in ignored[1:]:
        assert given.removeprefix("!").partition("/*")[0] in copied


def test_a_crawl_that_has_finished_is_not_started_again() -> None:
    for name, service in CRAWLS.items():
        if name != "pds":  # It never has: it goes on with what is due.
            assert service["environment"]["FINISHED_IS_SUCCESS"]
    job = KUBERNETES["Job"]
    rules = job["spec"]["podFailurePolicy"]["rules"]
    assert [rule["onExitCodes"]["values"] for rule in rules] == [[2, 3, 4]]
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


KUBERNETES = {
    one["kind"]: one
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for one in documents(path)
}


@pytest.mark.parametrize("kind", ["Job", "StatefulSet"])
def test_a_pod_has_no_more_rights_than_it_needs(kind: str) -> None:
    pod = KUBERNETES[kind]["spec"]["template"]["spec"]
    about = pod["securityContext"]
    assert about["runAsNonRoot"] and about["runAsUser"] and about["fsGroup"]
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert container["livenessProbe"]


def entered(folder: Path, script: str, **variables: str) -> dict[str, Any]:
    """How to run the entry point with a program in place of trawlnet."""
    (folder / "trawlnet").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "trawlnet").chmod(0o755)
    return {"env": {"PATH": f"{folder}:{os.environ['PATH']}", **variables}}


@pytest.mark.parametrize(("code", "told"), [(0, 0), (3, 0), (4, 0), (1, 1), (12, 12), (130, 130)])
def test_the_entry_point_tells_what_has_finished_from_what_has_failed(
    code: int, told: int, tmp_path: Path
) -> None:
    how = entered(tmp_path, f"exit {code}")
    assert subprocess.run([DEPLOY / "entrypoint", "web"], **how).returncode == code
    how = entered(tmp_path, f"exit {code}", FINISHED_IS_SUCCESS="yes")
    assert subprocess.run([DEPLOY / "entrypoint", "web"], **how).returncode == told


def test_the_entry_point_hands_on_what_it_is_given(tmp_path: Path) -> None:
    how = entered(tmp_path, 'echo "$# $1"; cat')
    ran = subprocess.run(
        [DEPLOY / "entrypoint", "a b", "c"], input=b"in\n", capture_output=True, **how
    )
    assert ran.stdout == b"2 a b\nin\n"


def test_the_entry_point_hands_a_signal_on_and_waits_for_the_end(tmp_path: Path) -> None:
    word = "trap 'sleep 0.1; echo saved; exit 130' TERM; echo ready; while :; do sleep 0.05; done"
    process = subprocess.Popen(
        [DEPLOY / "entrypoint"], stdout=subprocess.PIPE, **entered(tmp_path, word)
    )
    try:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.stdout.readline() == b"saved\n"
        assert process.wait(120) == 130
    finally:
        process.kill()
        process.wait()


def test_redis_starts_by_the_command_of_the_compose_file(tmp_path: Path) -> None:
    port, service = free_port(), SERVICES["redis"]
    start = service["command"][-1].replace("$$", "$")
    start = start.replace(
        "redis-server ", f"redis-server --port {port} --dir {tmp_path} --bind 127.0.0.1 "
    )
    check = service["healthcheck"]["test"][-1].replace("redis-cli ", f"redis-cli -p {port} ")
    known = {**os.environ, "REDISCLI_AUTH": "hush"}
    process = subprocess.Popen(["sh", "-c", start], stdout=subprocess.DEVNULL, env=known)
    try:
        wait_until(
            lambda: subprocess.run(["sh", "-c", check], env=known).returncode == 0, "it is healthy"
        )
        asked = subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True)
        assert b"NOAUTH" in asked.stdout
    finally:
        process.terminate()
        process.wait()


LOCKS = {
    DEPLOY.parent / "requirements.lock": ("dev",),
    DEPLOY / "requirements.lock": ("fleet", "clickhouse", "postgres", "rabbitmq"),
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
    run = " ".join(rest for word, rest in instructions() if word == "RUN")
    first, second = re.findall(r"pip install ([^&]+)", run)
    assert "--only-binary :all: --require-hashes -r /mnt/requirements.lock" in first
    assert "--no-deps --no-index --find-links /mnt/dist trawlnet" in second
    assert "apt-get" not in run

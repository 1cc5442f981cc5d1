"""Where a setting comes from, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.program import at_once, trawlnet
from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.cli.common.sections import SECTIONS
from trawlnet.cli.common.settings import Settings, load_settings
from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.repos.config import ReposConfig


def loaded(
    folder: Path, yaml: str = "", flags: dict[str, object] | None = None, **variables: str
) -> Settings[ReposConfig]:
    file = folder / "trawlnet.yaml"
    if yaml:
        file.write_text(yaml)
    return load_settings("repos", ReposConfig, file, variables, flags or {}, ["repos"])


def test_flag_beats_variable_beats_file_beats_default(tmp_path: Path) -> None:
    yaml = "repos:\n  workers: 2\n  attempts: 3\n  block_after: 7\n"
    settings = loaded(
        tmp_path,
        yaml,
        {"workers": "4", "contact": None},
        TRAWLNET_REPOS_WORKERS="3",
        TRAWLNET_REPOS_ATTEMPTS="9",
        TRAWLNET_WORKSPACE="elsewhere",
    )
    config, sources = settings.config, settings.sources
    assert (config.workers, config.attempts, config.block_after) == (4, 9, 7)
    assert sources["workers"] == "--workers"
    assert sources["attempts"] == "TRAWLNET_REPOS_ATTEMPTS"
    assert sources["block_after"].endswith("trawlnet.yaml")
    assert sources["contact"] == "default"


@pytest.mark.parametrize(
    ("yaml", "flags", "variables", "new"),
    [
        ("", {"store": "postgresql://h/db"}, {}, "--postgres"),
        ("", {}, {"TRAWLNET_IDS_STORE": "postgres://h/db"}, "TRAWLNET_IDS_POSTGRES"),
        ("ids:\n  store: postgresql://h/db\n", {}, {}, "ids.postgres"),
    ],
)
def test_the_old_spelling_of_the_postgresql_server_works_and_names_the_new_one_once(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    yaml: str,
    flags: dict[str, str],
    variables: dict[str, str],
    new: str,
) -> None:
    file = tmp_path / "trawlnet.yaml"
    file.write_text(yaml)
    for _ in range(2):
        settings = load_settings("ids", IdsConfig, file, variables, flags, ["ids"])
    assert settings.config.postgres.endswith("://h/db")
    assert settings.config.redis_address == ""
    assert capsys.readouterr().err.count(f"{new} (the old spelling still works)") == 1


def test_store_is_redis_and_a_flag_wins_over_the_file_in_either_spelling(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model, crawler in ((ReposConfig, "repos"), (IdsConfig, "ids")):
        for old, new in (("redis_address", "store"), ("store", "redis_address")):
            file = tmp_path / "trawlnet.yaml"
            file.write_text(f"{crawler}:\n  {old}: redis://file/0\n")
            flags = {new: "flag.example:6379"}
            settings = load_settings(crawler, model, file, {}, flags, [crawler])
            assert settings.config.model_dump()["redis_address"] == "redis://flag.example:6379"
            assert settings.sources["redis_address"] == f"--{new.replace('_', '-')}"
    assert capsys.readouterr().err == ""


def test_no_secret_of_the_config_is_shown(tmp_path: Path) -> None:
    (tmp_path / "trawlnet.yaml").write_text(
        "web:\n"
        "  redis_address: redis://me:hunter2@more@127.0.0.1:1/0\n"
        "  webhook: https://hooks.example/hunter2\n"
        "  proxies:\n"
        "    default: http://u:hunter2@p.example:3128\n"
        "    hosts: {a.org: 'http://u:hunter2@q.example?token=hunter2'}\n"
        "pds:\n"
        "  registry: postgresql://h/db?user=me&password=hunter2\n"
        "  clickhouse_password: hunter2\n"
    )
    for wish in ([], ["--json"]):
        ran = at_once("config", "-w", str(tmp_path), *wish)
        assert ran.code == 0, ran.err
        assert "hunter2" not in ran.out + ran.err
        assert "127.0.0.1:1/0" in ran.out
        assert "q.example" in ran.out


def test_no_secret_is_in_what_is_said_of_a_wrong_value(tmp_path: Path) -> None:
    for yaml in (
        "repos:\n  clickhouse_password: [hunter2]\n",
        "repos:\n  relay: {a: 'https://u:hunter2@h/'}\n",
    ):
        with pytest.raises(UsageTrouble) as wrong:
            loaded(tmp_path, yaml)
        assert "hunter2" not in wrong.value.message


def test_sizes_durations_and_lists_are_read_as_people_write_them(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "repos:\n  max_repo_size: 1.5mb\n  request_timeout: 5m\n  max_seconds: 30s\n",
        TRAWLNET_REPOS_RELAY="https://a.example,https://b.example",
    ).config
    assert config.max_repo_size == 3 << 19
    assert (config.request_timeout, config.max_seconds) == (300.0, 30.0)
    assert config.relay == ("https://a.example", "https://b.example")


@pytest.mark.parametrize("yaml", ["", "# nothing\n", "repos:\n", "repos:\n  workers:\n"])
def test_an_empty_file_section_or_value_changes_nothing(tmp_path: Path, yaml: str) -> None:
    (tmp_path / "trawlnet.yaml").write_text(yaml)
    assert loaded(tmp_path).config == ReposConfig()


@pytest.mark.parametrize(
    "yaml, message, hint",
    [
        ("repos:\n  wokers: 5\n", "unknown key repos.wokers", "did you mean repos.workers?"),
        ("repo:\n  workers: 5\n", "unknown key repo", "did you mean repos?"),
        ("repos:\n  zzz: 5\n", "unknown key repos.zzz", "known keys: relay"),
        ("repos:\n  workers: many\n", "workers: expected a whole number, got 'many'", ""),
        ("repos:\n  workers: 0\n", "repos.workers: expected at least 1, got 0", ""),
        ("repos:\n  workers: yes\n", "repos.workers: expected a value, got True", ""),
        ("repos:\n  contact: 5\n", "repos.contact: expected text, got 5", ""),
        ("repos:\n  default_pds_rps: .nan\n", "repos.default_pds_rps: expected", ""),
        ("repos:\n  max_repo_size: 5 parsecs\n", "expected a size such as", ""),
        ("repos:\n  max_repo_size: [1]\n", "repos.max_repo_size: expected a whole number", ""),
        ("repos:\n  relay: {a: 1}\n", "repos.relay: expected a list", ""),
        ("repos: 5\n", "repos must be keys with values, got 5", ""),
        ("- repos\n", "the file must be keys with values", ""),
        ("repos:\n  workers: 5\n  workers: 6\n", "line 3: the key workers is there twice", ""),
        ("repos:\n\tworkers: 5\n", "line 2: found character", ""),
        ("repos: [\n", "line 2: ", ""),
        ("repos:\n  contact: 2024-13-01\n", "month must be in 1..12", ""),
        ("repos: !!python/object:os.system {}\n", "line 1: could not determine", ""),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(
    tmp_path: Path, yaml: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageTrouble) as caught:
        loaded(tmp_path, yaml)
    assert "trawlnet.yaml" in caught.value.message
    assert message in caught.value.message and hint in caught.value.hint
    assert "\n" not in caught.value.message and len(caught.value.message) < 300


def test_a_mistake_in_a_variable_or_flag_names_it(tmp_path: Path) -> None:
    with pytest.raises(UsageTrouble, match="TRAWLNET_REPOS_WORKERS: expected a whole number"):
        loaded(tmp_path, TRAWLNET_REPOS_WORKERS="x")
    with pytest.raises(UsageTrouble, match="--workers: expected at least 1, got '0'"):
        loaded(tmp_path, flags={"workers": "0"})
    with pytest.raises(UsageTrouble, match="unknown variable TRAWLNET_REPOS_WOKERS") as caught:
        loaded(tmp_path, TRAWLNET_REPOS_WOKERS="5")
    assert caught.value.hint == "did you mean TRAWLNET_REPOS_WORKERS?"


def test_bytes_that_are_no_text_are_a_mistake_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "trawlnet.yaml").write_bytes(b"repos: \xff\xfe\x00\n")
    with pytest.raises(UsageTrouble, match=r"trawlnet\.yaml"):
        loaded(tmp_path)


def test_config_shows_each_value_and_its_source(tmp_path: Path) -> None:
    (tmp_path / "trawlnet.yaml").write_text("repos:\n  workers: 7\n")
    ran = trawlnet("config", "-w", tmp_path, "--json", TRAWLNET_REPOS_ATTEMPTS="2")
    rows = {row["key"]: row for row in ran.rows}
    shown = {f"{name}.{key}" for name, model in SECTIONS.items() for key in model.model_fields}
    assert ran.code == 0 and set(rows) == shown
    assert rows["repos.workers"]["value"] == 7
    assert rows["repos.workers"]["source"].endswith("trawlnet.yaml")
    assert rows["repos.attempts"] == {
        "key": "repos.attempts",
        "value": 2,
        "source": "TRAWLNET_REPOS_ATTEMPTS",
    }
    assert rows["repos.contact"]["source"] == "default"


def test_config_as_text_is_a_file_that_says_the_same(tmp_path: Path) -> None:
    ran = trawlnet("config", cwd=tmp_path)
    assert ran.code == 0 and "no workspace ./workspace yet" in ran.err
    file = tmp_path / "trawlnet.yaml"
    file.write_text(ran.out)
    for name, model in SECTIONS.items():
        assert load_settings(name, model, file, {}, {}, list(SECTIONS)).config == model()


def test_a_wrong_config_stops_every_verb_before_it_touches_anything(tmp_path: Path) -> None:
    (tmp_path / "trawlnet.yaml").write_text("repos:\n  wokers: 5\n")
    for verb in ("crawl", "status", "failures"):
        ran = at_once("repos", verb, "-w", tmp_path, "--json")
        assert ran.code == 2
        assert ran.error == {
            "error": f"{tmp_path}/trawlnet.yaml: unknown key repos.wokers",
            "hint": "did you mean repos.workers?",
        }
    assert [path.name for path in tmp_path.iterdir()] == ["trawlnet.yaml"]


def test_passwords_are_not_printed(tmp_path: Path) -> None:
    secrets = {
        "TRAWLNET_REPOS_CLICKHOUSE_PASSWORD": "swordfish",
        "TRAWLNET_REPOS_REDIS_ADDRESS": "redis://me:swordfish@127.0.0.1:6379/0",
    }
    ran = trawlnet("config", "-w", tmp_path, "--json", **secrets)
    values = {row["key"]: row["value"] for row in ran.rows}
    assert ran.code == 0 and "swordfish" not in ran.out + ran.err
    assert values["repos.clickhouse_password"] == "..."
    assert values["repos.redis_address"] == "redis://me:...@127.0.0.1:6379/0"

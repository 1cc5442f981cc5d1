"""Every verb, flag, key, variable, exit code, metric and reason is documented.

`python tests/test_docs.py` rewrites the tables that follow from the code.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from trawlnet.cli.commands import TRAWLNET
from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.flags import default_of, metavar_of
from trawlnet.cli.common.sections import SECTIONS
from trawlnet.cli.common.settings import PLAIN_FLAGS, flag_of, variable_of
from trawlnet.cli.dispatch import Group, dispatch
from trawlnet.cli.usage import Usage
from trawlnet.engine.outcome import MEANING, Reason
from trawlnet.observe.metrics.catalogue import CATALOGUE

PROJECT = Path(__file__).parents[1]
REFERENCE = PROJECT / "docs" / "reference"


def commands(command: Any, path: str = "trawlnet") -> Iterator[tuple[str, Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield f"{path} {name}", inner
        yield from commands(inner, f"{path} {name}")


ALL = dict(commands(Group(TRAWLNET)))


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def reasons_table() -> str:
    rows = [
        [
            f"`{reason}`",
            meaning.gloss,
            meaning.blame,
            meaning.again,
            "yes" if meaning.answer else "no",
        ]
        for reason, meaning in MEANING.items()
    ]
    return table(["reason", "meaning", "who is to blame", "tried again", "an answer"], rows)


def keys_table(section: str) -> str:
    rows = list(key_rows(SECTIONS[section]))
    return table(["key", "kind", "default", "meaning"], rows)


def key_rows(model: type[BaseModel], prefix: str = "") -> Iterator[list[str]]:
    """One row for each key; those of a section within the section as `scope.allowed_hosts`."""
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from key_rows(field.annotation, f"{prefix}{key}.")
            continue
        default = _default_shown(field)
        meaning = (field.description or "").replace("|", "\\|")
        yield [f"`{prefix}{key}`", metavar_of(model, key), default or "none", meaning]


def _default_shown(field: FieldInfo) -> str:
    match field.default:
        case bool() | 0:
            return str(field.default).lower()
        case tuple() as several:
            return " ".join(map(str, several))
        case _:
            return default_of(field)


def verbs_table() -> str:
    rows = []
    for path, command in ALL.items():
        flags = " ".join(f"`{option}`" for option in sorted(flags_of(path)) if "--" in option)
        if not hasattr(command, "commands"):
            rows.append([f"`{path}`", command.help.split("\n\n")[0].replace("\n", " "), flags])
    return table(["command", "what it does", "flags"], rows)


def metrics_table() -> str:
    rows = [
        [
            f"`{one.exposed}`",
            one.kind,
            ", ".join(f"`{label}`" for label in one.labels),
            one.unit,
            one.owner,
            one.text,
        ]
        for one in CATALOGUE
    ]
    return table(["name", "type", "labels", "unit", "crawler", "meaning"], rows)


GENERATED = {
    "metrics.md": {"metrics": metrics_table},
    "reasons.md": {"reasons": reasons_table},
    "config.md": {name: lambda name=name: keys_table(name) for name in SECTIONS},
    "cli.md": {"verbs": verbs_table},
}


def flags_of(path: str) -> set[str]:
    """The flags of a command; those that are config keys are in config.md."""
    keys = {flag_of(key) for model in SECTIONS.values() for key in model.model_fields}
    shown = [one for one in ALL[path].params if not getattr(one, "hidden", False)]
    options = {option for one in shown for option in getattr(one, "opts", [])}
    return {option for option in options if option.startswith("-")} - (
        keys if path.endswith(" crawl") else set()
    )


def filled(text: str, name: str, content: str) -> str:
    begin, end = f"<!-- {name}: written by tests/test_docs.py -->", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    assert pattern.search(text), f"there is no place for {name}"
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)


@pytest.mark.parametrize("page", GENERATED)
def test_tables_say_what_the_code_says(page: str) -> None:
    text = (REFERENCE / page).read_text()
    for name, make in GENERATED[page].items():
        assert filled(text, name, make()) == text, f"{page} is old: run python tests/test_docs.py"


@pytest.mark.parametrize("path", ALL)
def test_every_verb_and_flag_is_documented(path: str) -> None:
    text = (REFERENCE / "cli.md").read_text()
    assert path in text
    for flag in flags_of(path):
        assert f"`{flag}" in text, f"{flag} of {path}"


def test_every_exit_code_is_documented() -> None:
    text = (REFERENCE / "cli.md").read_text()
    for code in Exit:
        assert f"| {int(code)} |" in text


@pytest.mark.parametrize("section", SECTIONS)
def test_every_variable_can_be_found(section: str) -> None:
    text = (REFERENCE / "config.md").read_text() + (REFERENCE / "cli.md").read_text()
    for flag in PLAIN_FLAGS:
        assert f"`{variable_of(section, flag)}`" in text
    assert "`TRAWLNET_WORKSPACE`" in text


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_says_what_it_is(section: str) -> None:
    assert [row[0] for row in key_rows(SECTIONS[section]) if not row[3]] == []
    assert [row[0] for row in key_rows(SECTIONS[section]) if "Undefined" in row[2]] == []


def test_every_control_file_and_signal_is_documented() -> None:
    text = (REFERENCE / "cli.md").read_text()
    for word in ("pause.<crawler>", "stop.<crawler>", "SIGUSR1", "SIGHUP", "SIGTERM", "SIGINT"):
        assert f"`{word}`" in text


def test_every_reason_is_documented() -> None:
    text = (REFERENCE / "reasons.md").read_text()
    assert all(f"| `{reason}` |" in text for reason in Reason)


PAGES = [*sorted(PROJECT.glob("*.md")), *sorted((PROJECT / "docs").rglob("*.md"))]


def prose(page: Path) -> str:
    """Without what stands in fences: there a `#` begins a comment."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_every_place_that_is_linked_to_is_there() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)]+)\)", prose(page)):
            path, _, anchor = target.partition("#")
            found = page.parent / path if path else page
            where = f"{page.relative_to(PROJECT)}: {target}"
            assert found.exists(), where
            assert not anchor or anchor in anchors(found), where


def test_the_index_lists_every_page() -> None:
    docs = PROJECT / "docs"
    index = (docs / "README.md").read_text()
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - {"README.md"}
    assert [page for page in sorted(pages) if page not in index and "decisions/" not in page] == []


NAMED = re.compile(r"`((?:bench|tests|scripts|examples|deploy|src)/[\w./-]+)`")
GUARD = re.compile(r"`((?:contract|crash|sim|unit)/test_\w+\.py)`")  # As below tests/.


def test_a_decision_has_a_number_of_its_own() -> None:
    numbers = {}
    for page in sorted((PROJECT / "docs" / "decisions").glob("*.md")):
        number, heading = int(page.name[:4]), page.read_text().partition("\n")[0]
        assert int(heading.removeprefix("# ").partition(".")[0]) == number, page.name
        assert numbers.setdefault(number, page.name) == page.name


def test_every_file_that_is_named_is_there() -> None:
    for page in PAGES:
        text = prose(page)
        named = NAMED.findall(text) + [f"tests/{name}" for name in GUARD.findall(text)]
        for name in named:
            assert (PROJECT / name).exists(), f"{page.relative_to(PROJECT)}: {name}"


SOURCE = re.compile(r"`(?:[\w-]+/)*([\w-]+\.(?:py|lua|sql|c))`")


def test_every_module_that_is_named_is_there() -> None:
    """A decision may name what it removed; every other page describes what there is."""
    there = {path.name for path in PROJECT.glob("[a-z]*/**/*.*")}
    for page in PAGES:
        if page.parent.name == "decisions" or page.name == "CHANGELOG.md":
            continue
        missing = set(SOURCE.findall(prose(page))) - there
        assert not missing, f"{page.relative_to(PROJECT)}: {missing}"


def test_every_room_is_described() -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text()
    rooms = [path.parent.name for path in (PROJECT / "src" / "trawlnet").glob("*/__init__.py")]
    assert [room for room in rooms if f"| `{room}/` |" not in text] == []


def _section(text: str, head: str) -> str:
    level = head.split()[0]
    return text.split(f"\n{head}", 1)[1].split(f"\n{level} ", 1)[0]


@pytest.mark.parametrize("crawler", ["repos", "web", "ids", "pds"])
def test_a_walk_from_command_to_disk_names_no_more_files_than_it_may(crawler: str) -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text()
    (head,) = re.findall(rf"^### One .*`trawlnet {crawler} crawl`$", text, re.MULTILINE)
    steps = re.findall(r"^\d+\. (.+)", _section(text, head), re.MULTILINE)
    links = [re.findall(r"\[(\S+?/\S+?)\]\((.+?)\)", step) for step in steps]
    assert all(links), "every step names a file"
    assert all(target == f"src/trawlnet/{name}" for step in links for name, target in step)
    files = [name for step in links for name, _ in step]
    assert 20 <= len(set(files)) == len(files) <= 25


def test_the_glossary_is_short() -> None:
    lines = _section((PROJECT / "ARCHITECTURE.md").read_text(), "## Words").strip().splitlines()
    assert len(lines) <= 40
    terms = [term for line in lines for term in re.findall(r"\*\*(.+?)\*\*", line)]
    assert len(terms) == len(set(terms))


def test_the_index_of_files_is_what_the_files_say() -> None:
    check = [sys.executable, str(PROJECT / "scripts" / "file_index.py"), "--check"]
    assert subprocess.run(check).returncode == 0, "write it anew: python scripts/file_index.py"


USAGE = PROJECT / "src" / "trawlnet" / "cli" / "usage.json"


def usage_of(path: str, command: Any) -> Usage:
    options = [one for one in command.params if hasattr(one, "is_flag")]
    switches = [opt for one in options if one.is_flag for opt in (*one.opts, *one.secondary_opts)]
    taking = [one for one in options if not one.is_flag]
    plain = [one for one in command.params if one not in options]
    os.environ["COLUMNS"] = "80"
    with redirect_stdout(io.StringIO()) as shown:
        dispatch([*path.split()[1:], "--help"])
    return {
        "help": shown.getvalue().rstrip("\n").split("\n"),
        "commands": list(getattr(command, "commands", ())),
        "switches": ["--help", *switches],
        "valued": [opt for one in taking for opt in one.opts],
        "numbers": [opt for one in taking if one.metavar == "N" for opt in one.opts],
        "required": [one.opts[0] for one in taking if one.required],
        "arguments": [one.metavar or one.name.upper() for one in plain if one.required],
        "most": None if any(one.nargs < 0 for one in plain) else len(plain),
    }


def usages() -> str:
    """As typer shows it: `trawlnet.cli.usage` prints it without importing typer."""
    known = {"trawlnet": Group(TRAWLNET), **ALL}
    table = {path[len("trawlnet ") :]: usage_of(path, one) for path, one in known.items()}
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


def test_the_stored_help_is_what_the_commands_themselves_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert USAGE.read_text() == usages(), "it is old: run python tests/test_docs.py"


def write() -> None:
    for _ in ("commands", "groups"):  # Which take the lines of their commands from the file.
        USAGE.write_text(usages())
    for page, tables in GENERATED.items():
        text = (REFERENCE / page).read_text()
        for name, make in tables.items():
            text = filled(text, name, make())
        (REFERENCE / page).write_text(text)


if __name__ == "__main__":
    write()

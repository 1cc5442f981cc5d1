"""The code blocks of the documentation: what they are, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "deploy").rglob("*.md")),
]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# A block without a language is shell if a line of it begins with one of these.
PROGRAMS = {
    *("trawlnet", "make", "pip", "python", "curl", "cd", "export", "ray", "redis-server"),
    *("sqlite3", "mkdir", "install", "docker"),
}
BETWEEN = {"|", "||", "&&", ";", "&"}


@dataclass(frozen=True, slots=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_shell(self) -> bool:
        if self.language in ("console", "sh"):
            return True
        words = {line.split()[0] for line in self.text.splitlines() if line.strip()}
        return not self.language and ("$" in words or not words.isdisjoint(PROGRAMS))


@dataclass(frozen=True, slots=True)
class Command:
    line: str  # Continued lines are joined.
    shown: tuple[str, ...]  # What the page says that it prints.


@cache
def blocks() -> tuple[Block, ...]:
    return tuple(
        Block(str(page.relative_to(ROOT)), text[: found.start()].count("\n") + 1, *found.groups())
        for page in PAGES
        for text in [page.read_text()]
        for found in FENCE.finditer(text)
    )


def commands(block: Block) -> list[Command]:
    """Those behind a `$`; where there is none, every line is one."""
    text = re.sub(r" \\\n\s*", " ", block.text).rstrip("\n")
    is_transcript = re.search(r"^\$ ", text, re.MULTILINE) is not None
    found: list[Command] = []
    for line in _quoted_together(text.split("\n")):
        if not is_transcript and line.strip():
            found.append(Command(line, ()))
        elif line.startswith("$ "):
            found.append(Command(line[2:], ()))
        elif found:
            found[-1] = Command(found[-1].line, (*found[-1].shown, line))
    return found


def _quoted_together(lines: list[str]) -> Iterator[str]:
    """A command may have line breaks within its quotes."""
    waiting = ""
    for line in lines:
        waiting = f"{waiting}\n{line}" if waiting else line
        if not waiting.startswith(("$ ", "trawlnet ", "sqlite3 ")) or waiting.count('"') % 2 == 0:
            yield waiting
            waiting = ""


def programs(line: str) -> Iterator[list[str]]:
    """The words of each program in a command line; variables before it and redirections are not."""
    words: list[str] = []
    for word in [*shlex.split(line.replace("…", "..."), comments=True), ";"]:
        if word in BETWEEN:
            if words:
                yield words
            words = []
        elif words or not re.match(r"[A-Z_]+=", word):
            words.append(word)

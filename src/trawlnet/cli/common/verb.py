"""A verb: a function, an example, its possible exit codes, and the source of its flags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import typer
from pydantic import BaseModel

from trawlnet.cli.common.errors import EXITS, Exit
from trawlnet.cli.common.flags import variables, with_flags

# The exit codes of each kind of verb. Every list begins with the codes that all verbs share.
_ANY = (Exit.DONE, Exit.ERROR, Exit.USAGE)
PLAIN = _ANY
SERVES = (*_ANY, Exit.INTERRUPTED)
READS = (*_ANY, Exit.NO_WORKSPACE, Exit.UNREACHABLE)
WRITES = (*READS, Exit.IN_USE)
RUNS = (*WRITES, Exit.GIVEN_UP, Exit.INTERRUPTED)
CRAWLS = (*RUNS, Exit.LIMIT)


@dataclass(frozen=True, slots=True)
class Verb:
    run: Callable[..., int]
    example: str  # The words to type after `trawlnet`.
    exits: tuple[Exit, ...] = PLAIN
    crawler: str = ""  # Whose TRAWLNET_<CRAWLER>_<FLAG> variables set its flags, too.
    config: type[BaseModel] | None = None
    keys: Iterable[str] = ()  # Of the config: a flag for each, which `run` gets as `flags`.
    spellings: Mapping[str, str] = field(default_factory=dict)  # Key -> another flag for it.
    hidden: tuple[str, ...] = ()  # Keys whose flags are accepted and not listed.

    def command(self, name: str) -> Any:
        """The command as typer runs it."""
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        run = self.run
        if self.config is not None:
            run = with_flags(self.config, self.keys, run, self.spellings, self.hidden)
        settings = variables(self.crawler) if self.crawler else None
        app.command(name, epilog=self.epilog, context_settings=settings)(run)
        return typer.main.get_command(app)

    @property
    def epilog(self) -> str:
        codes = "\n".join(f"  {code:<4} {EXITS[code]}" for code in sorted(self.exits))
        return f"Example: trawlnet {self.example}\n\n\b\nExit codes:\n{codes}"

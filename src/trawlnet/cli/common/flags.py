"""Flags: the ones every verb shares, and one for each key of a crawler's config."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.cli.common.output import size
from trawlnet.cli.common.settings import flag_of, is_list, suggestion
from trawlnet.crawlers.units import parse_duration, parse_size
from trawlnet.engine.outcome import Reason


def default_workspace() -> Path:
    return Path(os.environ.get("TRAWLNET_WORKSPACE") or "workspace")


def flag(spelling: str, text: str, **more: Any) -> Any:
    """An option, spelt as its help shows it: `-o, --output FILE`."""
    *others, last = spelling.split(", ")
    name, _, metavar = last.partition(" ")
    more = {"metavar": metavar or None, "help": text, "show_envvar": False, **more}
    return typer.Option(*others, name, **more)


def argument(metavar: str, text: str, **more: Any) -> Any:
    return typer.Argument(metavar=metavar, help=text, show_default=False, **more)


# A variable can stand for each of them: see `variables`.
Folder = Annotated[
    Path,
    flag(
        "-w, --workspace DIR",
        "Directory with config, state and output [./workspace].",
        default_factory=default_workspace,
        show_default=False,
    ),
]
Json = Annotated[bool, flag("--json", "Print JSON instead of text.")]
Why = Annotated[str | None, flag("--reason R", "Only this reason, like timeout.")]
Most = Annotated[int | None, flag("--limit N", "Print at most N rows.", min=1)]
Board = Annotated[
    str,
    flag(
        "--dashboard [HOST]:PORT",
        "Serve the dashboard on this address while the crawl runs.",
        show_default=False,
    ),
]
Yes = Annotated[bool, flag("--yes", "Do not ask for confirmation.")]


def variables(crawler: str) -> dict[str, Any]:
    """Context settings that let each flag of a verb be set by a variable, too."""
    return {"auto_envvar_prefix": f"TRAWLNET_{crawler.upper()}"}


def parse_reason(word: str | None) -> Reason | None:
    if word is None:
        return None
    if word not in set(Reason):
        raise UsageTrouble(f"unknown reason {word}", suggestion(word, list(Reason), "reasons"))
    return Reason(word)


def with_flags(
    model: type[BaseModel],
    keys: Iterable[str],
    command: Callable[..., int],
    spellings: Mapping[str, str] = MappingProxyType({}),
    hidden: Collection[str] = (),
) -> Callable[..., int]:
    """The command with one flag for each of these config keys, or two where there is another
    spelling; it gets them as `flags`."""
    keys = list(keys)

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> int:
        flags = {key: _value(arguments.pop(key)) for key in keys}
        return command(flags=flags, **arguments)

    own = inspect.signature(command, eval_str=True).parameters.values()
    shared = [one for one in own if one.name != "flags"]
    parameters = [
        *shared,
        *(_parameter(model, key, spellings.get(key), key in hidden) for key in keys),
    ]
    # typer reads the flags from these two.
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapped


def _value(value: Any) -> Any:
    """typer passes an absent list flag as an empty list."""
    return None if value == [] or value == () else value


def _parameter(
    model: type[BaseModel], key: str, spelling: str | None, hidden: bool
) -> inspect.Parameter:
    field = model.model_fields[key]
    many, switch = is_list(model, key), field.annotation is bool
    option = typer.Option(
        *filter(None, (spelling, flag_of(key))),
        help=_help(field, many),
        metavar=None if switch else metavar_of(model, key),
        show_default=False,
        hidden=hidden,
        allow_from_autoenv=False,  # The config reads its variables itself, to know the source.
    )
    # Values stay text here: the config checks them once, wherever they come from.
    kind = list[str] | None if many else bool | None if switch else str | None
    return inspect.Parameter(
        key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
    )


def metavar_of(model: type[BaseModel], key: str) -> str:
    """The type of a key's value, in one word."""
    field = model.model_fields[key]
    kinds = set(get_args(field.annotation)) or {field.annotation}
    for validator, name in ((parse_size, "SIZE"), (parse_duration, "TIME")):
        if _uses(field, validator):
            return name
    if bool in kinds:
        return "SWITCH"
    return "N" if int in kinds else "X" if float in kinds else "TEXT"


def _uses(field: FieldInfo, validator: Callable[..., Any]) -> bool:
    """Also when the key may be left out: then the validator is on one side of a union."""
    sides = [
        one for side in get_args(field.annotation) for one in getattr(side, "__metadata__", ())
    ]
    return any(getattr(one, "func", None) is validator for one in [*field.metadata, *sides])


def _help(field: FieldInfo, many: bool) -> str:
    text = (field.description or "").rstrip(".")
    if many:
        return f"{text}; may be repeated."
    default = default_of(field)
    return f"{text} [{default}]." if default else f"{text}."


def default_of(field: FieldInfo) -> str:
    """The default as one would type it; empty when there is none."""
    default = field.get_default(call_default_factory=True)
    if default in (None, "", (), False, {}):
        return ""
    if _uses(field, parse_size):
        return size(default).replace(".0 ", "").replace(" ", "")
    return f"{default:.12g}" if isinstance(default, float) else str(default)

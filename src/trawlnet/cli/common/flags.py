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


# A variable can stand for each of them: see `variables`.
Folder = Annotated[
    Path,
    typer.Option(
        "-w",
        "--workspace",
        metavar="DIR",
        default_factory=default_workspace,
        show_default=False,
        show_envvar=False,
        help="Directory with config, state and output [./workspace].",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", show_envvar=False, help="Print JSON instead of text.")
]
Why = Annotated[
    str | None,
    typer.Option(
        "--reason", metavar="R", show_envvar=False, help="Only this reason, like timeout."
    ),
]
Most = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, show_envvar=False, help="Print at most N rows."),
]
Board = Annotated[
    str,
    typer.Option(
        "--dashboard",
        metavar="[HOST]:PORT",
        show_default=False,
        show_envvar=False,
        help="Serve the dashboard on this address while the crawl runs.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", show_envvar=False, help="Do not ask for confirmation.")]


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
    def wrapped(**given: Any) -> int:
        flags = {key: _value(given.pop(key)) for key in keys}
        return command(flags=flags, **given)

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


def _value(given: Any) -> Any:
    """A list flag that was not given comes as an empty list."""
    return None if given == [] or given == () else given


def _parameter(
    model: type[BaseModel], key: str, spelling: str | None, hidden: bool
) -> inspect.Parameter:
    field = model.model_fields[key]
    many, switch = is_list(model, key), field.annotation is bool
    option = typer.Option(
        *filter(None, (flag_of(key), spelling)),
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
    """What kind of value a key takes, in one word."""
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

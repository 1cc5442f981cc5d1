"""The effective config of one crawler: defaults, trawlnet.yaml, variables, flags, in that order."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.cli.common.output import say
from trawlnet.cli.common.workspace import shown
from trawlnet.loading import load
from trawlnet.net.redact import redacted

C = TypeVar("C", bound=BaseModel)

DEFAULT = "default"
# Flags that are no config keys, yet have a variable too.
PLAIN_FLAGS = ("workspace", "json", "reason", "limit", "yes")
_OWN_FLAGS = {
    "repos": ("follow", "input_dir", "truncate"),
    "ids": ("drain",),
    "pds": (
        *("did", "status", "source", "contains", "host", "port", "service_did", "behind_proxy"),
        *("registrations_per_minute", "hosts_per_hour", "visits_per_minute"),
    ),
}
_SHARED = ("clickhouse_",)
_FOR_ALL = ("webhook", "webhook_shape")  # TRAWLNET_<KEY> sets these for every crawler.


@dataclass(frozen=True, slots=True)
class Settings(Generic[C]):
    config: C
    sources: Mapping[str, str]  # Per key: `default`, the file, the variable or the flag.


@dataclass(frozen=True, slots=True)
class _SourcedValue:
    value: Any
    source: str
    path: str  # The key as the source spells it.


def load_settings(
    crawler: str,
    model: type[C],
    config_file: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    sections: Iterable[str],
    read_elsewhere: Collection[str] = (),
) -> Settings[C]:
    """`read_elsewhere` names known variables that other code reads."""
    values = _without_aliases(crawler, _from_file(crawler, model, config_file, sections))
    variables = _from_variables(crawler, model, environ, read_elsewhere)
    values |= _without_aliases(crawler, variables)
    values |= _without_aliases(crawler, _from_flags(flags))
    for key, one in values.items():
        _refuse_a_switch(model, key, one)
    try:
        config = model.model_validate({key: one.value for key, one in values.items()})
    except ValidationError as error:
        raise _wrong_value(first_of(error), values, crawler, model) from None
    return Settings(config, _sources(model, values))


_POSTGRES = ("postgresql://", "postgres://")


def _without_aliases(crawler: str, values: dict[str, _SourcedValue]) -> dict[str, _SourcedValue]:
    """One layer of settings, with the address of Redis under both of its names, so that a flag
    overrides the file in either spelling. In `web`, `store` is a section of its own."""
    if crawler == "web":
        return values
    store = values.get("store")
    # Before the key `postgres` existed, `store` named the PostgreSQL server of ids, too.
    if store is not None and crawler == "ids" and str(store.value).startswith(_POSTGRES):
        _name_new_spelling(store.path)
        rest = {key: one for key, one in values.items() if key != "store"}
        return {"postgres": store} | rest
    redis = values.get("redis_address", store)
    return values if redis is None else {**values, "store": redis, "redis_address": redis}


@functools.cache
def _name_new_spelling(old: str) -> None:
    """Print the new spelling once, even if a command reads its config several times."""
    name = "store" if "store" in old else "STORE"
    before, _, after = old.rpartition(name)
    new = before + ("postgres" if name.islower() else "POSTGRES") + after
    say(f"{old} is for Redis; name a PostgreSQL server by {new} (the old spelling still works)")


def flag_of(key: str) -> str:
    return "--" + key.replace("_", "-")


def variable_of(crawler: str, key: str) -> str:
    return f"TRAWLNET_{crawler}_{key}".upper()


def is_list(model: type[BaseModel], key: str) -> bool:
    return get_origin(model.model_fields[key].annotation) in (tuple, list)


def suggestion(word: str, known: Iterable[str], label: str, prefix: str = "") -> str:
    """A hint for a word that is not in a closed set."""
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {prefix}{close[0]}?" if close else f"{label}: {', '.join(known)}"


def _sources(model: type[BaseModel], values: Mapping[str, _SourcedValue]) -> Mapping[str, str]:
    return {key: values[key].source if key in values else DEFAULT for key in model.model_fields}


def _from_file(
    crawler: str, model: type[BaseModel], path: Path, sections: Iterable[str]
) -> dict[str, _SourcedValue]:
    if not path.exists():
        return {}

    # Slow to import, so imported only when there is a file.
    read_yaml = load("trawlnet.cli.common.yaml_text:read_yaml")
    document = _mapping(read_yaml(path), path, "the file")
    _refuse_unknown(document, sections, path, "")
    section = _mapping(document.get(crawler), path, crawler)
    _refuse_unknown(section, model.model_fields, path, f"{crawler}.")
    source = shown(path)
    # An empty key (`relay:`) counts as absent.
    return {
        key: _SourcedValue(value, source, f"{source}: {crawler}.{key}")
        for key, value in section.items()
        if value is not None
    }


def _from_flags(flags: Mapping[str, Any]) -> dict[str, _SourcedValue]:
    return {
        key: _SourcedValue(value, flag_of(key), flag_of(key))
        for key, value in flags.items()
        if value is not None
    }


def _mapping(value: Any, path: Path, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageTrouble(
            f"{shown(path)}: {name} must be keys with values, got {quoted(value)}",
            "write keys as `workers: 50`, indented under their section",
        )
    return {str(key): item for key, item in value.items()}


def _refuse_unknown(values: Iterable[str], known: Iterable[str], path: Path, under: str) -> None:
    known = list(known)
    for key in values:
        if key not in known:
            raise UsageTrouble(
                f"{shown(path)}: unknown key {under}{key}",
                suggestion(key, known, "known keys", under),
            )


def _from_variables(
    crawler: str,
    model: type[BaseModel],
    environ: Mapping[str, str],
    read_elsewhere: Collection[str],
) -> dict[str, _SourcedValue]:
    keys = {variable_of(crawler, key): key for key in model.model_fields}
    # Customary variables of other programs count, too; ours override them.
    keys |= {key.upper(): key for key in model.model_fields if key.startswith(_SHARED)}
    keys |= {f"TRAWLNET_{key}".upper(): key for key in _FOR_ALL if key in model.model_fields}
    # A secret belongs in a file: every child process can read the variables.
    files = {f"{name}_FILE": key for name, key in keys.items() if f"{name}_FILE" not in keys}
    others = [variable_of(crawler, flag) for flag in (*PLAIN_FLAGS, *_OWN_FLAGS.get(crawler, ()))]
    stem = variable_of(crawler, "")
    values: dict[str, _SourcedValue] = {}
    # A crawler's own variable overrides the general one, and a value overrides a file.
    for name in sorted(environ, key=lambda name: (name.startswith(stem), name not in files, name)):
        if key := keys.get(name) or files.get(name):
            text = environ[name] if name in keys else _read_secret(name, environ[name])
            value = [one for one in text.split(",") if one] if is_list(model, key) else text
            values[key] = _SourcedValue(value, name, name)
        elif name.startswith(stem) and name not in others:
            every = sorted({*keys, *read_elsewhere}) if read_elsewhere else keys
            words = [known.removeprefix(stem) for known in every if known.startswith(stem)]
            hint = suggestion(name.removeprefix(stem), words, f"known after {stem}", stem)
            raise UsageTrouble(f"unknown variable {name}", hint)
    return values


def _read_secret(variable: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        words = getattr(error, "strerror", None) or "not a text"
        hint = "it names a file whose text is the value"
        raise UsageTrouble(f"{variable}: {path}: {words}", hint) from None


def _wrong_value(
    error: ErrorDetails, values: Mapping[str, _SourcedValue], crawler: str, model: type[BaseModel]
) -> UsageTrouble:
    key, *inner = (str(part) for part in error["loc"] or ("",))
    source = values[key].path if key in values else f"{crawler}.{key}"
    where = ".".join([source, *inner])
    if error["type"] == "extra_forbidden":
        known = keys_under(model, [key, *inner[:-1]])
        return UsageTrouble(f"{where}: no such key", suggestion(inner[-1], known, "known keys"))
    return UsageTrouble(
        f"{where}: expected {expected(error)}, got {quoted(error['input'], where)}",
        f"see every key with: trawlnet {crawler} crawl --help",
    )


def first_of(error: ValidationError) -> ErrorDetails:
    """The error to report: prefer a misspelt key to the missing key that it may have caused."""
    found = error.errors()
    return next((one for one in found if one["type"] == "extra_forbidden"), found[0])


def keys_under(model: type[BaseModel], path: list[str]) -> list[str]:
    """The keys of a section within a section; numbers of list items are passed over."""
    for key in path:
        if key in model.model_fields:
            annotation = model.model_fields[key].annotation
            kinds = [annotation, *get_args(annotation)]
            model = next(
                (k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)), model
            )
    return list(model.model_fields)


def _refuse_a_switch(model: type[BaseModel], key: str, one: _SourcedValue) -> None:
    """Refuse `workers: yes`, which YAML reads as true and pydantic as 1."""
    if isinstance(one.value, bool) and model.model_fields[key].annotation is not bool:
        raise UsageTrouble(
            f"{one.path}: expected a value, got {one.value}",
            "put text that YAML would read as true or false in quotes",
        )


def expected(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    match error["type"].split("_"):
        case ["int", *_]:
            return "a whole number"
        case ["float", *_] | ["finite", *_]:
            return "a number"
        case ["bool", *_]:
            return "true or false"
        case ["string", *_]:
            return "text"
        case ["tuple" | "list", *_]:
            return "a list"
        case ["greater", "than", "equal"]:
            return f"at least {context['ge']}"
        case ["greater", "than"]:
            return f"more than {context['gt']}"
        case ["less", "than", "equal"]:
            return f"at most {context['le']}"
        case ["model" | "dict", *_]:
            return "keys with values"
        case ["missing"]:
            return "a value for this key"
        case ["value", "error"]:
            return str(context["error"])
        case _:
            return error["msg"].removeprefix("Input should be ")


def quoted(value: Any, name: str = "") -> str:
    """The value, shortened to one line, with secrets redacted."""
    text = repr(redacted(value, name))
    return text if len(text) <= 60 else text[:57] + "..."

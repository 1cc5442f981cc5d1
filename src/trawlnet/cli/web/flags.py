"""The effective config of `trawlnet web`: flags stand for keys, `--set` reaches every key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.settings import (
    Settings,
    expected,
    first_of,
    flag_of,
    is_list,
    keys_under,
    quoted,
    suggestion,
    variable_of,
)
from trawlnet.cli.common.workspace import Workspace
from trawlnet.cli.web.keys import PLACES, WebFlags
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.presets import beneath
from trawlnet.loading import load


def load_web(path: Path, flags: Mapping[str, Any]) -> Settings[WebConfig]:
    """The effective config: the file, then variables, then flags; sections are merged."""
    settings = load_section(Workspace(path, "web"), WebConfig)
    values = _nested({**_from_variables(), **_present(flags)})
    if not values:
        return settings
    below = settings.config.model_dump(exclude_unset=True)
    try:
        return Settings(WebConfig.model_validate(beneath(below, values)), settings.sources)
    except ValidationError as error:
        raise _wrong(error) from None


def _from_variables() -> dict[str, Any]:
    found = {}
    for key in WebFlags.model_fields:
        text = os.environ.get(variable_of("web", key))
        if text is not None:
            found[key] = text.split(",") if is_list(WebFlags, key) else text
    return found


def _present(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flags.items() if value is not None}


def _nested(flags: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in flags.items():
        if key != "set":
            found = beneath(found, _at(PLACES[key], value))
    for pair in flags.get("set", ()):
        place, equals, text = pair.partition("=")
        if not equals or not place.strip():
            raise UsageTrouble(f"--set {pair}: expected KEY=VALUE", "--set limits.max_retries=5")
        found = beneath(found, _at(place.strip(), _value(pair, text)))
    return found


def _at(place: str, value: Any) -> dict[str, Any]:
    for name in reversed(place.split(".")):
        value = {name: value}
    return dict(value)


def _value(pair: str, text: str) -> Any:
    try:
        return load("trawlnet.cli.common.yaml_text:read_value")(
            text
        )  # Slow to import: only --set pays.
    except ValueError:
        raise UsageTrouble(f"--set {pair}: not YAML", "put the value in quotes") from None


def _wrong(error: ValidationError) -> UsageTrouble:
    first = first_of(error)
    path = [str(part) for part in first["loc"]]
    place = ".".join(path)
    flag = next((flag_of(key) for key, where in PLACES.items() if where == place), "--set")
    if first["type"] == "extra_forbidden":
        under = "".join(f"{part}." for part in path[:-1])
        known = keys_under(WebConfig, path[:-1])
        hint = suggestion(path[-1], known, "known keys", under)
        return UsageTrouble(f"{flag} {place}: no such key", hint)
    return UsageTrouble(
        f"{place} ({flag}): expected {expected(first)}, got {quoted(first['input'], place)}",
        "see every key with: trawlnet config web",
    )

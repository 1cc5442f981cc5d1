"""The configured API: a preset, with the overrides of the config."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.ids.api.api import Api
from trawlnet.crawlers.ids.api.json_preset import plain_api
from trawlnet.crawlers.ids.api.pgcr_preset import PGCR
from trawlnet.crawlers.ids.config import IdsConfig, PresetName

_NONE = "none"  # Switches off a part of the preset that this API does not have.
_EXAMPLE = "--base-url https://www.bungie.net"


def api_of(config: IdsConfig) -> Api:
    """Raises NotReady."""
    keyed = config.key_variable not in ("", _NONE)
    plain = plain_api(config.time_key, config.wanted, keyed=keyed)
    api = PGCR if config.preset is PresetName.PGCR else plain
    path = config.path or api.path
    if not path.startswith("/") or path.count("{id}") != 1 or "{" in path.replace("{id}", ""):
        raise NotReady(f"{path!r} is not the path of an id", "write it like --path /item/{id}.json")
    return replace(
        api,
        path=path,
        anchor="" if config.anchor == _NONE else config.anchor or api.anchor,
        key_variable=""
        if config.key_variable == _NONE
        else config.key_variable or api.key_variable,
    )


def needs_key(config: IdsConfig) -> bool:
    """A private address, or the user's own proxy, needs no key of the preset; but it needs one that
    the config names."""
    return not config.allow_private_hosts or config.key_variable not in ("", _NONE)


def base_of(config: IdsConfig) -> str:
    """The URL of the server, without a slash at its end. Raises NotReady."""
    if not config.base_url:
        raise NotReady("no API is named", f"name the URL of its server: {_EXAMPLE}")
    parts = urlsplit(config.base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise NotReady(f"{config.base_url!r} is not the URL of a server", f"write it: {_EXAMPLE}")
    return config.base_url.rstrip("/")

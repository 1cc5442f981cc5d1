"""The sections of trawlnet.yaml: one for each crawler."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from trawlnet.cli.common.settings import C, Settings, load_settings
from trawlnet.cli.common.workspace import Workspace
from trawlnet.cli.web.keys import VARIABLES
from trawlnet.loading import load
from trawlnet.storage.workspace_format import check_format

_MODELS = {"repos": "ReposConfig", "pds": "PdsConfig", "ids": "IdsConfig", "web": "WebConfig"}


class _Sections(Mapping[str, type[BaseModel]]):
    """Imports the config model of a crawler on first use: a command needs only its own."""

    def __getitem__(self, name: str) -> type[BaseModel]:
        model: type[BaseModel] = load(f"trawlnet.crawlers.{name}.config:{_MODELS[name]}")
        return model

    def __iter__(self) -> Iterator[str]:
        return iter(_MODELS)

    def __len__(self) -> int:
        return len(_MODELS)

    def __contains__(self, name: object) -> bool:
        return name in _MODELS


SECTIONS = _Sections()


def load_section(
    workspace: Workspace, model: type[C], flags: Mapping[str, Any] | None = None
) -> Settings[C]:
    """Read the effective config of the workspace's crawler. Raises UnknownFormat before any of it
    is read: what a newer version wrote there could only be mistaken for mistakes."""
    check_format(workspace.state)
    crawler = workspace.crawler
    return load_settings(
        crawler,
        model,
        workspace.config_file,
        _variables(crawler),
        flags or {},
        list(SECTIONS),
        VARIABLES if crawler == "web" else (),
    )


def _variables(crawler: str) -> Mapping[str, str]:
    """The variables of the crawler, without those of flags that stand for a nested key: the code
    of the flag reads those."""
    if crawler != "web":
        return os.environ

    return {name: value for name, value in os.environ.items() if name not in VARIABLES}

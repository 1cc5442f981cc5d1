"""The sections that trawlnet.yaml may have: one for each crawler there is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from trawlnet.cli.settings import C, Settings, load
from trawlnet.cli.workspace import Workspace
from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.web.config import WebConfig

SECTIONS: Mapping[str, type[BaseModel]] = {
    "repos": ReposConfig,
    "pds": PdsConfig,
    "ids": IdsConfig,
    "web": WebConfig,
}


def load_section(
    workspace: Workspace, model: type[C], flags: Mapping[str, Any] | None = None
) -> Settings[C]:
    """The effective config of the workspace's crawler, read now."""
    environ = _variables(workspace.crawler)
    return load(
        workspace.crawler, model, workspace.config_file, environ, flags or {}, list(SECTIONS)
    )


def _variables(crawler: str) -> Mapping[str, str]:
    """Without those of flags that stand for a key within a section: who has the flag reads them."""
    if crawler != "web":
        return os.environ
    from trawlnet.cli.web_flags import VARIABLES

    return {name: value for name, value in os.environ.items() if name not in VARIABLES}

"""Settings for single sites, in the form of trawlnet.yaml; the user's settings override them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# First segments of github.com that are not the names of owners.
_NOT_OWNERS = (
    "about|account|apps|blog|codespaces|collections|contact|copilot|customer-stories|dashboard|"
    "enterprise|events|explore|features|gist|issues|join|login|logout|marketplace|mobile|new|"
    "notifications|orgs|organizations|pricing|pulls|readme|resources|search|security|sessions|"
    "settings|signup|site|solutions|sponsors|stars|team|topics|trending|users"
)
_REPO = rf"^https://github\.com/(?!(?:{_NOT_OWNERS})(?:[/?]|$))([^/?]+/[^/?]+)"

GITHUB: Mapping[str, Any] = {
    "scope": {
        "allowed_hosts": ["github.com"],
        "allow_patterns": [
            r"^https://github\.com/topics(?:[/?]|$)",
            r"^https://github\.com/trending(?:[/?]|$)",
            _REPO,
        ],
        "deny_patterns": [
            r"\.(?:zip|tar\.gz|tgz|exe|dmg|deb|rpm|apk|jar|whl)(?:$|\?)",
            r"^https://github\.com/[^/]+/[^/]+/(?:archive|zipball|tarball|raw|edit|delete|new)/",
            r"^https://github\.com/[^/]+/[^/]+/(?:stargazers|watchers|network|forks|fork)\b",
        ],
    },
    "page_types": [
        {"name": "topic", "pattern": r"^https://github\.com/topics(?:[/?]|$)", "priority": 10},
        {"name": "trending", "pattern": r"^https://github\.com/trending(?:[/?]|$)", "priority": 0},
        {"name": "repo_root", "pattern": _REPO + r"/?(?:\?|$)", "priority": 20},
        {"name": "blob", "pattern": _REPO + r"/blob/", "priority": 40},
        {"name": "issues", "pattern": _REPO + r"/issues(?:[/?]|$)", "priority": 50},
        {"name": "pull", "pattern": _REPO + r"/pulls?(?:[/?]|$)", "priority": 50},
    ],
    "caps": {"repo_pattern": _REPO},
    "frontier": {"default_priority": 60},
    "urls": {
        "rewrites": [
            {
                "pattern": r"/(blob|tree|raw|blame|commits)/master(?=[/?]|$)",
                "replacement": r"/\1/main",
            }
        ]
    },
}

PRESETS: Mapping[str, Mapping[str, Any]] = {"github": GITHUB}


def beneath(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two configs; the upper one overrides, and only mappings are merged."""
    merged = {**lower, **upper}
    for key in lower.keys() & upper.keys():
        low, up = lower[key], upper[key]
        if isinstance(low, Mapping) and isinstance(up, Mapping):
            merged[key] = beneath(low, up)
        elif up is None:
            merged[key] = low
    return merged

"""Reads YAML from files and flags, and writes values as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.cli.common.workspace import shown


def read_yaml(path: Path) -> Any:
    try:
        return yaml.load(path.read_bytes(), Loader=_StrictLoader)  # noqa: S506 - a SafeLoader.
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = f"{shown(path)}{line}: {error.problem or 'not YAML'}"
    except (yaml.YAMLError, ValueError) as error:  # The latter for a month 13.
        problem = f"{shown(path)}: {str(error).splitlines()[0]}"
    raise UsageTrouble(problem, "write keys as `workers: 50`, indented under their section")


def read_value(text: str) -> Any:
    """Parse one value; raises ValueError."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError("not YAML") from error


def written(value: Any) -> str:
    """One value on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000)
    return text.removesuffix("\n").removesuffix("\n...")


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that occurs twice, where YAML would silently take the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                problem = f"the key {key.value} is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value if isinstance(key.value, str) else "")
        return super().construct_mapping(node, deep)

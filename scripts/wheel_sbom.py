"""What is in a release, as CycloneDX: our files, and the code of others that is inside them."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Sequence
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Protocol


class Component(Protocol):
    """Code of others that is compiled in."""

    name: str
    version: str
    sha256: str

    @property
    def purl(self) -> str: ...  # Of the package whose source distribution holds it.


def write_sbom(folder: Path, inside: Component, made: Sequence[Path]) -> Path:
    """Beside the files `made`. What pip installs with them is named without a version: that is
    chosen when it is installed."""
    about = metadata(next(path for path in made if path.suffix == ".whl"))
    name, version = about["Name"], about["Version"]
    ours = f"pkg:pypi/{name}@{version}"
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": name,
                "version": version,
                "purl": ours,
                "licenses": [{"license": {"id": about["License-Expression"]}}],
                "components": [_file(path) for path in sorted(made)],
            }
        },
        "components": [_linked(inside), *map(_needed, needed(about))],
        "dependencies": [
            {"ref": ours, "dependsOn": [inside.name, *(f"pkg:pypi/{n}" for n in needed(about))]}
        ],
    }
    path = folder / f"{name}-{version}.cdx.json"
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return path


def metadata(wheel: Path) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        return HeaderParser().parsestr(archive.read(name).decode())


def needed(about: Any) -> list[str]:
    """The names of what is installed without any extra."""
    lines = [line for line in about.get_all("Requires-Dist", []) if "extra ==" not in line]
    return sorted({"".join(_leading(line)).lower() for line in lines})


def _leading(line: str) -> str:
    ends = [place for place, c in enumerate(line) if not (c.isalnum() or c in "-._")]
    return line[: ends[0]] if ends else line


def _file(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {
        "type": "file",
        "name": path.name,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def _linked(one: Component) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": one.name,
        "name": one.name,
        "version": one.version,
        "licenses": [{"license": {"id": "BSD-3-Clause"}}],
        "externalReferences": [
            {
                "type": "source-distribution",
                "url": one.purl,
                "hashes": [{"alg": "SHA-256", "content": one.sha256}],
            }
        ],
    }


def _needed(name: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}",
        "name": name,
        "purl": f"pkg:pypi/{name}",
    }

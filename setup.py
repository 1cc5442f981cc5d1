"""Builds the optional C accelerator; everything else about the package is in pyproject.toml."""

import os
from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("src/trawlnet/native")
# The folders of each extension's sources.
EXTENSIONS = {"_repo": ("repo", "json", "hash"), "_page": ("page",)}

# CI sets TRAWLNET_NATIVE=require, so that a broken build fails there instead of falling back.
REQUIRED = os.environ.get("TRAWLNET_NATIVE") == "require"

FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"]
SANITIZERS = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
    "-O1",
]
SANITIZE = SANITIZERS if os.environ.get("TRAWLNET_SANITIZE") == "1" else []
PORTABLE = ["-DTRAWLNET_PORTABLE"] if os.environ.get("TRAWLNET_PORTABLE") == "1" else []


def extension(name: str, folders: tuple[str, ...]) -> Extension:
    return Extension(
        f"trawlnet.native.{name}",
        sources=sorted(str(path) for folder in folders for path in (NATIVE / folder).glob("*.c")),
        depends=sorted(str(path) for path in NATIVE.rglob("*.h")),
        include_dirs=[str(NATIVE / folder) for folder in folders],
        extra_compile_args=FLAGS + SANITIZE + PORTABLE,
        extra_link_args=SANITIZE,
        optional=not REQUIRED,
    )


WANTED = os.environ.get("TRAWLNET_NATIVE") != "0"
setup(ext_modules=[extension(*one) for one in EXTENSIONS.items()] if WANTED else [])

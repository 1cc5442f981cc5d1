"""Builds the optional C accelerator; everything else about the package is in pyproject.toml."""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

NATIVE = Path("src/trawlnet/native")
# The folders of each extension's sources.
EXTENSIONS = {"_repo": ("repo", "json", "hash", "live", "plc"), "_page": ("page",)}
NEEDS_ZSTD = "pack"  # One more folder of _repo, where zstd can be linked.

# CI sets TRAWLNET_NATIVE=require, so that a broken build fails there instead of falling back.
REQUIRED = os.environ.get("TRAWLNET_NATIVE") == "require"
# A folder with zstd.h and libzstd.a, to be linked in; else the system's shared library is. 0: none.
ZSTD = os.environ.get("TRAWLNET_ZSTD")

# One build serves this Python and every later one.
LIMITED_API = "0x030B0000"

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
        sources=sources(*folders),
        depends=sorted(str(path) for path in NATIVE.rglob("*.h")),
        include_dirs=[str(NATIVE / folder) for folder in folders],
        define_macros=[("Py_LIMITED_API", LIMITED_API)],
        py_limited_api=True,
        extra_compile_args=FLAGS + SANITIZE + PORTABLE,
        extra_link_args=list(SANITIZE),
        optional=not REQUIRED,
    )


def sources(*folders: str) -> list[str]:
    return sorted(str(path) for folder in folders for path in (NATIVE / folder).glob("*.c"))


class BuildExtensions(build_ext):
    """With zstd where it is found."""

    def build_extension(self, ext: Extension) -> None:
        if ext.name.endswith("._repo"):
            if self.finds_zstd():
                link_zstd(ext)
            elif REQUIRED:
                raise CompileError("zstd.h or libzstd is missing; hint: apt install libzstd-dev")
            else:
                sys.stderr.write(
                    "warning: built without zstd: blocks are packed in plain Python, more slowly; "
                    "hint: apt install libzstd-dev, then install again\n"
                )
        super().build_extension(ext)

    def finds_zstd(self) -> bool:
        if ZSTD:
            return ZSTD != "0"
        folder = Path(self.build_temp).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        trial = folder / "finds_zstd.c"
        trial.write_text("#include <zstd.h>\nint main(void) { return !ZSTD_versionNumber(); }\n")
        try:
            built = self.compiler.compile([str(trial)], output_dir="/")  # Beside its source.
            self.compiler.link_executable(built, str(folder / "finds_zstd"), libraries=["zstd"])
        except (CompileError, LinkError):
            return False
        return True


def link_zstd(ext: Extension) -> None:
    ext.sources += sources(NEEDS_ZSTD)
    ext.include_dirs.append(str(NATIVE / NEEDS_ZSTD))
    ext.define_macros.append(("TRAWLNET_ZSTD", "1"))
    if ZSTD:
        ext.include_dirs.append(ZSTD)
        ext.extra_objects.append(str(Path(ZSTD) / "libzstd.a"))
    else:
        ext.libraries.append("zstd")


WANTED = os.environ.get("TRAWLNET_NATIVE") != "0"
setup(
    ext_modules=[extension(*one) for one in EXTENSIONS.items()] if WANTED else [],
    cmdclass={"build_ext": BuildExtensions},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)

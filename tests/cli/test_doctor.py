"""What the machine has and lacks."""

from __future__ import annotations

import errno
import os
import tomllib
from pathlib import Path

import pytest

from tests.support.program import trawlnet
from trawlnet.cli.accelerators import ACCELERATORS, DoctorMark, accelerator_findings
from trawlnet.loading import EXTRAS
from trawlnet.native import loader, zstd

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_doctor_is_content_where_the_tests_run(tmp_path: Path) -> None:
    ran = trawlnet("doctor", "-w", tmp_path / "not" / "yet", "--json")
    findings = {row["what"]: row for row in ran.rows}
    assert ran.code == 0 and list(tmp_path.iterdir()) == []
    assert {"python", "native core", "lmdb", "file system", "free disk", "open files"} <= set(
        findings
    )
    assert findings["file system"]["mark"] == "ok"
    for row in ran.rows:
        assert set(row) == {"what", "mark", "detail", "hint"}
        assert row["mark"] == "ok" or row["hint"]


def test_doctor_knows_every_extra_that_can_be_installed() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert EXTRAS.keys() == extras.keys() - {"all", "dev", "docs"}


def test_what_is_missing_comes_with_what_to_type() -> None:
    ran = trawlnet("doctor", PATH="/nowhere")
    assert ran.code == 0 and "missing  redis-server" in ran.out
    assert "hint: apt install redis-server" in ran.out


def test_a_file_system_that_cannot_be_written_is_bad() -> None:
    ran = trawlnet("doctor", "-w", "/proc/net")
    assert ran.code == 1 and "bad      file system" in ran.out and "hint: choose a" in ran.out


def test_doctor_reports_every_accelerator() -> None:
    findings = {row["what"]: row for row in trawlnet("doctor", "--json").rows}
    assert {one.what for one in ACCELERATORS} <= findings.keys()
    if loader.has_zstd:
        assert findings["native zstd"]["detail"] == f"{zstd.ZSTD_VERSION}, linked"


def test_an_accelerator_that_is_absent_says_what_that_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loader, "native", None)
    monkeypatch.delenv("TRAWLNET_NATIVE", raising=False)
    findings = {one.what: one for one in accelerator_findings()}
    zstd_row = findings["native zstd"]
    assert zstd_row.mark is DoctorMark.MISSING
    assert "more CPU" in zstd_row.detail and "apt install libzstd-dev" in zstd_row.hint


def test_scheduling_that_the_c_library_only_names_is_absent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As musl does it."""

    def unimplemented(*args: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    for name in ("sched_getscheduler", "sched_setscheduler"):
        monkeypatch.setattr(os, name, unimplemented, raising=False)
    findings = {one.what: one for one in accelerator_findings()}
    assert findings["batch threads"].mark is DoctorMark.MISSING


def test_native_code_that_was_switched_off_is_not_blamed_on_a_library() -> None:
    rows = trawlnet("doctor", "--json", TRAWLNET_NATIVE="0").rows
    (native,) = [row for row in rows if row["what"].startswith("native")]
    assert "TRAWLNET_NATIVE=0" in native["detail"]

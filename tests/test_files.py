"""Files are complete or absent."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from blis_core.errors import BlisError
from blis_core.files import atomic_write


def test_writes_text_and_bytes(tmp_path: Path) -> None:
    target = tmp_path / "f"
    atomic_write(target, "ä\r\n")
    assert target.read_bytes() == b"\xc3\xa4\r\n"
    atomic_write(str(target), b"\x00")
    assert target.read_bytes() == b"\x00"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_permissions(tmp_path: Path) -> None:
    target = tmp_path / "f"
    old = os.umask(0o027)
    try:
        atomic_write(target, "a")
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        target.chmod(0o604)
        atomic_write(target, "b")
        assert stat.S_IMODE(target.stat().st_mode) == 0o604
    finally:
        os.umask(old)


def test_follows_links(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    atomic_write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "f"
    target.write_text("old")

    def full_disk(old: str, new: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(BlisError, match=r"cannot write .*f: No space left on device"):
        atomic_write(target, "new")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="needs a device file")
def test_devices_are_written_to_directly() -> None:
    atomic_write("/dev/null", "x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BlisError, match="Is a directory"):
        atomic_write(tmp_path, "x")

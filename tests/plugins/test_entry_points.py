"""Reading entry points without importlib.metadata must find what importlib.metadata finds."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import zipfile

import pytest

from blis_core.entry_points import EntryPoint, entry_points, normalise

GROUPS = ["blis", "console_scripts", "pytest11", "no.such.group"]


def standard(group):
    return {
        (point.name, point.value, normalise(point.dist.name), point.dist.version)
        for point in importlib.metadata.entry_points(group=group)
    }


def found(group):
    return {
        point._replace(distribution=normalise(point.distribution)) for point in entry_points(group)
    }


@pytest.mark.parametrize("group", GROUPS)
def test_same_as_the_standard_library(group):
    assert found(group) == standard(group)


def test_metadata_details(install):
    install(
        "Some.Thing",
        "1.0+local.2",
        entry_points="[other]\nx = y\n\n[blis]\n# note\na=m\n b = m:c.d [extra]\n\n[z]\nq = r\n",
    )
    mine = [point for point in entry_points("blis") if point.distribution == "Some.Thing"]
    assert mine == [
        EntryPoint("a", "m", "Some.Thing", "1.0+local.2"),
        EntryPoint("b", "m:c.d [extra]", "Some.Thing", "1.0+local.2"),
    ]
    assert found("blis") == standard("blis")


def test_the_first_on_the_path_wins(install, tmp_path, monkeypatch):
    install("blis-demo", "1.0")
    earlier = tmp_path / "earlier"
    (earlier / "Blis.Demo-2.0.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(earlier)
    assert not any(point.name == "blis-demo" for point in entry_points("blis"))


def test_egg_info_and_absent_headers(install):
    egg = install.site / "old_style-3.2-py3.11.egg-info"
    egg.mkdir()
    (egg / "entry_points.txt").write_text("[blis]\nold = old_module\n")
    assert EntryPoint("old", "old_module", "old_style", "3.2") in entry_points("blis")
    (egg / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: old-style\nVersion: 3.2.1\n")
    assert EntryPoint("old", "old_module", "old-style", "3.2.1") in entry_points("blis")


def test_zip_files_and_foreign_finders_are_left_to_the_standard_library(install, monkeypatch):
    archive = install.site / "bundle.zip"
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr(
            "zipped-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\nVersion: 1.0\n"
        )
        bundle.writestr("zipped-1.0.dist-info/entry_points.txt", "[blis]\nzipped = zipped_module\n")
    monkeypatch.syspath_prepend(str(archive))
    assert EntryPoint("zipped", "zipped_module", "zipped", "1.0") in entry_points("blis")
    assert found("blis") == standard("blis")


def test_damaged_metadata_harms_nobody_else(install):
    install("blis-demo")
    install("damaged", entry_points="[blis]\nno equals sign here\n")
    points = {point.name: point for point in entry_points("blis")}
    assert points["blis-demo"].value == "blis_demo"
    with pytest.raises(ValueError, match="malformed entry point"):
        points["no equals sign here"].load()


def test_unreadable_places_on_the_path(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path / "absent"), "", *sys.path])
    assert found("console_scripts") >= standard("console_scripts")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("os", os), ("os:path", os.path), ("os : path.join [extra]", os.path.join)],
)
def test_load(value, expected):
    assert EntryPoint("x", value, "d", "1").load() is expected

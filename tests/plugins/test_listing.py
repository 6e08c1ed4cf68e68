"""``--list-plugins``: the table for people and the JSON for machines."""

from __future__ import annotations

import json

from blis_core import plugin_listing
from blis_core.registry import Origin, Registry, make_extension


class Thing:
    """Something a factory can be."""


def sample():
    registry = Registry()
    origin = Origin("blis-demo", "blis-demo-dist", "1.2")
    registry.add(
        origin,
        [
            make_extension("scorer", origin, "one", "a.b:C", "first", {"limit": "a number"}, None),
            make_extension("scorer", origin, "two", Thing, "", None, "one"),
            make_extension("command", origin, "go", "a.b:go", "", None, None),
        ],
    )
    registry.reject(Origin("bad", "bad", "0.1"), "ImportError: no luck")
    registry.skip(Origin("off", "off", "3"))
    registry.add(Origin("mine.py"), [])
    return registry


def test_table():
    assert plugin_listing.as_table(sample()) == "\n".join(
        [
            "PLUGIN     VERSION  DISTRIBUTION    REGISTERS",
            "blis-demo  1.2      blis-demo-dist  scorer: one, two (deprecated: use one)",
            "                                    command: go",
            "bad        0.1      bad             BROKEN: ImportError: no luck",
            "off        3        off             disabled",
            "mine.py    -        (file)          nothing",
        ]
    )


def test_table_fits_a_terminal():
    lines = plugin_listing.as_table(sample(), width=70).splitlines()
    assert max(map(len, lines)) <= 70
    assert lines[1].endswith("scorer: one, two (deprecated: use")
    assert lines[2].strip() == "one)"


def test_json():
    listing = json.loads(plugin_listing.as_json(sample()))
    demo, bad, off, file = listing["plugins"]
    assert demo["plugin"] == "blis-demo"
    assert demo["distribution"] == "blis-demo-dist"
    assert demo["version"] == "1.2"
    assert demo["status"] == "ok"
    assert demo["extensions"][0] == {
        "kind": "scorer",
        "name": "one",
        "summary": "first",
        "options": {"limit": "a number"},
        "deprecated": None,
        "factory": "a.b:C",
    }
    assert demo["extensions"][1]["deprecated"] == "one"
    assert demo["extensions"][1]["factory"] == f"{Thing.__module__}:Thing"
    assert bad["status"] == "broken"
    assert bad["error"] == "ImportError: no luck"
    assert off["status"] == "disabled"
    assert off["extensions"] == []
    assert file["distribution"] is None

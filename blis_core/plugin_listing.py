"""What ``blis --list-plugins`` prints: every plugin found, what it registers, what is wrong."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from blis_core.registry import Extension, PluginRecord, Registry

_HEADINGS = ("PLUGIN", "VERSION", "DISTRIBUTION", "REGISTERS")


def as_json(registry: Registry) -> str:
    """One JSON document: ``{"plugins": [...]}`` in load order, for machines."""
    return json.dumps({"plugins": [_plugin(record) for record in registry.plugins]}, indent=2)


def as_table(registry: Registry, width: int | None = None) -> str:
    """A table for people; the last column is wrapped to ``width`` characters if given."""
    rows = [
        (origin.plugin, origin.version or "-", origin.distribution or "(file)", _contents(record))
        for record in registry.plugins
        for origin in [record.origin]
    ]
    widths = [max(len(row[i]) for row in (_HEADINGS, *rows)) for i in range(3)]
    indent = sum(widths) + 2 * len(widths)
    room = max(width - indent, 30) if width else 0
    lines = [_line(_HEADINGS[:3], widths) + _HEADINGS[3]]
    for *cells, contents in rows:
        texts = [part for text in contents for part in (_wrap(text, room) if room else [text])]
        lines.append(_line(cells, widths) + texts[0])
        lines += [" " * indent + text for text in texts[1:]]
    return "\n".join(lines)


def _plugin(record: PluginRecord) -> dict[str, Any]:
    origin = record.origin
    return {
        "plugin": origin.plugin,
        "distribution": origin.distribution or None,
        "version": origin.version or None,
        "status": record.status,
        "error": record.error or None,
        "extensions": [_extension(extension) for extension in record.extensions],
    }


def _extension(extension: Extension) -> dict[str, Any]:
    factory = extension.factory
    return {
        "kind": extension.kind,
        "name": extension.name,
        "summary": extension.summary,
        "options": dict(extension.options),
        "deprecated": extension.deprecated,
        "factory": factory if isinstance(factory, str) else _address(factory),
    }


def _address(factory: Any) -> str:
    name = getattr(factory, "__qualname__", None) or type(factory).__qualname__
    return f"{getattr(factory, '__module__', '?')}:{name}"


def _contents(record: PluginRecord) -> list[str]:
    """The last column: one text per kind, or what keeps the plugin out of use."""
    if record.status == "broken":
        return [f"BROKEN: {record.error}"]
    if record.status == "disabled":
        return ["disabled"]
    by_kind: dict[str, list[str]] = {}
    for extension in record.extensions:
        note = f" (deprecated: use {extension.deprecated})" if extension.deprecated else ""
        by_kind.setdefault(extension.kind, []).append(extension.name + note)
    return [f"{kind}: {', '.join(names)}" for kind, names in by_kind.items()] or ["nothing"]


def _line(cells: Any, widths: list[int]) -> str:
    return "".join(f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True))


def _wrap(text: str, room: int) -> list[str]:
    return textwrap.wrap(text, room, subsequent_indent="  ", break_on_hyphens=False)

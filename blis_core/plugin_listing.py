"""What ``blis --list-plugins`` prints: every plugin found, what it registers, what is wrong."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from blis_core.errors import BlisError
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


def details(registry: Registry, name: str) -> str:
    """Everything about the plugin, the distribution or the extensions called ``name``.

    Options of latency models are listed with their kind, default and range, for which the model is
    imported. BlisError if nothing is called so.
    """
    found = [
        (record, [extension for extension in record.extensions if extension.name == name])
        for record in registry.plugins
    ]
    chosen = [
        (record, record.extensions if name in record.origin[:2] else tuple(matches))
        for record, matches in found
        if matches or name in record.origin[:2]
    ]
    if not chosen:
        raise BlisError(
            f"--list-plugins {name}: there is no plugin, distribution or extension of this name;"
            " blis --list-plugins shows all"
        )
    lines: list[str] = []
    for record, extensions in chosen:
        lines.append(f"{record.origin}: {record.error or record.status}")
        for extension in extensions:
            note = f" (deprecated: use {extension.deprecated})" if extension.deprecated else ""
            lines.append(f"  {extension.kind} {extension.name}{note}")
            if extension.summary:
                lines.append(f"    {extension.summary}")
            options = _options(registry, extension)
            width = max((len(option) for option in options), default=0)
            lines += [f"    {option:<{width}}  {text}" for option, text in options.items()]
    return "\n".join(lines)


def _options(registry: Registry, extension: Extension) -> dict[str, str]:
    """What an extension can be tuned with, and how."""
    options = dict(extension.options)
    if extension.kind == "latency-model":
        from blis_core.latency_options import specs_of

        for spec in specs_of(registry.factory(extension.kind, extension.name)):
            rule = spec.range_text or spec.kind.value
            options[spec.name] = f"{spec.help} [{spec.implied}; {rule}]"
    return options


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

"""Finds plugins and fills the registry, once per process.

Plugins are the entry points of group ``blis`` and the files given with ``--plugin``. Each is loaded
on its own: one that cannot be imported, registers something unusable or claims a name that is
taken is left out as a whole and noted in :attr:`Registry.problems`; the others work.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import pluggy

from blis_core import __version__, hookspecs
from blis_core.entry_points import entry_points, normalise
from blis_core.errors import BlisError
from blis_core.registry import (
    KINDS,
    KNOWN_SOURCES,
    Extension,
    Kind,
    Origin,
    PluginRecord,
    Problem,
    Registry,
    describe,
    forget_warnings,
    make_extension,
    trace,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Extension",
    "Kind",
    "Origin",
    "Problem",
    "Registry",
    "configure",
    "configure_plugins",
    "get_registry",
    "loaded_plugins",
    "plugin_settings",
    "reset",
]

GROUP = "blis"
CORE = Origin("core", "blis-core", __version__)
FIRST_PARTY = frozenset(KNOWN_SOURCES.values())


class _Settings(NamedTuple):
    """What decides the contents of the registry, apart from what is installed."""

    files: tuple[Path, ...]
    disabled: frozenset[str]


class _Candidate(NamedTuple):
    """A plugin that was found and not imported yet."""

    origin: Origin
    load: Callable[[], object]


_settings: _Settings | None = None
_registry: Registry | None = None


def configure(*, files: Iterable[str | Path] = (), disabled: Iterable[str] = ()) -> None:
    """Choose plugin files to load and plugins to leave out (by plugin or distribution name).

    Call it before the first :func:`get_registry`; a change of settings afterwards makes the next
    call load afresh. ``BLIS_DISABLE_PLUGINS`` (comma-separated) adds to ``disabled``. BlisError for
    a file that does not exist and for an attempt to switch the core off.
    """
    global _settings, _registry
    paths: tuple[Path, ...] = ()
    if files := tuple(files):
        from blis_core import plugin_files  # brings pathlib, which start-up can do without

        paths = plugin_files.resolve(files)
    names = [*disabled, *os.environ.get("BLIS_DISABLE_PLUGINS", "").split(",")]
    settings = _Settings(paths, frozenset(normalise(name) for name in names if name.strip()))
    if _matches(CORE, settings.disabled):
        raise BlisError("the core cannot be switched off as a plugin")
    if settings != _settings:
        _settings, _registry = settings, None


configure_plugins = configure
"""The public name of :func:`configure`, for library users."""


def plugin_settings() -> dict[str, list[str]]:
    """The arguments with which :func:`configure_plugins` makes another process like this one."""
    if _settings is None:
        configure()
    assert _settings is not None
    return {
        "files": [str(path) for path in _settings.files],
        "disabled": sorted(_settings.disabled),
    }


def loaded_plugins() -> list[PluginRecord]:
    """The plugins in use, in the order in which they were loaded, and what each registers.

    A record has ``origin`` (plugin, distribution, version) and ``extensions``.
    """
    return [record for record in get_registry().plugins if record.status == "ok"]


def get_registry() -> Registry:
    """The registry of this process, filled on the first call."""
    global _registry
    if _registry is None:
        if _settings is None:
            configure()
        assert _settings is not None
        _registry = _load(_settings)
    return _registry


def reset() -> None:
    """Forget settings, registry and warnings given (for tests)."""
    global _settings, _registry
    _settings = _registry = None
    forget_warnings()


# ------------------------------------------------------------------------------------- discovery


def _load(settings: _Settings) -> Registry:
    """Load all plugins: the core, first-party distributions, others by name, then files."""
    start = time.perf_counter()
    registry = Registry()
    candidates = [_Candidate(CORE, lambda: import_module("blis_core.builtins"))]
    installed = [
        _Candidate(Origin(point.name, point.distribution, point.version), point.load)
        for point in entry_points(GROUP)
    ]
    installed.sort(key=_load_order)
    trace(f"discovery: {len(installed)} entry points", start)
    candidates += installed
    if settings.files:
        from blis_core import plugin_files

        for index, path in enumerate(settings.files):
            load = partial(plugin_files.load, index, path)
            candidates.append(_Candidate(Origin(path.name), load))

    manager = pluggy.PluginManager("blis")
    manager.add_hookspecs(hookspecs)
    registry.absent = sorted(
        name
        for name in settings.disabled
        if not any(_matches(candidate.origin, frozenset({name})) for candidate in candidates)
    )
    for candidate in candidates:
        if _matches(candidate.origin, settings.disabled):
            registry.skip(candidate.origin)
            continue
        # What foreign code prints while it is imported must not mix with results on stdout.
        with contextlib.redirect_stdout(sys.stderr):
            _load_one(candidate, manager, registry)
    trace(f"total: {len(registry.plugins)} plugins, {len(registry.problems)} problems", start)
    return registry


def _load_order(candidate: _Candidate) -> tuple[bool, str, str]:
    distribution = normalise(candidate.origin.distribution)
    return distribution not in FIRST_PARTY, distribution, candidate.origin.plugin


def _matches(origin: Origin, names: frozenset[str]) -> bool:
    return bool(names & {normalise(origin.plugin), normalise(origin.distribution)})


# --------------------------------------------------------------------------------------- loading


def _load_one(candidate: _Candidate, manager: pluggy.PluginManager, registry: Registry) -> None:
    """Import one plugin and let it register; all of it is taken in, or nothing."""
    origin = candidate.origin
    start = time.perf_counter()
    plugin: object = None
    try:
        plugin = candidate.load()
        trace(f"import {origin}", start)
        start = time.perf_counter()
        manager.register(plugin, f"{len(registry.plugins)}:{origin}")  # unique in any case
        hooks = _hooks_of(plugin, manager)
        registry.add(origin, _collect(plugin, origin, hooks, manager))
        trace(f"register {origin}", start)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code may raise anything
        # ValueError is how the checks here speak; of anything else the type matters too.
        own = type(error) is ValueError and plugin is not None
        message = " ".join(str(error).split()) if own else describe(error)
        if plugin is not None and manager.is_registered(plugin):
            manager.unregister(plugin)
        registry.reject(origin, message)
        trace(f"failed {origin}: {message}", start)


def _collect(
    plugin: object, origin: Origin, hooks: set[str], manager: pluggy.PluginManager
) -> list[Extension]:
    """Call the ``hooks`` of one plugin and return what it registered."""
    others = [other for other in manager.get_plugins() if other is not plugin]
    collected: list[Extension] = []
    for kind, info in KINDS.items():
        if info.hook not in hooks:
            continue

        def register(
            name: str,
            factory: hookspecs.Factory,
            *,
            summary: str = "",
            options: Mapping[str, str] | None = None,
            deprecated: str | None = None,
            kind: Kind = kind,
        ) -> None:
            collected.append(
                make_extension(kind, origin, name, factory, summary, options, deprecated)
            )

        manager.subset_hook_caller(info.hook, others)(register=register)
    return collected


def _hooks_of(plugin: object, manager: pluggy.PluginManager) -> set[str]:
    """Names of the hooks of a plugin. ValueError for misspelt and unmarked ones, and for none."""
    known = [info.hook for info in KINDS.values()]
    callers = manager.get_hookcallers(plugin) or []
    for caller in callers:
        if not caller.has_spec():
            import difflib  # errors only

            close = difflib.get_close_matches(caller.name, known, n=1)
            hint = f", did you mean {close[0]}?" if close else ""
            raise ValueError(f"unknown hook {caller.name}{hint} (hooks: {', '.join(known)})")
    found = {caller.name for caller in callers}
    for name in dir(plugin):
        if name.startswith("blis_register_") and name not in found:
            attribute: Any = getattr(plugin, name)
            if callable(attribute):
                raise ValueError(f"function {name} is not marked with @hookimpl")
    if not found:
        raise ValueError("defines no hook (functions blis_register_... marked with @hookimpl)")
    return found

"""The extension surface: small, complete, and proved by what ships with it."""

from __future__ import annotations

import importlib
import inspect
import pathlib

import pytest

from blis_core import api, builtins, hookspecs, plugins
from blis_core.registry import KINDS

HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("blis_register_"))


def test_the_hookspecs_can_be_read_in_a_minute():
    assert len(pathlib.Path(hookspecs.__file__).read_text().splitlines()) <= 130


def test_each_hook_belongs_to_one_kind():
    assert sorted(info.hook for info in KINDS.values()) == HOOKS


@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_take_one_argument_and_are_documented(hook):
    function = getattr(hookspecs, hook)
    assert list(inspect.signature(function).parameters) == ["register"]
    assert inspect.getdoc(function)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_in_use_by_what_ships(kind):
    plugins.configure()
    names = plugins.get_registry().names(kind)
    assert names, f"nothing registered as {kind}"


def test_all_that_ships_is_described():
    registry = plugins.get_registry()
    for kind in KINDS:
        for extension in registry.entries(kind):
            assert extension.summary, extension


def test_all_that_ships_can_be_imported():
    registry = plugins.get_registry()
    for kind in KINDS:
        for extension in registry.entries(kind):
            assert callable(registry.factory(kind, extension.name)), extension


def test_the_core_registers_addresses_only():
    def register(name, factory, **_):
        assert isinstance(factory, str), name

    for hook in HOOKS:
        if hasattr(builtins, hook):
            getattr(builtins, hook)(register)


def test_public_names_exist_and_are_listed():
    for name in api.__all__:
        assert getattr(api, name) is not None
    assert sorted(api.__all__) == sorted(dir(api))
    assert len(set(api.__all__)) == len(api.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        importlib.import_module("blis_core.api").no_such_name  # noqa: B018 - the access is the test

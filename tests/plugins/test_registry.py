"""The registry by itself: what may be registered, how names are found and extensions made."""

from __future__ import annotations

from importlib import import_module

import pytest

from blis_core.contracts import Scheduler, Scorer
from blis_core.errors import BlisError, UsageError
from blis_core.registry import KINDS, Origin, Registry, forget_warnings, make_extension

ORIGIN = Origin("blis-demo", "blis-demo", "2.1")


class Flat(Scorer):
    """A scorer."""

    def score(self, request, fleet):
        raise NotImplementedError


class Picky(Flat):
    """A scorer that takes arguments and may refuse them."""

    def __init__(self, value, *, limit=0):
        if value > limit:
            raise BlisError("value above limit")
        self.value = value


def not_a_scorer():
    return 42


def broken_factory():
    raise ZeroDivisionError("no\nluck")


def entry(kind="scorer", name="mine", factory=Flat, summary="", options=None, deprecated=None):
    return make_extension(kind, ORIGIN, name, factory, summary, options, deprecated)


def registry(*extensions, origin=ORIGIN):
    filled = Registry()
    filled.add(origin, extensions)
    return filled


# ---- what may be registered


@pytest.mark.parametrize("name", ["a", "queue-depth", "pareto_lognormal", "h100", "2-tier"])
def test_good_names(name):
    assert entry(name=name).name == name


@pytest.mark.parametrize(
    "name", ["", " ", "Mine", "my scorer", "-a", "a-", "a--b", "a:1", "a,b", "café", None, 3, b"a"]
)
def test_bad_names(name):
    with pytest.raises(ValueError, match="lower-case words"):
        entry(name=name)


@pytest.mark.parametrize("factory", ["a:b", "a.b:c", "a.b:c.d", Flat, lambda: None])
def test_good_factories(factory):
    assert entry(factory=factory).factory is factory


@pytest.mark.parametrize("factory", [None, 3, "", "a", "a:", ":b", "a.b", "a:b:c", "a b:c", "a:1"])
def test_bad_factories(factory):
    with pytest.raises(ValueError, match="factory"):
        entry(factory=factory)


@pytest.mark.parametrize(
    "arguments",
    [
        {"summary": None},
        {"summary": 1},
        {"options": ["a"]},
        {"options": {"a": 1}},
        {"options": {1: "a"}},
        {"deprecated": ""},
        {"deprecated": " "},
        {"deprecated": True},
    ],
)
def test_bad_descriptions(arguments):
    with pytest.raises(ValueError, match=f"scorer 'mine': {next(iter(arguments))} "):
        entry(**arguments)


def test_a_summary_is_made_one_line():
    assert entry(summary=" two\n  lines ").summary == "two lines"


def test_names_are_per_kind():
    both = registry(entry("scorer"), entry("scheduler"))
    assert both.names("scorer") == both.names("scheduler") == ["mine"]


def test_a_name_twice_in_one_plugin():
    with pytest.raises(ValueError, match="registers scorer 'mine' twice"):
        registry(entry(), entry())


def test_a_taken_name_leaves_the_registry_unchanged():
    filled = registry(entry())
    with pytest.raises(ValueError, match=r"claims scorer 'mine', which plugin .*blis-demo 2\.1"):
        filled.add(Origin("late", "late", "1"), [entry(name="other"), entry()])
    assert filled.names("scorer") == ["mine"]
    assert len(filled.plugins) == 1


# ---- finding


def test_entries_are_sorted_and_know_their_origin():
    filled = registry(entry(name="b"), entry(name="a"))
    assert [extension.name for extension in filled.entries("scorer")] == ["a", "b"]
    assert filled.get("scorer", "a").origin == ORIGIN


def test_unknown_name_lists_and_suggests():
    filled = registry(entry(name="shortest"), entry(name="mine"))
    with pytest.raises(BlisError) as caught:
        filled.get("scorer", "shortes")
    assert str(caught.value) == (
        "unknown scorer 'shortes', did you mean 'shortest'? (available: mine, shortest)"
    )


@pytest.mark.parametrize(
    ("kind", "name", "distribution"),
    [
        ("latency-model", "roofline", "blis-latency-physics"),
        ("latency-model", "trained-physics", "blis-latency-physics"),
        ("latency-model", "blackbox", "blis-latency-legacy"),
        ("latency-model", "crossmodel", "blis-latency-legacy"),
        ("latency-model", "trained-roofline", "blis-latency-legacy"),
        ("scorer", "queue-depth", "blis-routing"),
        ("scorer", "precise-prefix-cache", "blis-routing"),
        ("command", "observe", "blis-observe"),
    ],
)
def test_known_names_say_what_to_install(kind, name, distribution):
    with pytest.raises(BlisError, match=f"pip install {distribution}$"):
        registry(entry(kind)).get(kind, name)


def test_without_any_latency_model():
    with pytest.raises(BlisError, match=r"no latency model is .*pip install blis-latency-physics$"):
        registry(entry()).get("latency-model", "anything")


def test_an_installed_source_that_is_not_in_use_is_named():
    origin = Origin("blis-routing", "blis-routing", "0.1")
    disabled, broken, old = registry(), registry(), registry(entry(name="a"), origin=origin)
    disabled.skip(origin)
    broken.reject(origin, "ImportError: no numpy")
    for filled, expected in [
        (disabled, "blis-routing is switched off"),
        (broken, "was not loaded: ImportError: no numpy"),
        (old, "pip install --upgrade blis-routing"),
    ]:
        with pytest.raises(BlisError, match=expected):
            filled.get("scorer", "queue-depth")


def test_unknown_commands_are_usage_errors():
    with pytest.raises(UsageError):
        registry(entry("command", "run")).get("command", "rum")


# ---- making


def test_create_passes_arguments_on():
    filled = registry(entry(factory=Picky))
    assert filled.create("scorer", "mine", 2, limit=3).value == 2
    with pytest.raises(BlisError, match=r"^value above limit$"):
        filled.create("scorer", "mine", 3, limit=2)


def test_an_address_is_imported():
    filled = registry(entry(factory="decimal:Decimal"))
    from decimal import Decimal

    assert filled.factory("scorer", "mine") is Decimal
    assert filled.factory("scorer", "mine") is Decimal


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        ("no_such_module_at_all:x", "ModuleNotFoundError"),
        ("decimal:Nothing", "AttributeError"),
        ("decimal:ROUND_UP", "is not callable"),
    ],
)
def test_an_address_that_leads_nowhere(factory, expected):
    with pytest.raises(BlisError, match=rf"blis-demo \(blis-demo 2\.1\).*{expected}"):
        registry(entry(factory=factory)).factory("scorer", "mine")


def test_what_is_made_must_be_of_the_kind():
    with pytest.raises(BlisError, match=r"scorer 'mine' of plugin .* made a int, not a Scorer"):
        registry(entry(factory=not_a_scorer)).create("scorer", "mine")


def test_a_failing_foreign_factory_is_named():
    with pytest.raises(BlisError, match=r"plugin blis-demo .*ZeroDivisionError: no luck$"):
        registry(entry(factory=broken_factory)).create("scorer", "mine")


def test_a_failing_core_factory_is_a_bug():
    core = Origin("core", "blis-core", "1")
    broken = make_extension("scorer", core, "mine", broken_factory, "", None, None)
    with pytest.raises(ZeroDivisionError):
        registry(broken, origin=core).create("scorer", "mine")


def test_deprecation_is_said_once_when_first_made(capsys):
    forget_warnings()
    old = entry(deprecated="better", name="old")
    filled = registry(old, entry(deprecated="better", name="older"))
    filled.factory("scorer", "old")
    assert capsys.readouterr().err == ""
    filled.create("scorer", "old")
    first = capsys.readouterr().err
    assert "'old' is deprecated, use 'better' instead" in first
    assert "blis-demo" in first
    assert first.count("\n") == 1
    filled.create("scorer", "old")
    registry(old).create("scorer", "old")
    assert capsys.readouterr().err == ""
    filled.create("scorer", "older")
    assert "older" in capsys.readouterr().err


def test_every_kind_names_an_interface_or_is_a_command():
    for kind, info in KINDS.items():
        if kind != "command":
            assert isinstance(getattr(import_module(info.module), info.interface), type)
    assert KINDS["scheduler"].interface == Scheduler.__name__

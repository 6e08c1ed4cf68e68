"""Finding plugins: good ones are loaded in a fixed order, bad ones are isolated and explained."""

from __future__ import annotations

import sys

import pytest

from blis_core import plugins
from blis_core.errors import BlisError

HOOK = "from blis_core.api import hookimpl\n"


def problems():
    return {
        problem.origin.distribution: problem.message for problem in plugins.get_registry().problems
    }


def record(name):
    return next(item for item in plugins.get_registry().plugins if item.origin.plugin == name)


# ---- healthy plugins


def test_a_plugin_is_found_and_its_implementation_is_not_imported(install_scorer):
    install_scorer("blis-demo", "mine", "1.2.3")
    registry = plugins.get_registry()
    extension = registry.get("scorer", "mine")
    assert extension.origin == plugins.Origin("blis-demo", "blis-demo", "1.2.3")
    assert extension.summary == "made for a test"
    assert "blis_demo_impl" not in sys.modules
    assert type(registry.create("scorer", "mine")).__module__ == "blis_demo_impl"


def test_every_kind_can_be_registered_by_a_plugin(install):
    from blis_core.registry import KINDS

    hooks = "".join(
        f'@hookimpl\ndef {info.hook}(register):\n    register("demo", "x.y:Z")\n'
        for info in KINDS.values()
    )
    install("blis-demo", blis_demo=HOOK + hooks)
    registry = plugins.get_registry()
    assert registry.problems == ()
    for kind in KINDS:
        assert registry.get(kind, "demo").origin.plugin == "blis-demo"


def test_the_registry_is_loaded_once(install_scorer):
    registry = plugins.get_registry()
    install_scorer("blis-demo")
    assert plugins.get_registry() is registry
    plugins.configure()
    assert plugins.get_registry() is registry
    plugins.reset()
    assert "mine" in plugins.get_registry().names("scorer")


def test_order_core_first_party_then_by_name(install, install_scorer):
    install_scorer("zebra", "z")
    install_scorer("aardvark", "a")
    names = [item.origin.distribution for item in plugins.get_registry().plugins]
    first_party = [name for name in names if name in plugins.FIRST_PARTY]
    assert names == ["blis-core", *sorted(first_party), "aardvark", "zebra"]


def test_several_plugins_in_one_distribution(install):
    text = HOOK + '@hookimpl\ndef blis_register_scorers(register):\n    register("{}", "a.b:C")\n'
    install(
        "two-fold",
        entry_points="[blis]\ngood = fold_a\nbad = fold_b\n",
        fold_a=text.format("fold-a"),
        fold_b=text.format("Fold B"),
    )
    assert record("good").status == "ok"
    assert record("bad").status == "broken"


def test_output_of_an_import_does_not_reach_stdout(install, capsys):
    install("blis-demo", blis_demo='print("hello from a plugin")\n')
    plugins.get_registry()
    out, err = capsys.readouterr()
    assert out == ""
    assert "hello from a plugin" in err


# ---- broken plugins


GOOD_ENTRY = '    register("good-one", "a.b:C")\n'
SCORERS = HOOK + "@hookimpl\ndef blis_register_scorers(register):\n" + GOOD_ENTRY


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import no_such_module_at_all\n", "ModuleNotFoundError: No module named"),
        ("raise RuntimeError('two\\nlines')\n", "RuntimeError: two lines"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("def oops(:\n", "SyntaxError"),
        ("x = 1\n", "defines no hook"),
        (SCORERS + '    register("", "a.b:C")\n', "lower-case words"),
        (SCORERS + "    register(None, None)\n", "lower-case words"),
        (SCORERS + '    register("other", 42)\n', "neither callable nor"),
        (SCORERS + '    register("other")\n', "TypeError"),
        (SCORERS + '    register("other", "a.b:C", colour="red")\n', "TypeError"),
        (SCORERS + "    1 / 0\n", "ZeroDivisionError"),
        (SCORERS + GOOD_ENTRY, "registers scorer 'good-one' twice"),
        (
            SCORERS + "@hookimpl\ndef blis_register_scorer(register):\n    pass\n",
            "unknown hook blis_register_scorer, did you mean blis_register_scorers?",
        ),
        (
            SCORERS + "def blis_register_commands(register):\n    pass\n",
            "not marked with @hookimpl",
        ),
        (
            HOOK + "@hookimpl\ndef blis_register_scorers(registry):\n    pass\n",
            "PluginValidationError",
        ),
    ],
)
def test_a_broken_plugin_is_isolated(install, install_scorer, text, expected):
    install("aaa-broken", blis_unused="", aaa_broken=text)
    install_scorer("zzz-healthy")
    registry = plugins.get_registry()
    assert expected in problems()["aaa-broken"]
    assert "\n" not in problems()["aaa-broken"]
    assert "good-one" not in registry.names("scorer")
    assert registry.create("scorer", "mine")
    assert registry.names("scheduler") == ["fcfs", "priority-fcfs", "reverse-priority", "sjf"]


@pytest.mark.parametrize("value", ["blis_demo:nothing", "", "[x]"])
def test_an_entry_point_that_leads_nowhere(install, value):
    install("blis-demo", entry_points=f"[blis]\ndemo = {value}\n", blis_demo=SCORERS)
    assert problems()["blis-demo"]


def test_a_taken_name_isolates_the_later_plugin_as_a_whole(install, install_scorer):
    install_scorer("aardvark", "mine", "1.5")
    install(
        "zebra",
        "2.5",
        zebra=SCORERS + '    register("mine", "a.b:C")\n',
    )
    registry = plugins.get_registry()
    (problem,) = registry.problems
    assert str(problem) == (
        "plugin zebra (zebra 2.5) was not loaded: "
        "claims scorer 'mine', which plugin aardvark (aardvark 1.5) already provides"
    )
    assert registry.get("scorer", "mine").origin.distribution == "aardvark"
    assert "good-one" not in registry.names("scorer")


def test_built_in_names_cannot_be_taken(install):
    text = (
        HOOK + '@hookimpl\ndef blis_register_schedulers(register):\n    register("fcfs", "a:B")\n'
    )
    install("aaa", aaa=text)
    assert "which plugin core (blis-core" in problems()["aaa"]
    assert plugins.get_registry().get("scheduler", "fcfs").origin.distribution == "blis-core"


def test_one_module_under_two_entry_points(install):
    install("demo", entry_points="[blis]\na = demo_module\nb = demo_module\n", demo_module=SCORERS)
    assert record("a").status == "ok"
    assert record("b").status == "broken"


# ---- switching off


@pytest.mark.parametrize("name", ["blis-demo", "Blis_Demo", "blis.demo"])
def test_disabled_plugins_are_not_imported(install_scorer, name):
    install_scorer("blis-demo")
    plugins.configure(disabled=[name])
    assert record("blis-demo").status == "disabled"
    assert "mine" not in plugins.get_registry().names("scorer")
    assert "blis_demo" not in sys.modules


def test_disabled_by_environment(install_scorer, monkeypatch):
    install_scorer("one-demo", "one")
    install_scorer("two-demo", "two")
    monkeypatch.setenv("BLIS_DISABLE_PLUGINS", " one-demo,, other")
    names = plugins.get_registry().names("scorer")
    assert "one" not in names
    assert "two" in names


def test_disabling_by_the_name_of_the_entry_point(install):
    install("some-dist", entry_points="[blis]\nnice-name = demo_module\n", demo_module=SCORERS)
    plugins.configure(disabled=["nice-name"])
    assert record("nice-name").status == "disabled"


def test_a_broken_plugin_can_be_switched_off(install):
    install("broken", broken="1 / 0\n")
    plugins.configure(disabled=["broken"])
    assert plugins.get_registry().problems == ()


@pytest.mark.parametrize("name", ["core", "blis-core", "BLIS_core"])
def test_the_core_cannot_be_switched_off(name):
    with pytest.raises(BlisError, match="core cannot be switched off"):
        plugins.configure(disabled=[name])


# ---- plugin files

FILE_PLUGIN = (
    HOOK
    + """
from blis_core.api import Scorer

class Mine(Scorer):
    def score(self, request, fleet):
        return fleet.kv_utilization

@hookimpl
def blis_register_scorers(register):
    register("from-file", Mine)
    register("by-address", f"{__name__}:Mine")
"""
)


def test_a_file_is_a_plugin(tmp_path):
    file = tmp_path / "my scorer.py"
    file.write_text(FILE_PLUGIN)
    plugins.configure(files=[file])
    registry = plugins.get_registry()
    assert registry.get("scorer", "from-file").origin == plugins.Origin("my scorer.py")
    assert type(registry.create("scorer", "from-file")) is type(
        registry.create("scorer", "by-address")
    )


def test_two_files_with_one_name(tmp_path):
    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        files.append(tmp_path / name / "scorer.py")
        files[-1].write_text(SCORERS.replace("good-one", name))
    plugins.configure(files=files)
    assert {"a", "b"} <= set(plugins.get_registry().names("scorer"))


def test_a_broken_file_is_isolated(tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("1 / 0\n")
    plugins.configure(files=[file])
    (problem,) = plugins.get_registry().problems
    assert str(problem).startswith("plugin broken.py (a file) was not loaded: ZeroDivisionError")


def test_a_file_that_is_not_python(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("hello\n")
    plugins.configure(files=[file])
    assert "its name must end in .py" in str(plugins.get_registry().problems[0])


def test_an_absent_file(tmp_path):
    with pytest.raises(BlisError, match=r"absent\.py: no such file"):
        plugins.configure(files=[tmp_path / "absent.py"])


def test_new_settings_load_afresh(tmp_path):
    before = plugins.get_registry()
    file = tmp_path / "mine.py"
    file.write_text(FILE_PLUGIN)
    plugins.configure(files=[str(file)])
    assert "from-file" in plugins.get_registry().names("scorer")
    assert "from-file" not in before.names("scorer")


# ---- tracing


def test_settings_make_another_process_load_the_same(install_scorer, tmp_path, monkeypatch):
    install_scorer("blis-demo")
    install_scorer("blis-other", "other")
    (tmp_path / "file.py").write_text(
        HOOK + "@hookimpl\ndef blis_register_scorers(register): ...\n"
    )
    monkeypatch.setenv("BLIS_DISABLE_PLUGINS", "blis-demo")
    plugins.configure(files=[tmp_path / "file.py"], disabled=["blis_observe"])
    loaded = plugins.loaded_plugins()
    names = [record.origin.plugin for record in loaded]
    assert names[0] == "core"
    assert names[-2:] == ["blis-other", "file.py"]
    assert not {"blis-demo", "blis-observe"} & set(names)
    assert [extension.name for extension in loaded[-2].extensions] == ["other"]
    settings = plugins.plugin_settings()
    assert settings == {
        "files": [str(tmp_path / "file.py")],
        "disabled": ["blis-demo", "blis-observe"],
    }

    monkeypatch.delenv("BLIS_DISABLE_PLUGINS")
    plugins.reset()
    plugins.configure(**settings)
    assert [record.origin for record in plugins.loaded_plugins()] == [r.origin for r in loaded]


def test_trace(install, install_scorer, monkeypatch, capsys):
    monkeypatch.setenv("BLIS_TRACE_PLUGINS", "1")
    install_scorer("blis-demo")
    install("broken", broken="1 / 0\n")
    plugins.get_registry().create("scorer", "mine")
    out, err = capsys.readouterr()
    assert out == ""
    for expected in (
        "discovery: ",
        "import plugin blis-demo (blis-demo 1.0)",
        "register plugin blis-demo",
        "failed plugin broken (broken 1.0): ZeroDivisionError",
        "import blis_demo_impl:Mine for scorer mine",
    ):
        assert expected in err
    assert all(" ms  " in line for line in err.splitlines())


def test_no_trace_by_default(install_scorer, monkeypatch, capsys):
    monkeypatch.setenv("BLIS_TRACE_PLUGINS", "0")
    install_scorer("blis-demo")
    plugins.get_registry().create("scorer", "mine")
    assert capsys.readouterr().err == ""

"""The console script around the commands: global options, help, errors, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import blis_core
from blis_core import plugins
from blis_core.cli.main import main

COMMANDS = """
import click
from blis_core.api import BlisError, UsageError, hookimpl

@click.command()
@click.option("--count", type=int, default=1)
@click.argument("words", nargs=-1)
def say(count, words):
    for word in words:
        click.echo(" ".join([word] * count))

@click.command()
@click.argument("how")
def fail(how):
    if how == "blis":
        raise BlisError("this is\\nwrong")
    if how == "usage":
        raise UsageError("not like that")
    if how == "os":
        open("/no/such/place")
    if how == "bug":
        raise ZeroDivisionError("a bug")
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "pipe":
        raise BrokenPipeError
    if how == "abort":
        raise click.Abort
    return int(how)

@hookimpl
def blis_register_commands(register):
    register("say", say, summary="Repeat words.")
    register("fail", fail, summary="Go wrong.")
    register("odd", "json:dumps", summary="No command at all.")
    register("absent", "no_such_module_at_all:x", summary="Not there.")
"""


@pytest.fixture
def commands(tmp_path):
    file = tmp_path / "extra_commands.py"
    file.write_text(COMMANDS)
    return file


@pytest.fixture
def blis(capsys, commands):
    """Returns blis(*arguments) -> (exit code, stdout, stderr), with the commands above."""

    def blis(*arguments):
        code = main([*arguments, "--plugin", str(commands)])
        return code, *capsys.readouterr()

    return blis


# ---- help and version


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"], ["help", "nonsense"]])
def test_help(blis, arguments):
    code, out, err = blis(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: blis")
    for text in ("--plugin FILE", "-p no:NAME", "--list-plugins", "say", "Repeat words.", "replay"):
        assert text in out


@pytest.mark.parametrize("arguments", [["say", "--help"], ["say", "-h"], ["help", "say"]])
def test_help_of_a_command(blis, arguments):
    code, out, _ = blis(*arguments)
    assert code == 0
    assert "Usage: blis say" in out
    assert "--count" in out


def test_version(blis):
    assert blis("--version") == (0, f"blis {blis_core.__version__}\n", "")


def test_help_imports_nothing_heavy():
    """A fresh process, because this one has imported everything already."""
    code = (
        "import sys; from blis_core.cli.main import main; main(['--help']); "
        "print(*sys.modules, file=sys.stderr)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(process.stderr.split())
    heavy = {"numpy", "attr", "cattrs", "structlog", "rich", "yaml", "aiohttp"}
    heavy |= {"importlib.metadata", "pathlib"}
    assert not loaded & heavy
    cli = {name for name in loaded if name.startswith("blis_core.cli.")}
    assert cli == {f"blis_core.cli.{name}" for name in ("main", "group", "problems")}
    plugin_modules = {name for name in loaded if name.startswith("blis_") and "core" not in name}
    assert all("." not in name or name.endswith(".plugin") for name in plugin_modules)


# ---- options that may stand anywhere


@pytest.mark.parametrize(
    "arguments",
    [
        ["--plugin", "FILE", "say", "hi"],
        ["--plugin=FILE", "say", "hi"],
        ["say", "--plugin", "FILE", "hi"],
        ["say", "hi", "--plugin=FILE"],
        ["say", "hi", "--debug", "--plugin", "FILE", "-p", "no:other"],
    ],
)
def test_plugin_option_anywhere(capsys, commands, arguments):
    assert main([item.replace("FILE", str(commands)) for item in arguments]) == 0
    assert capsys.readouterr().out == "hi\n"


def test_after_a_separator_everything_belongs_to_the_command(capsys, commands):
    assert main(["--plugin", str(commands), "say", "--", "--debug", "-p", "no:say", "--"]) == 0
    assert capsys.readouterr().out == "--debug\n-p\nno:say\n--\n"


@pytest.mark.parametrize(
    "option", [["-p", "no:blis-demo"], ["-pno:blis-demo"], ["-p=no:blis-demo"]]
)
def test_disabling_anywhere(capsys, install_scorer, option):
    install_scorer("blis-demo")
    assert main([*option, "--list-plugins", "--json"]) == 0
    listing = json.loads(capsys.readouterr().out)["plugins"]
    assert [item["status"] for item in listing if item["plugin"] == "blis-demo"] == ["disabled"]


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--plugin"], 2, "--plugin needs a value"),
        (["--plugin="], 2, "--plugin needs a value"),
        (["-p"], 2, "-p needs a value"),
        (["-p", "blis-demo"], 2, "expected no:NAME"),
        (["-p", "no:"], 2, "expected no:NAME"),
        (["-p", "no:core"], 1, "core cannot be switched off"),
        (["--plugin", "/no/such/file.py"], 1, "no such file"),
        (["--json"], 2, "--json goes with --list-plugins"),
        (["--nonsense"], 2, "--nonsense"),
    ],
)
def test_wrong_global_options(capsys, arguments, code, expected):
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0].startswith("blis: error: ")
    assert expected in err


def test_list_plugins(blis):
    code, out, err = blis("--list-plugins")
    assert (code, err) == (0, "")
    assert "core" in out
    assert out.splitlines()[-1].split()[:3] == ["extra_commands.py", "-", "(file)"]
    code, out, err = blis("--list-plugins", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["plugins"][0]["distribution"] == "blis-core"


def test_list_plugins_shows_what_is_broken(blis, install):
    install("broken", broken="1 / 0\n")
    code, out, err = blis("--list-plugins")
    assert (code, err) == (0, "")
    assert "BROKEN: ZeroDivisionError: division by zero" in out


# ---- errors and exit codes


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("blis", 1, "this is wrong"),
        ("usage", 2, "not like that"),
        ("os", 1, "/no/such/place: No such file or directory"),
        ("bug", 1, "internal error: ZeroDivisionError: a bug (--debug shows the traceback)"),
    ],
)
def test_an_error_is_one_line(blis, how, code, message):
    assert blis("fail", how) == (code, "", f"blis: error: {message}\n")


@pytest.mark.parametrize("how", ["blis", "bug"])
def test_debug_shows_the_traceback(blis, how):
    _, _, err = blis("fail", how, "--debug")
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("blis: error: ")


@pytest.mark.parametrize(
    ("how", "code"), [("interrupt", 130), ("abort", 130), ("pipe", 141), ("0", 0), ("3", 3)]
)
def test_quiet_ends(blis, how, code):
    assert blis("fail", how) == (code, "", "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["say", "--cuont", "2"], "Did you mean '--count'?"),
        (["say", "--count", "many"], "'many' is not a valid integer"),
        (["say", "--count"], "requires an argument"),
        (["fail"], "Missing argument 'HOW'"),
        (["fail", "a", "b"], "unexpected extra argument"),
    ],
)
def test_usage_errors_of_click(blis, arguments, expected):
    code, out, err = blis(*arguments)
    assert (code, out) == (2, "")
    message, hint = err.splitlines()
    assert message.startswith("blis: error: ")
    assert expected in message
    assert hint == f"Try 'blis {arguments[0]} --help' for help."


def test_unknown_command(blis):
    code, out, err = blis("sya")
    assert (code, out) == (2, "")
    assert err.startswith("blis: error: unknown command 'sya', did you mean 'say'? (available: ")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("absent", "cannot be imported: ModuleNotFoundError"), ("odd", "is not a click command")],
)
def test_commands_that_cannot_be_used(blis, name, expected):
    code, out, err = blis(name)
    assert (code, out) == (1, "")
    assert expected in err
    assert "extra_commands.py" in err


def test_a_broken_plugin_is_one_line_and_harms_no_command(blis, install):
    install("broken", "4.2", broken="1 / 0\n")
    code, out, err = blis("say", "hi")
    assert (code, out) == (0, "hi\n")
    assert err.count("\n") == 1
    assert "plugin broken (broken 4.2) was not loaded: ZeroDivisionError" in err


# ---- as a process


def script(*arguments, **options):
    path = Path(sys.executable).with_name("blis")
    return subprocess.run([path, *arguments], text=True, check=False, **options)


def test_the_console_script():
    process = script("--version", capture_output=True)
    assert (process.returncode, process.stdout) == (0, f"blis {blis_core.__version__}\n")
    process = script("nonsense", capture_output=True)
    assert (process.returncode, process.stdout) == (2, "")


def test_a_reader_that_has_gone(commands):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        process = script("--plugin", commands, "say", "hi", stdout=pipe, stderr=subprocess.PIPE)
    assert (process.returncode, process.stderr) == (141, "")


def test_completion():
    variables = {"_BLIS_COMPLETE": "bash_complete", "COMP_WORDS": "blis repl", "COMP_CWORD": "1"}
    process = script(capture_output=True, env={**os.environ, **variables})
    assert process.stdout == "plain,replay\n"


def test_core_alone_names_no_foreign_command(core_alone, capsys):
    assert main(["probe"]) == 2
    assert "pip install blis-observe" in capsys.readouterr().err
    commands = "calibrate completion compose convert diff doctor replay run".split()
    assert plugins.get_registry().names("command") == commands

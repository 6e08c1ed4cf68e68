"""Flags by the rules of the reference, and help that a reader can use."""

from typing import Any

import attrs
import click
import pytest
from click.testing import CliRunner

from blis_core.cli import replay, run
from blis_core.cli.flags import QuickCommand
from blis_core.cli.options import ConfigCommand, PflagCommand
from blis_core.config import ReplayConfig, RunConfig, SimulationConfig
from blis_core.option import ValueKind, option, options_of


@attrs.frozen(kw_only=True, repr=False)
class SampleConfig(SimulationConfig):
    """A configuration with an option of every kind."""

    switch: bool = option(ValueKind.BOOL, "Sample", False, "A switch.")
    preset_on: bool = option(ValueKind.BOOL, "Sample", True, "A switch that is on.")


EXPLAINED = {"extra", "-", "--bogus", "false", "--help=false"}
"""Words of these tests of which click has something to say."""


def parse(*args: str, config_class: type[Any] = RunConfig) -> Any:
    """The configuration that ``args`` describe, to click and without it."""
    seen: list[Any] = []
    quick = QuickCommand("sample", config_class, seen.append, help="")
    without = quick.configuration(args)
    command = quick()
    assert isinstance(command, ConfigCommand)
    try:
        with command.make_context("sample", list(args)) as context:
            command.invoke(context)
    except click.UsageError:
        assert without is None
        raise
    assert without == (None if EXPLAINED & set(args) else seen[0])
    return seen[0]


def given(*args: str, config_class: type[Any] = RunConfig) -> dict[str, Any]:
    """The fields in which the configuration differs from the default one."""
    config = parse(*args, config_class=config_class)
    default = config_class()
    return {
        spec.name: getattr(config, spec.name)
        for spec in options_of(config_class)
        if getattr(config, spec.name) != getattr(default, spec.name)
    }


def test_values_with_blank_and_equals_sign() -> None:
    assert given("--num-requests", "5", "--rate=2.5") == {"num_requests": 5, "rate": 2.5}
    assert given("--seed=-3") == {"seed": -3}
    assert given("--log=") == {"log": ""}


@pytest.mark.parametrize(
    ("text", "value"), [("0x5", 5), ("1_0", 10), ("010", 8), ("0", 0), ("-1", -1)]
)
def test_whole_numbers_in_any_base(text: str, value: int) -> None:
    assert parse("--num-requests", text).num_requests == value


def test_nothing_given_is_told_apart_from_the_default() -> None:
    config = parse()
    names = "latency_model total_kv_blocks max_model_len num_requests rate seed timeout".split()
    assert [name for name in names if getattr(config, name) is not None] == []
    assert config.block_size_in_tokens == 16
    assert parse("--total-kv-blocks", "1000000").total_kv_blocks == 1_000_000


def test_last_occurrence_wins_but_lists_collect() -> None:
    assert given("--rate", "1", "--rate", "3") == {"rate": 3.0}
    assert given("--alpha-coeffs", "1,2", "--alpha-coeffs=3") == {"alpha_coeffs": (1.0, 2.0, 3.0)}


def test_every_occurrence_must_be_well_formed() -> None:
    with pytest.raises(click.UsageError, match="--rate: 'x' is not a number"):
        parse("--rate", "x", "--rate", "3")


def test_next_token_is_the_value_whatever_it_looks_like() -> None:
    assert given("--model", "--rate") == {"model": "--rate"}
    assert given("--model", "--", "--rate", "2") == {"model": "--", "rate": 2.0}
    assert given("--model", "-h") == {"model": "-h"}


def test_booleans_take_a_value_only_with_an_equals_sign() -> None:
    def sample(*args: str) -> dict[str, Any]:
        return given(*args, config_class=SampleConfig)

    assert sample("--switch") == {"switch": True}
    assert sample("--switch", "false", "--tp", "2") == {"switch": True, "tp": 2}
    assert sample("--switch=false") == {}
    assert sample("--switch", "--switch=F") == {}
    assert sample("--preset-on=0") == {"preset_on": False}
    for text in ("yes", ""):
        with pytest.raises(click.UsageError, match="neither true nor false"):
            sample(f"--switch={text}")


def test_surplus_arguments_and_everything_after_two_dashes_are_ignored() -> None:
    assert given("extra", "--rate", "2", "positional") == {"rate": 2.0}
    assert given("--rate", "2", "--", "--bogus", "--rate", "3") == {"rate": 2.0}
    assert given("-") == {}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--num-req", "4"], "unknown flag --num-req; did you mean --num-requests?"),
        (["--sheduler", "sjf"], "unknown flag --sheduler; did you mean --scheduler?"),
        (["--bogus"], "unknown flag --bogus"),
        (["--bogus=1"], "unknown flag --bogus"),
        (["-x"], "unknown flag -x"),
        (["-5"], "unknown flag -5"),
        (["--=1"], "'--=1' is not a flag"),
        (["---rate", "1"], "'---rate' is not a flag"),
        (["--rate"], "--rate needs a value"),
        (["--num-requests", ""], "--num-requests: '' is not a whole number"),
        (["--num-requests", "abc"], "--num-requests: 'abc' is not a whole number"),
        (["--rate", "1e400"], "--rate: '1e400' is too large for a double"),
        (["--seed", "9223372036854775808"], "--seed: '9223372036854775808' does not fit"),
        (["-h", "--bogus"], "unknown flag --bogus"),
    ],
)
def test_mistakes_are_one_clear_line(args: list[str], message: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        parse(*args)
    text = caught.value.format_message()
    assert text.startswith(message)
    assert "\n" not in text


@pytest.mark.parametrize("command", [run.command(), replay.command()])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_option_once(command: ConfigCommand[Any], flag: str) -> None:
    outcome = CliRunner().invoke(command, ["--rate=1" if command is run.command else "x", flag])
    assert outcome.exit_code == 0
    for spec in options_of(command.config_class):
        assert outcome.output.count(f"  {spec.flag} ") == 1, spec.flag
    assert all(len(line) <= 80 for line in outcome.output.splitlines())


def test_help_can_be_asked_for_with_false() -> None:
    assert given("--help=false", "--rate", "2") == {"rate": 2.0}


def test_the_two_commands_share_what_they_should() -> None:
    shared = {spec.name for spec in options_of(SimulationConfig)}
    of_run = {spec.name for spec in options_of(RunConfig)}
    of_replay = {spec.name for spec in options_of(ReplayConfig)}
    assert of_run & of_replay == shared | {"trace_output", "think_time_ms", "record"}
    assert "rate" not in of_replay
    assert "trace_data" not in of_run


def test_ordinary_click_options_follow_the_same_rules() -> None:
    seen = []

    @click.command(cls=PflagCommand)
    @click.option("--from", "sources", multiple=True)
    @click.option("--count", "-c", type=int, default=7)
    @click.option("--json", is_flag=True)
    @click.option("--path", required=True)
    @click.argument("words", nargs=-1)
    def command(**values: Any) -> None:
        seen.append(values)

    runner = CliRunner()
    args = ["--from", "a", "w1", "--json", "false", "--path=p", "--from=b", "-c=3", "--", "--w2"]
    assert runner.invoke(command, args).exit_code == 0
    assert seen.pop() == {
        "sources": ("a", "b"),
        "count": 3,
        "json": True,
        "path": "p",
        "words": ("w1", "false", "--w2"),
    }
    assert runner.invoke(command, ["-c4", "--path", "p", "--json=false"]).exit_code == 0
    assert seen.pop()["json"] is False
    assert runner.invoke(command, []).exit_code != 0
    assert runner.invoke(command, ["--pa", "x"]).exit_code != 0

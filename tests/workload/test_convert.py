"""Converted and composed specifications, against those of the reference, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.cli.main import main
from blis_core.errors import BlisError
from blis_core.workload.compose import compose
from blis_core.workload.pipeline import prepare
from blis_core.workload.spec import (
    Arrival,
    Client,
    Distribution,
    Lifecycle,
    Multimodal,
    MultiTurn,
    Network,
    Reasoning,
    Window,
    WorkloadSpec,
    parse_spec,
)
from blis_core.workload.spec_text import spec_text
from blis_core.workload.validation import validate

DATA = Path(__file__).parents[1] / "data" / "trace"
CASES = {
    **{
        f"convert/expected_preset_{name}.yaml": (
            f"convert preset --name {name} --rate 2.5 --num-requests 7"
        )
        for name in ("chatbot", "contentgen", "multidoc", "summarization")
    },
    **{
        f"convert/expected_inference_perf_{name}.yaml": (
            f"convert inference-perf --spec {DATA}/convert/inference_perf_{name}.yaml"
        )
        for name in ("multiturn", "single", "stages")
    },
    "servegen/expected.yaml": f"convert servegen --path {DATA}/servegen/dir",
    **{
        f"compose/expected_{one}_{other}.yaml": (
            f"compose --from {DATA}/compose/{one}.yaml --from {DATA}/compose/{other}.yaml"
        )
        for one, other in (("c1", "c2"), ("c2", "c1"), ("c2", "c3"), ("c3", "c3"))
    },
}


@pytest.mark.parametrize("expected", CASES)
def test_text_of_the_reference(
    expected: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(CASES[expected].split()) == 0
    assert capsys.readouterr().out == (DATA / expected).read_text()


@pytest.mark.parametrize("expected", [name for name in CASES if "c3_c3" not in name])
def test_what_is_written_can_be_run(expected: str) -> None:
    """A stage with few requests makes none, perhaps; but generation does not fail."""
    spec = parse_spec((DATA / expected).read_bytes(), expected)
    assert spec_text(spec) == (DATA / expected).read_text()
    requests = list(prepare(spec, horizon=20_000_000, max_requests=20).requests)
    assert requests


# ---------------------------------------------------------------------------------------- writing

NAMES = st.sampled_from(["", "a", "on", "2", "x: y", "é"])
LENGTHS = st.builds(
    Distribution,
    type=st.sampled_from(["constant", "gaussian", "empirical"]),
    params=st.dictionaries(
        st.sampled_from(["value", "mean", "10", "9", "b2"]), st.floats(0, 1e7), max_size=3
    ),
    file=st.sampled_from(["", "f.csv"]),
)
CLIENTS = st.builds(
    Client,
    id=NAMES,
    tenant_id=NAMES,
    slo_class=st.sampled_from(["", "batch"]),
    model=NAMES,
    rate_fraction=st.floats(1e-9, 1e9),
    arrival=st.builds(Arrival, process=st.just("gamma"), cv=st.none() | st.floats(0.5, 3)),
    input_distribution=LENGTHS,
    output_distribution=LENGTHS,
    prefix_group=NAMES,
    prefix_length=st.integers(0, 99),
    streaming=st.booleans(),
    network=st.none() | st.builds(Network, rtt_ms=st.floats(0, 9), bandwidth_mbps=st.just(0.0)),
    lifecycle=st.none()
    | st.builds(
        Lifecycle, windows=st.just((Window(start_us=0, end_us=5), Window(start_us=7, end_us=9)))
    ),
    multimodal=st.none() | st.builds(Multimodal, image_distribution=LENGTHS),
    reasoning=st.none()
    | st.builds(
        Reasoning,
        reason_ratio_distribution=LENGTHS,
        multi_turn=st.none()
        | st.builds(MultiTurn, max_rounds=st.integers(1, 5), single_session=st.booleans()),
    ),
    timeout=st.none() | st.integers(0, 9),
    closed_loop=st.none() | st.booleans(),
    concurrency=st.just(0),
    think_time_us=st.just(0),
    factory=st.none(),
)
SPECS = st.builds(
    WorkloadSpec,
    version=st.just("2"),
    seed=st.integers(-9, 9),
    category=st.sampled_from(["", "language"]),
    clients=st.lists(CLIENTS, max_size=3).map(tuple),
    cohorts=st.just(()),
    aggregate_rate=st.floats(0, 1e9),
    horizon=st.integers(0, 9),
    num_requests=st.integers(0, 9),
    servegen_data=st.none(),
    inference_perf=st.none(),
)


@settings(max_examples=100, deadline=None)
@given(SPECS)
def test_what_is_written_reads_back(spec: WorkloadSpec) -> None:
    assert parse_spec(spec_text(spec), "test") == spec


# -------------------------------------------------------------------------------------- composing


def simple(rate: float, *fractions: float) -> WorkloadSpec:
    two = Distribution(type="constant", params={"value": 2.0})
    return WorkloadSpec(
        version="2",
        aggregate_rate=rate,
        clients=tuple(
            Client(
                id=f"c{fraction:g}",
                rate_fraction=fraction,
                arrival=Arrival(process="poisson"),
                input_distribution=two,
                output_distribution=two,
            )
            for fraction in fractions
        ),
    )


def test_a_share_for_each_file() -> None:
    made = compose([("a", simple(10, 0.6, 0.4)), ("b", simple(5, 2))])
    assert [c.rate_fraction for c in made.clients] == [
        0.39999999999999997,
        0.26666666666666666,
        0.6666666666666666,
    ]
    assert made.aggregate_rate == 15


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 1e6), st.integers(1, 4)), min_size=1, max_size=4))
def test_composed_shares_add_up(parts: list[tuple[float, int]]) -> None:
    specs = [("s", simple(rate, *[1 / n] * n)) for rate, n in parts]
    made = compose(specs)
    assert sum(client.rate_fraction for client in made.clients) == pytest.approx(1)
    validate(made)


def test_losses_are_told(capsys: Any) -> None:
    text = (DATA / "compose/c2.yaml").read_bytes()
    compose([("c2.yaml", parse_spec(text, "c2.yaml"))])
    shown = capsys.readouterr().err
    assert "c2.yaml: cohorts are not composed and left out" in shown
    assert "c2.yaml: the rate fractions of its clients add up to 2, not 1" in shown


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([], "--from: name at least one"),
        ([simple(-1, 1)], "must be finite and at least 0, not -1"),
        ([simple(float("inf"), 1)], "must be finite and at least 0, not inf"),
        (
            [simple(0, 1)],
            "aggregate_rate is missing, or 0; it must be a finite number greater than 0",
        ),
        ([simple(1)], "nothing makes requests"),
        ([simple(1, 1), attrs.evolve(simple(1, 1), category="x"), simple(1, -1)], r"clients\[2\]"),
    ],
)
def test_what_cannot_be_composed(specs: list[WorkloadSpec], message: str) -> None:
    with pytest.raises(BlisError, match=message):
        compose([("s", spec) for spec in specs])


# -------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("compose", "--from: name at least one"),
        ("compose --from nowhere.yaml", "nowhere.yaml"),
        ("convert preset", "--name: is required"),
        ("convert preset --name chat", "unknown workload preset 'chat'"),
        ("convert preset --name chatbot --rate 0", "--rate: must be finite"),
        ("convert preset --name chatbot --rate inf", "--rate: must be finite"),
        ("convert preset --name chatbot --num-requests 0", "--num-requests: must be greater"),
        ("convert servegen", "--path: is required"),
        ("convert servegen --path nowhere", "nowhere"),
        ("convert inference-perf", "--spec: is required"),
        (f"convert inference-perf --spec {DATA}/compose/c1.yaml", "has no section inference_perf"),
        ("convert --bogus", "--bogus"),
    ],
)
def test_wrong_options(
    argv: str, message: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(argv.split()) != 0
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""


def test_a_prefix_of_a_preset(tmp_path: Path, capsys: Any) -> None:
    lengths = {f"{side}_tokens{end}": 5 for side in ("prompt", "output") for end in ("", "_stdev")}
    lengths |= {
        f"{side}_tokens_{end}": 9 for side in ("prompt", "output") for end in ("min", "max")
    }
    file = tmp_path / "defaults.yaml"
    file.write_text(json.dumps({"workloads": {"mine": {"prefix_tokens": 12, **lengths}}}))
    assert main(["convert", "preset", "--name", "mine", "--defaults-filepath", str(file)]) == 0
    (client,) = parse_spec(capsys.readouterr().out, "out").clients
    assert (client.prefix_group, client.prefix_length, client.id) == ("shared", 12, "preset-mine")


@pytest.mark.parametrize("argv", [["convert"], ["convert", "-h"], ["convert", "azur"]])
def test_usage(argv: list[str], capsys: Any) -> None:
    assert main(argv) == 0
    shown = capsys.readouterr()
    assert "inference-perf" in shown.out
    assert "mooncake" in shown.out
    assert ("did you mean 'azure'?" in shown.err) == (argv[-1] == "azur")

"""Reading of workload specifications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from blis_core.errors import BlisError
from blis_core.structuring import structure
from blis_core.workload.spec import (
    Arrival,
    Client,
    Cohort,
    FactoryPoisson,
    Lifecycle,
    MultiTurn,
    Reasoning,
    Window,
    WorkloadSpec,
    load_spec,
    parse_spec,
    upgrade,
)
from tests.workload.spec_verdicts import CASES, LOAD_ERROR, verdict


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_recorded_loading(case: dict[str, Any]) -> None:
    assert (verdict(case["yaml"]) == LOAD_ERROR) == (case["result"] == "load_error")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "clients: [{arrival: {cv: fast}}]",
            "w: clients[0].arrival.cv: must be a number, not fast",
        ),
        ("clients: [{}, {arival: {}}]", "w: clients[1]: unknown key 'arival'; did you mean 'arriv"),
        ("seed: 1\nseed: 2", "w, line 2: key 'seed' is given twice"),
        ("clients: [{factory: {rate_per_us: 1}}]", "w: clients[0]: unknown key 'factory'"),
        (
            "clients: [{input_distribution: {type: constant, value: 3}}]",
            (
                "w: clients[0].input_distribution: unknown key 'value'; known keys: file, params,"
                " type (what a type asks for stands in params)"
            ),
        ),
        ("cohorts: [{lifecycle: {}}]", "w: cohorts[0]: unknown key 'lifecycle'"),
        (
            "servegen_data: {span_start: 1:30}",
            "w: servegen_data.span_start: must be a whole number",
        ),
    ],
)
def test_loading_errors_name_the_place(text: str, message: str) -> None:
    with pytest.raises(BlisError) as problem:
        parse_spec(text, "w")
    assert str(problem.value).startswith(message)
    assert "\n" not in str(problem.value)


def test_every_part() -> None:
    spec = parse_spec(
        """
        version: 2
        seed: 0x10
        clients:
          - id: on
            tenant_id: 0012
            rate_fraction: 1_0.5
            arrival: {process: gamma, cv: 2}
            streaming: yes
            lifecycle: {windows: [{start_us: 1e6, end_us: 2_000_000}]}
            reasoning: {multi_turn: {max_rounds: 017, context_growth: accumulate}}
            timeout: 2.7
            closed_loop: off
        cohorts: [{population: 3, spike: null, diurnal: {peak_hour: 5}}]
        inference_perf: {stages: [{rate: 5, duration: 60}]}
        """,
        "w",
    )
    assert spec.seed == 16
    assert spec.clients == (
        Client(
            id="on",
            tenant_id="0012",
            rate_fraction=10.5,
            arrival=Arrival(process="gamma", cv=2.0),
            streaming=True,
            lifecycle=Lifecycle(windows=(Window(start_us=1_000_000, end_us=2_000_000),)),
            reasoning=Reasoning(multi_turn=MultiTurn(max_rounds=15, context_growth="accumulate")),
            timeout=2,
            closed_loop=False,
        ),
    )
    (cohort,) = spec.cohorts
    assert cohort.spike is None
    assert cohort.diurnal is not None
    assert spec.inference_perf is not None
    assert spec.inference_perf.stages[0].duration == 60


def test_closed_loop_by_default_if_and_only_if_multi_turn() -> None:
    rounds = Reasoning(multi_turn=MultiTurn(max_rounds=2))
    assert not Client().is_closed_loop
    assert not Client(reasoning=Reasoning()).is_closed_loop
    assert Client(reasoning=rounds).is_closed_loop
    assert not Client(reasoning=rounds, closed_loop=False).is_closed_loop
    assert Client(closed_loop=True).is_closed_loop


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    with pytest.raises(BlisError, match=r"cannot read workload specification .*w\.yaml"):
        load_spec(str(path))
    path.write_text("seed: 3\n")
    assert load_spec(str(path)) == WorkloadSpec(version="2", seed=3)


@pytest.mark.parametrize("version", ["", "1"])
def test_upgrade(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"""
        version: {version!r}
        clients: [{{slo_class: batch}}, {{slo_class: realtime}}, {{slo_class: interactive}}]
        cohorts: [{{slo_class: realtime}}]
        """
    spec = parse_spec(text, "old.yaml")
    assert spec.version == "2"
    assert [client.slo_class for client in spec.clients] == ["batch", "critical", "standard"]
    assert spec.cohorts[0].slo_class == "realtime"
    assert capsys.readouterr().err.count("old.yaml: clients[") == 2
    assert upgrade(spec) == (spec, [])


def test_later_versions_are_left_alone() -> None:
    spec = WorkloadSpec(version="3", clients=(Client(slo_class="realtime"),))
    assert upgrade(spec) == (spec, [])


# ------------------------------------------------------------------------------------- properties


def _values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type, as YAML could hold them."""
    scalars = {
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(),
        bool: st.booleans(),
        str: st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=6),
    }
    if kind in scalars:
        return scalars[kind]
    if attrs.has(kind):
        return _mappings(kind)
    arguments = kind.__args__
    if kind == dict[str, float]:
        return st.dictionaries(scalars[str], scalars[float], max_size=3)
    if type(None) in arguments:
        return st.none() | _values(arguments[0])
    return st.lists(_values(arguments[0]), max_size=2)


def _mappings(cls: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings with some of the keys of a class of the schema."""
    fields = attrs.fields(attrs.resolve_types(cls))
    keys = {f.name: _later(f.type) for f in fields if f.name != "factory"}
    return st.fixed_dictionaries({}, optional=keys)


def _later(kind: Any) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: _values(kind))


def _plain(value: Any) -> Any:
    """A structured value as plain data without what is unset."""
    if attrs.has(type(value)):
        return {
            f.name: _plain(getattr(value, f.name))
            for f in attrs.fields(type(value))
            if getattr(value, f.name) is not None
        }
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


@given(_mappings(Client))
def test_yaml_says_the_same_as_plain_data(data: dict[str, Any]) -> None:
    text = yaml.safe_dump({"version": "2", "clients": [data]}, sort_keys=False)
    (client,) = parse_spec(text, "w").clients
    assert repr(client) == repr(structure(data, Client, "data"))
    assert repr(structure(_plain(client), Client, "again")) == repr(client)


def test_shared_fields_of_clients_and_cohorts_have_one_type() -> None:
    clients = {f.name: f.type for f in attrs.fields(attrs.resolve_types(Client))}
    cohorts = {f.name: f.type for f in attrs.fields(attrs.resolve_types(Cohort))}
    shared = clients.keys() & cohorts.keys()
    assert len(shared) == 16
    assert {name: clients[name] for name in shared} == {name: cohorts[name] for name in shared}


def test_the_schema_is_immutable() -> None:
    client = Client(factory=FactoryPoisson(1e-6))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        client.id = "other"  # type: ignore[misc]

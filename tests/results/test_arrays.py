"""Requests as columns: the same values as in the records, whatever became of the requests."""

import builtins
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.api import BlisError, RequestArrays, RequestList, simulate
from blis_core.contracts import COMPLETED, QUEUED, RUNNING, TIMED_OUT, Request
from blis_core.results.aggregate import build_results
from tests.results.records import instance, record

TIMES = st.integers(-1, 10**9).map(lambda time: max(time, -1))
NAMES = st.text("ab/é-0", max_size=5)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    made = record(
        draw(NAMES),
        draw(st.integers(0, 2**62)),
        prompt=draw(st.integers(0, 10**6)),
        output=draw(st.integers(0, 10**6)),
        ttft=draw(TIMES),
        e2e=draw(TIMES),
        delay=draw(TIMES),
        instance=draw(NAMES),
        **{name: draw(NAMES) for name in ("slo_class", "tenant", "client", "session", "model")},
        round_index=draw(st.integers(0, 9)),
    )
    made.state = draw(st.sampled_from([COMPLETED, QUEUED, RUNNING, TIMED_OUT]))
    made.length_capped = draw(st.booleans())
    made.gateway_enqueue, made.gateway_dispatch = draw(st.tuples(TIMES, TIMES))
    return made


def as_rows(arrays: RequestArrays) -> list[tuple[Any, ...]]:
    """The rows as plain values, None for NaN."""
    columns = [column.tolist() for column in arrays.columns().values()]
    rows = zip(*columns, strict=True)
    return [tuple(None if value != value else value for value in row) for row in rows]


def expected(r: Request) -> tuple[Any, ...]:
    waited = r.gateway_dispatch - r.gateway_enqueue
    held = r.gateway_enqueue > 0 and r.gateway_dispatch > 0 and waited >= 0
    return (
        *(r.id, r.state, r.arrival, r.prompt_len, r.output_len),
        r.ttft if r.ttft >= 0 else None,
        r.mean_itl_us() if r.e2e >= 0 and r.mean_itl_us() >= 0 else None,
        r.e2e if r.e2e >= 0 else None,
        r.scheduling_delay if r.scheduling_delay >= 0 else None,
        waited if held else None,
        *(r.assigned, r.slo_class, r.tenant, r.client, r.session, r.round_index, r.model),
        r.length_capped,
    )


@given(st.lists(requests(), max_size=6))
def test_columns_have_what_the_records_have(made: list[Request]) -> None:
    arrays = RequestList(made).arrays()
    assert as_rows(arrays) == [expected(r) for r in made]
    assert {len(column) for column in arrays.columns().values()} == {len(made)}
    assert len(arrays) == len(made)
    assert arrays.completed.tolist() == [r.state == COMPLETED for r in made]
    chosen = arrays.where(arrays.completed)
    assert as_rows(chosen) == [expected(r) for r in made if r.state == COMPLETED]


def test_types_do_not_depend_on_the_contents() -> None:
    none, some = RequestList().arrays(), RequestList([record(ttft=5)]).arrays()
    for name, column in none.columns().items():
        assert column.dtype.kind == some.columns()[name].dtype.kind, name
    assert repr(some) == "RequestArrays(1 requests)"


def test_they_agree_with_the_results_and_the_json() -> None:
    results = simulate(
        model="qwen/qwen3-14b",
        rate=30.0,
        num_requests=120,
        num_instances=2,
        horizon=6_000_000,
        timeout=3,
    )
    arrays = results.requests.arrays()
    cluster = results.cluster
    assert arrays.completed.sum() == cluster.completed_requests > 0
    assert (arrays.state == TIMED_OUT).sum() == cluster.timed_out_requests > 0
    for name, percentile in (("ttft", 99), ("ttft", 50), ("e2e", 90)):
        times = getattr(arrays, f"{name}_us")
        figure = getattr(cluster, f"{name}_p{percentile}_ms")
        assert np.nanpercentile(times, percentile) / 1000 == pytest.approx(figure)
    document = json.loads(results.to_json())
    rows = {row["id"]: row for row in document["requests"]}
    assert len(rows) == len(arrays)
    names = list(arrays.columns())
    for row in as_rows(arrays):
        assert {name: rows[row[0]][name] for name in names} == dict(zip(names, row, strict=True))


def test_disaggregated_requests_are_whole() -> None:
    results = simulate(
        model="qwen/qwen3-14b",
        rate=10.0,
        num_requests=20,
        num_instances=2,
        prefill_instances=1,
        decode_instances=1,
        pd_decider="always",
    )
    arrays = results.requests.arrays()
    assert len(arrays) == 20
    assert np.isfinite(arrays.mean_itl_us).all()


def test_a_frame() -> None:
    results = build_results(
        [instance(record("a", ttft=5, e2e=9, tenant="x"), record("b", 1, ttft=7, tenant="y"))],
        several=False,
    )
    frame = results.requests.frame()
    assert list(frame.columns) == list(results.requests.arrays().columns())
    assert frame.groupby("tenant", observed=True)["ttft_us"].mean().to_dict() == {"x": 5, "y": 7}
    assert frame["e2e_us"].isna().tolist() == [False, True]
    assert RequestList().frame().empty


def test_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refusing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(BlisError, match=r"pandas is not installed; pip install pandas, or use arr"):
        RequestList([record()]).frame()
    assert len(RequestList([record()]).arrays()) == 1

"""Texts that describe think times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.errors import BlisError
from blis_core.rng import GoRand
from blis_core.workload.think_time import parse_think_time

CASES = json.loads((Path(__file__).parents[1] / "data" / "think_times.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["text"])
def test_recorded(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(BlisError, match="think time distribution"):
            parse_think_time(case["text"])
        return
    sampler = parse_think_time(case["text"])
    if "values" in case:
        rng = GoRand(case["seed"])
        assert sampler.sample(rng, len(case["values"])) == case["values"]
        if "next_int63" in case:
            assert rng.int63() == case["next_int63"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lognormal", "must begin with 'constant:' or 'lognormal:'"),
        ("uniform:a=1", "must begin with 'constant:' or 'lognormal:'"),
        ("constant:", "value is missing"),
        ("constant:value", "'value' is not of the form key=value"),
        ("constant:value=1,value=1", "value is given twice"),
        ("constant:value=1m", "'1m' is not a number"),
        ("constant:value=-1s", "value must be a finite time of at least 0, not -1.0"),
        ("lognormal:mu=inf,sigma=1", "mu must be finite, not inf"),
        ("lognormal:mu=1,sigma=0", "sigma must be greater than 0, not 0.0"),
        ("lognormal:mu=1,sigma=1,min=2s,max=5ms", "min (2000000 us) must not exceed max (5000 us)"),
    ],
)
def test_errors_quote_the_text(text: str, message: str) -> None:
    with pytest.raises(BlisError) as problem:
        parse_think_time(text)
    assert str(problem.value) == f"think time distribution {text!r}: {message}"


@given(
    st.floats(-5, 5),
    st.floats(0.01, 3),
    st.integers(0, 10**7),
    st.integers(0, 10**7),
    st.integers(0, 2**32),
)
def test_bounds_hold(mu: float, sigma: float, low: int, span: int, seed: int) -> None:
    high = low + span
    text = f"lognormal:mu={mu!r},sigma={sigma!r},min={low}us,max={high}us"
    values = parse_think_time(text).sample(GoRand(seed), 20)
    assert all(max(low, 1) <= value <= (max(high, 1) or value) for value in values if high)
    assert all(value >= 1 for value in values)


@given(st.text("constaloger:=,.0123456789umsvi-+e_ xf", max_size=30) | st.text(max_size=10))
def test_any_text_gives_a_sampler_or_one_line(rest: str) -> None:
    for text in (rest, "constant:value=" + rest, "lognormal:mu=1,sigma=" + rest):
        try:
            assert parse_think_time(text).next(GoRand(1)) >= 1
        except BlisError as problem:
            message = str(problem)
            assert "\n" not in message

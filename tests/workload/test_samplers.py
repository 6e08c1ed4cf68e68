"""Arrival and length samplers against recorded values, draws counted by the number that follows."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.contracts import ArrivalSampler, ArrivalSetup, LengthSampler, LengthSetup
from blis_core.errors import BlisError
from blis_core.rng import GoRand
from blis_core.workload import arrivals, lengths, numeric

CASES = json.loads((Path(__file__).parents[1] / "data" / "samplers.json").read_text())

ARRIVALS: dict[str, type[Any]] = {
    "constant": arrivals.ConstantArrivals,
    "poisson": arrivals.PoissonArrivals,
    "gamma": arrivals.GammaArrivals,
    "weibull": arrivals.WeibullArrivals,
}
LENGTHS: dict[str, type[Any]] = {
    "constant": lengths.ConstantLengths,
    "gaussian": lengths.GaussianLengths,
    "exponential": lengths.ExponentialLengths,
    "pareto_lognormal": lengths.ParetoLognormalLengths,
    "lognormal": lengths.LognormalLengths,
    "empirical": lengths.EmpiricalLengths,
}
UNITS = {"us": 1, "ms": 1000, "s": 1_000_000}


def length_sampler(kind: str, **params: float) -> LengthSampler:
    sampler: LengthSampler = LENGTHS[kind](LengthSetup(params=params))
    return sampler


def think_time(spec: str) -> LengthSampler:
    """Sampler of a think time text: ln(seconds) becomes ln(us), times become us."""
    kind, _, items = spec.partition(":")
    params = {}
    for item in items.split(","):
        name, _, text = item.partition("=")
        number = text.rstrip("ums")
        factor = UNITS[text.removeprefix(number) or "ms"]
        params[name] = float(number) * factor if name in ("min", "max", "value") else float(number)
    if kind == "lognormal":
        params["mu"] += math.log(1e6)
    return length_sampler(kind, **params)


def sampler_of(case: dict[str, Any], rng: GoRand) -> ArrivalSampler | LengthSampler:
    args = case["args"]
    sampler: ArrivalSampler | LengthSampler
    match case["kind"]:
        case "arrival":
            setup = ArrivalSetup(rate_per_us=case.get("rate_per_us") or 0.0, cv=args.get("cv"))
            sampler = ARRIVALS[args["process"]](setup)
        case "length":
            sampler = length_sampler(args["type"], **args["params"])
        case "think_time":
            sampler = think_time(args["spec"])
        case _:
            sampler = arrivals.NormalizedExponentialArrivals(
                args["count"], args["duration_us"], rng
            )
    return sampler


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("bulk", [True, False], ids=["bulk", "single"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['kind']}-{c['args']}")
def test_recorded_values(case: dict[str, Any], bulk: bool) -> None:
    rng = GoRand(case["rng_seed"])
    sampler = sampler_of(case, rng)
    n = len(case["values"])
    values = sampler.sample(rng, n) if bulk else [sampler.next(rng) for _ in range(n)]
    assert values == case["values"]
    assert rng.int63() == case["next_int63"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("gaussian", "missing: mean, std_dev, min, max"),
        ("exponential", "missing: mean"),
        ("pareto_lognormal", "missing: alpha, xm, mu, sigma, mix_weight"),
        ("lognormal", "missing: mu, sigma"),
        ("constant", "missing: value"),
        ("empirical", "at least one length"),
    ],
)
def test_missing_parameters_are_named(kind: str, message: str) -> None:
    with pytest.raises(BlisError, match=message):
        length_sampler(kind)


def test_one_missing_parameter() -> None:
    with pytest.raises(BlisError, match=r"missing: max$"):
        length_sampler("gaussian", mean=1, std_dev=1, min=1)


def test_a_parameter_of_another_name_is_told() -> None:
    with pytest.raises(BlisError, match=r"missing: std_dev; not one of them: stdev$"):
        length_sampler("gaussian", mean=1, stdev=1, min=1, max=3)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3.9", 3), ("5abc", 5), ("1e2", 1), ("1_000", 1), ("0x20", 0), ("  +8", 8), ("010", 10)],
)
def test_empirical_lengths_are_read_loosely(text: str, value: int) -> None:
    assert length_sampler("empirical", **{text: 1.0}).next(GoRand(1)) == value


def test_empirical_errors() -> None:
    with pytest.raises(BlisError, match="'abc' is not a whole number"):
        length_sampler("empirical", abc=1.0)
    with pytest.raises(BlisError, match="-3 is negative"):
        length_sampler("empirical", **{"-3": 1.0})


def test_empirical_without_a_positive_total_does_not_fail() -> None:
    sampler = length_sampler("empirical", **{"1": 1.0, "2": 1.0, "3": -2.0})
    assert set(sampler.sample(GoRand(1), 20)) <= {1, 2}


@pytest.mark.parametrize("cv", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("process", ["gamma", "weibull"])
def test_cv_must_be_positive(process: str, cv: float) -> None:
    with pytest.raises(BlisError, match=r"arrival\.cv"):
        ARRIVALS[process](ArrivalSetup(rate_per_us=1e-5, cv=cv))


@pytest.mark.parametrize(
    ("rate", "gap"),
    [(1, 1000000), (3, 333333), (5, 199999), (7.3, 136986), (10, 99999), (25, 40000), (1000, 1000)],
)
def test_constant_gap_is_truncated(rate: float, gap: int) -> None:
    setup = ArrivalSetup(rate_per_us=rate * (1.0 / 1.0) / 1e6)
    assert arrivals.ConstantArrivals(setup).next(GoRand(1)) == gap


@pytest.mark.parametrize(
    ("cv", "shape"),
    [
        (0.3, 3.70966796875),
        (0.5, 2.0999511718750004),
        (1, 0.9993682861328124),
        (10.4, 0.2299510955810547),
    ],
)
def test_weibull_shape(cv: float, shape: float) -> None:
    assert arrivals._weibull_shape(cv) == (shape, True)


def test_weibull_shape_of_a_tiny_cv_does_not_converge() -> None:
    assert arrivals._weibull_shape(0.01) == (100.0, False)


@pytest.mark.parametrize(("count", "duration"), [(0, 10), (11, 10), (10_000_001, 10**9)])
def test_normalized_gaps_that_cannot_be(count: int, duration: int) -> None:
    with pytest.raises(BlisError):
        arrivals.NormalizedExponentialArrivals(count, duration, GoRand(1))


POSITIVE = st.floats(1e-3, 1e5)
DISTRIBUTIONS = st.one_of(
    st.fixed_dictionaries(
        {"mean": POSITIVE, "std_dev": POSITIVE, "min": POSITIVE, "max": POSITIVE}
    ).map(lambda p: ("gaussian", p)),
    st.fixed_dictionaries({"mean": st.floats(-1e308, 1e308)}).map(lambda p: ("exponential", p)),
    st.dictionaries(st.integers(0, 500).map(str), st.floats(-1, 10), min_size=1).map(
        lambda p: ("empirical", p)
    ),
)


@settings(max_examples=60, deadline=None)
@given(distribution=DISTRIBUTIONS, seed=st.integers(0, 2**40), sizes=st.lists(st.integers(0, 400)))
def test_bulk_lengths_equal_single_ones(
    distribution: tuple[str, dict[str, float]], seed: int, sizes: list[int]
) -> None:
    kind, params = distribution
    sampler = length_sampler(kind, **params)
    bulk, single = GoRand(seed), GoRand(seed)
    for n in sizes:
        assert sampler.sample(bulk, n) == [sampler.next(single) for _ in range(n)]
    assert bulk.int63() == single.int63()


@given(st.floats(-1e19, 1e19))
def test_rounding(x: float) -> None:
    if not -(2.0**63) <= x < 2.0**63:
        assert numeric.round_int64(x) == numeric.trunc_int64(x) == numeric.MIN_INT64
        return
    assert abs(numeric.round_int64(x) - x) <= 0.5
    assert numeric.round_int64(-x) == -numeric.round_int64(x) or x == -(2.0**63)


def test_rounding_of_special_values() -> None:
    values = [numeric.round_int64(x) for x in (0.5, -0.5, 1.5, 2.5, 0.49999999999999994)]
    assert values == [1, -1, 2, 3, 0]
    assert numeric.round_int64(math.nan) == numeric.trunc_int64(math.inf) == numeric.MIN_INT64
    assert numeric.exp(1000.0) == math.inf
    assert numeric.power(0.0, -1.0) == math.inf
    assert numeric.divide(-1.0, 0.0) == -math.inf
    assert math.isnan(numeric.divide(0.0, 0.0))

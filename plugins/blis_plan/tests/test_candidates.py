"""Candidates: lists, prices, what fits."""

from __future__ import annotations

import pytest

from blis_core.api import BlisError, RunConfig, UsageError
from blis_plan.candidates import make_groups, parse_names, parse_numbers, parse_prices
from blis_plan.load import SHARED


def made(model="qwen/qwen3-14b", **changes):
    base = {name: getattr(RunConfig(model=model), name) for name in SHARED}
    choice = {
        "hardware": ["H100"],
        "tp": [1],
        "max_running": [256],
        "max_tokens": [2048],
        "instances": (1, 2, 3, 4),
        "prices": {},
        "max_gpus": 0,
    }
    return make_groups(base, **{**choice, **changes})


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("3", (3,)), ("4,1,4", (1, 4)), ("1-3", (1, 2, 3)), (" 2 - 4 , 8", (2, 3, 4, 8))],
)
def test_numbers(text, numbers):
    assert parse_numbers("--tp", text) == numbers


@pytest.mark.parametrize("text", ["", "0", "1-", "3-1", "1,,2", "x", "1-999999", "-3", "1.5"])
def test_wrong_numbers(text):
    with pytest.raises(UsageError, match="--tp"):
        parse_numbers("--tp", text)


def test_names_and_prices():
    assert parse_names("--hardware", "H100, L40S,H100") == ("H100", "L40S")
    assert parse_prices("H100=2.5, L40S=1") == {"H100": 2.5, "L40S": 1.0}
    assert parse_prices("") == {}


@pytest.mark.parametrize(
    "text", ["H100", "H100=", "H100=0", "H100=-1", "H100=inf", "=2", "a=1,a=2"]
)
def test_wrong_prices(text):
    with pytest.raises(UsageError, match="--price"):
        parse_prices(text)


def test_an_empty_name():
    with pytest.raises(UsageError, match="--hardware"):
        parse_names("--hardware", "H100,")


def test_every_combination_once():
    groups = made(hardware=["H100", "L40S"], tp=[1, 2], max_running=[64, 128])
    assert [(g.hardware, g.tp, g.max_running) for g in groups] == [
        (gpu, tp, most) for gpu in ("H100", "L40S") for tp in (1, 2) for most in (64, 128)
    ]
    assert all(not g.misfit for g in groups)


def test_the_catalogue_chooses_what_is_not_given():
    (group,) = made(hardware=["", "H100"], tp=[0, 1])
    assert (group.hardware, group.tp) == ("H100", 1)


def test_a_model_that_does_not_fit_says_so():
    """The core would go on with a number of blocks that no GPU has."""
    one, four = made("meta-llama/llama-3.1-70b-instruct", hardware=["H100"], tp=[1, 4])
    assert "weights and activations need" in one.misfit
    assert four.misfit == ""


def test_every_latency_model_says_so():
    base = {
        name: getattr(RunConfig(model="meta-llama/llama-3.1-70b-instruct"), name) for name in SHARED
    }
    base["latency_model"] = "kernels"
    (group,) = make_groups(
        base,
        hardware=["H100"],
        tp=[1],
        max_running=[256],
        max_tokens=[2048],
        instances=[1],
        prices={},
        max_gpus=0,
    )
    assert group.misfit


def test_an_unknown_gpu_harms_no_other():
    wrong, right = made(hardware=["H1000", "H100"], prices={"H100": 2.0})
    assert "H1000" in wrong.misfit
    assert (right.misfit, right.cost(3)) == ("", 6.0)


def test_a_price_for_all_or_none():
    with pytest.raises(BlisError, match="none for L40S"):
        made(hardware=["H100", "L40S"], prices={"H100": 2.0})
    first, second = made(hardware=["H100", "L40S"], tp=[2])
    assert (first.cost(3), second.cost(3)) == (6.0, 6.0)


def test_most_gpus():
    one, two, eight = made(tp=[1, 2, 8], max_gpus=4)
    assert (one.instances, two.instances) == ((1, 2, 3, 4), (1, 2))
    assert "--max-gpus is 4" in eight.misfit

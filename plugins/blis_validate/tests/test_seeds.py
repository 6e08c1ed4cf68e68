"""Several simulations of one record."""

from __future__ import annotations

import csv
import io
import json
import statistics

import pytest

from blis_core.cli.main import main
from blis_validate.figures import Figures
from blis_validate.runner import Outcome
from blis_validate.seeds import median_outcome


def outcome(seed, *, overloaded=False, **values):
    figures = Figures(values=values, completed=10 + seed, failed=0, overloaded=overloaded)
    return Outcome(id="a", seed=seed, figures=figures, stages=(figures,), warnings=(f"w{seed}",))


def test_the_median_of_each_metric():
    parts = [outcome(1, ttft_mean=10.0, itl_mean=2.0), outcome(2, ttft_mean=900.0)]
    median = median_outcome([*parts, outcome(3, ttft_mean=12.0, itl_mean=3.0)])
    assert median.figures.values == {"ttft_mean": 12.0, "itl_mean": 2.5}
    assert median.stages[0].values == median.figures.values
    assert median.figures.completed == 12
    assert median.warnings == ("w1", "w2", "w3")


@pytest.mark.parametrize(("flags", "expected"), [("100", False), ("110", True), ("10", True)])
def test_overloaded_is_what_most_are(flags, expected):
    parts = [outcome(i, overloaded=flag == "1") for i, flag in enumerate(flags)]
    assert median_outcome(parts).figures.overloaded is expected


def test_one_is_taken_as_it_is():
    single = outcome(7, e2e_mean=3.0)
    assert median_outcome([single]) is single


def test_one_that_was_not_simulated():
    refused = Outcome(id="a", seed=2, reason="too large")
    assert median_outcome([outcome(1, e2e_mean=3.0), refused]) is refused


@pytest.fixture
def blis(capsys, make_record, write_dataset):
    """``blis validate`` on one record, with seeds 5, 6 and 7."""
    path = write_dataset(make_record(measured__itl_ms={"mean": 10.0}))

    def run(*arguments):
        code = main(["validate", path, "--seed", "5", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_the_median_counts_and_the_seeds_are_shown(blis):
    _, out, _ = blis("--seeds", "3", "--output", "json")
    document = json.loads(out)
    (record,) = document["records"]
    by_seed = record["seeds"]
    assert [entry["seed"] for entry in by_seed] == [5, 6, 7]
    ttft = [entry["simulated"]["ttft_mean"] for entry in by_seed]
    assert len(set(ttft)) == 3
    assert record["simulated"]["ttft_mean"] == pytest.approx(statistics.median(ttft))
    names = ["simulated", *(f"simulated, seed {seed}" for seed in (5, 6, 7))]
    assert list(record["errors_percent"]) == list(document["summary"]) == names
    errors = [record["errors_percent"][name]["ttft_mean"] for name in names]
    assert errors[0] == pytest.approx(statistics.median(errors[1:]))

    _, single, _ = blis("--output", "json")
    assert json.loads(single)["records"][0]["simulated"] == by_seed[0]["simulated"]


def test_many_processes_give_the_same(blis):
    arguments = ["--seeds", "3", "--output", "csv"]
    one, many = blis(*arguments, "--jobs", "1"), blis(*arguments, "--jobs", "2")
    assert one == many
    rows = list(csv.DictReader(io.StringIO(one[1])))
    assert [r["predictor"] for r in rows if r["metric"] == "itl_mean"] == [
        "simulated",
        *(f"simulated, seed {seed}" for seed in (5, 6, 7)),
    ]
    itl = next(r for r in rows if r["metric"] == "itl_mean")
    assert float(itl["predicted"]) == pytest.approx(
        float(itl["measured"]) * (1 + float(itl["error_percent"]) / 100), rel=1e-4
    )


def test_text_shows_the_spread(blis):
    _, out, _ = blis("--seeds", "3")
    assert "Lowest and highest error of the seeds in %" in out
    assert "0 of 3" in out
    assert "simulated, seed 7" in out
    _, out, _ = blis()
    assert "seed" not in out


def test_at_least_one(blis):
    code, _, err = blis("--seeds", "0")
    assert code == 2
    assert "--seeds" in err

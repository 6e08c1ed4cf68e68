"""Sweep files and the command line: what they mean, and what is wrong with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.errors import BlisError
from blis_sweep.definition import Draft
from blis_sweep.points import expand
from blis_sweep.sweep import draft_of

BASE = {"model": "acme/small", "rate": 8}
FILE = """
base: run --model acme/small --rate 8 --output table
grid:
  num-instances: [1, 2]
  hardware: [H100, null]
points:
- {name: plain}
- {name: ours, routing-policy: weighted, routing_scorers: "queue-depth:1,load-balance:2"}
seeds: [5, 3]
metrics: [ttft_p99_ms, slo.critical.e2e_p99_ms]
compare: {baseline: plain, metrics: [e2e_mean_ms]}
confidence: 0.9
"""


def document(**keys):
    draft = Draft()
    draft.add_document({"base": BASE, **keys}, "s.yaml")
    return draft.finish()


def line(*base, **keys):
    return draft_of("", base or ["run", "--model", "m/m"], **{"grid": [], "points": [], **keys})


def test_a_file(folder):
    (folder / "s.yaml").write_text(FILE)
    draft = Draft()
    draft.add_file("s.yaml")
    sweep = draft.finish()
    assert sweep.table.command == "run"
    assert sweep.base == {"model": "acme/small", "rate": 8.0}
    assert sweep.axes == {"num_instances": (1, 2), "hardware": ("H100", None)}
    assert [variant.name for variant in sweep.variants] == ["plain", "ours"]
    assert sweep.variants[1].options["routing_scorers"] == "queue-depth:1,load-balance:2"
    assert sweep.seeds == (5, 3)
    assert sweep.metrics == ("ttft_p99_ms", "slo.critical.e2e_p99_ms")
    assert (sweep.baseline, sweep.compared) == ({"point": "plain"}, ("e2e_mean_ms",))
    assert sweep.confidence == 0.9
    assert sweep.varied == ["routing_policy", "routing_scorers", "num_instances", "hardware"]


def test_the_command_line_means_the_same(folder):
    (folder / "s.yaml").write_text(FILE)
    of_file = Draft()
    of_file.add_file("s.yaml")
    of_line = draft_of(
        "",
        ["run", "--model", "acme/small", "--rate", "8"],
        grid=["num-instances=1,2", "--hardware=H100,A100-80"],
        points=[
            "plain: ",
            "ours: --routing-policy weighted --routing-scorers queue-depth:1,load-balance:2",
        ],
    )
    of_line.set_seeds("5,3")
    of_line.set_metrics("ttft_p99_ms,slo.critical.e2e_p99_ms")
    of_line.set_baseline(["plain"])
    of_line.set_confidence(0.9)
    one, other = of_file.finish(), of_line.finish()
    assert other.axes == {"num_instances": (1, 2), "hardware": ("H100", "A100-80")}
    for name in ("base", "variants", "seeds", "metrics", "baseline", "confidence"):
        assert getattr(one, name) == getattr(other, name)


def test_the_command_line_wins_over_the_file(folder):
    (folder / "s.yaml").write_text(FILE)
    draft = draft_of("s.yaml", ["--rate", "4"], grid=["num-instances=3"], points=["third: --tp 2"])
    draft.set_seeds("2")
    sweep = draft.finish()
    assert sweep.base == {"model": "acme/small", "rate": 4.0}
    assert sweep.axes == {"num_instances": (3,), "hardware": ("H100", None)}
    assert [variant.name for variant in sweep.variants] == ["plain", "ours", "third"]
    assert sweep.seeds == (42, 43)


def test_a_file_without_a_base(folder):
    (folder / "s.yaml").write_text("grid: {rate: [1]}\n")
    for command in (["run"], ["replay", "--trace-header", "h", "--trace-data", "d"]):
        words = [*command, "--model", "m/m"]
        if command == ["replay"]:
            with pytest.raises(BlisError, match="blis replay has no option rate"):
                draft_of("s.yaml", words, grid=[], points=[])
        else:
            assert draft_of("s.yaml", ["run", "--model", "m/m"], grid=[], points=[]).finish()


def test_a_replay():
    draft = Draft()
    base = {"model": "m/m", "trace_header": "h.yaml", "trace_data": "d.csv"}
    draft.add_document({"base": base, "grid": {"num-instances": [1, 2]}}, "s")
    assert draft.finish().table.command == "replay"
    draft = line("replay", "--model", "m/m", "--trace-header", "h", "--trace-data", "d")
    assert draft.finish().table.command == "replay"


def test_seeds_are_counted_from_that_of_the_base():
    assert document().seeds == (42,)
    assert document(seeds=3).seeds == (42, 43, 44)
    assert document(base={**BASE, "seed": 7}, seeds=2).seeds == (7, 8)
    assert document(base={**BASE, "seed": 0}).seeds == (0,)
    draft = line()
    for text, seeds in (("4", (42, 43, 44, 45)), ("9,", (9,)), ("1, 2", (1, 2)), ("-1,", (-1,))):
        draft.set_seeds(text)
        assert draft.finish().seeds == seeds


def test_values_with_commas_are_separated_by_semicolons():
    draft = line(grid=["routing-scorers=queue-depth:1,load-balance:2;queue-depth:1"])
    values = ("queue-depth:1,load-balance:2", "queue-depth:1")
    assert draft.finish().axes == {"routing_scorers": values}
    draft = line(grid=["beta-coeffs=1,2,3;", "latency-option=a=1;b=2"])
    assert draft.finish().axes == {
        "beta_coeffs": ((1.0, 2.0, 3.0),),
        "latency_option": (("a=1",), ("b=2",)),
    }


def test_kinds_of_values_in_a_file():
    grid = {
        "beta-coeffs": [[1, 2.5], "3,4"],
        "latency-option": [{"scale": 2, "x": "y"}, ["a=1"], "b=2"],
        "flow-control": [True, False],
        "horizon": [1e6, 2_000_000],
        "vllm-version": ["0.10"],
    }
    axes = document(grid=grid).axes
    assert axes["beta_coeffs"] == ((1.0, 2.5), (3.0, 4.0))
    assert axes["latency_option"] == (("scale=2", "x=y"), ("a=1",), ("b=2",))
    assert axes["flow_control"] == (True, False)
    assert axes["horizon"] == (1_000_000, 2_000_000)


def test_text_is_taken_as_it_was_written(folder):
    (folder / "s.yaml").write_text("base: {model: m/m, vllm-version: 0.10}\n")
    draft = Draft()
    draft.add_file("s.yaml")
    assert draft.finish().base["vllm_version"] == "0.10"


def test_null_takes_an_option_of_the_base_away():
    points = [{"name": "open"}, {"name": "closed", "rate": None, "concurrency": 4}]
    first, second = expand(document(points=points))
    assert first.options["rate"] == 8
    assert "rate" not in second.options
    assert second.options["concurrency"] == 4


@given(
    st.dictionaries(
        st.sampled_from(["rate", "num_instances", "tp", "prompt_tokens", "output_tokens"]),
        st.sets(st.integers(1, 50), min_size=1, max_size=4),
        max_size=3,
    ),
    st.integers(0, 3),
)
def test_points_are_all_combinations(axes, named):
    points = [{"name": f"p{number}", "horizon": number + 1} for number in range(named)]
    grid = {name: sorted(values) for name, values in axes.items()}
    found = expand(document(grid=grid, points=points))
    expected = max(1, named)
    for values in axes.values():
        expected *= len(values)
    assert len(found) == len({point.label for point in found}) == expected
    assert len({tuple(sorted(point.options.items())) for point in found}) == expected
    for point in found:
        assert all(point.options[name] in values for name, values in axes.items())


def test_labels():
    sweep = document(
        points=[{"name": "ours", "tp": 2}, {"tp": 4, "scheduler": "sjf"}],
        grid={"rate": [0.5, 4]},
    )
    assert [point.label for point in expand(sweep)] == [
        "ours, rate=0.5",
        "ours, rate=4",
        "tp=4, scheduler=sjf, rate=0.5",
        "tp=4, scheduler=sjf, rate=4",
    ]
    assert [point.label for point in expand(document())] == ["base"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"gird": {}}, "s.yaml: unknown key 'gird'; did you mean 'grid'?"),
        ({"compare": {"base": "x"}}, "s.yaml: compare: unknown key 'base'; did you mean"),
        ({"compare": {}}, "s.yaml: compare: key 'baseline' is missing"),
        ({"grid": {"ratee": [1]}}, "s.yaml: grid.ratee: blis run has no option ratee; did you"),
        ({"grid": {"rate": 4}}, "s.yaml: grid.rate: must be a list of values"),
        ({"grid": {"rate": []}}, "s.yaml: grid.rate: has no value"),
        ({"grid": {"rate": [1, 1.0]}}, "s.yaml: grid.rate: 1 stands there twice"),
        ({"grid": {"rate": [1, "fast"]}}, "s.yaml: grid.rate[1]: must be a number"),
        ({"grid": {"num-instances": [1.5]}}, "grid.num-instances[0]: must be a whole number"),
        ({"grid": {"seed": [1]}}, "s.yaml: grid.seed: seeds are the same for all points; use"),
        ({"grid": {"metrics-path": ["x"]}}, "metrics-path writes a file for one run"),
        ({"grid": {"log": ["info"]}}, "grid.log: log does not change what is simulated"),
        ({"grid": [1]}, "s.yaml: grid: must be a mapping of options, not a list"),
        ({"points": {"a": 1}}, "s.yaml: points: must be a list, not a mapping"),
        ({"points": ["a"]}, "s.yaml: points[0]: must be a mapping of options"),
        ({"points": [{"tp": 1}, {"tpp": 1}]}, "points[1].tpp: blis run has no option tpp"),
        ({"points": [{"name": "a"}, {"name": "a"}]}, "there are two called 'a'"),
        (
            {"points": [{"name": "a", "rate": 1}], "grid": {"rate": [2]}},
            "point a: rate is an option of the grid, too",
        ),
        ({"seeds": 0}, "s.yaml: seeds: at least one seed is needed"),
        ({"seeds": [1, 1]}, "s.yaml: seeds: 1 stands there twice"),
        ({"seeds": ["a"]}, "s.yaml: seeds: must be a whole number"),
        ({"seeds": []}, "s.yaml: seeds: must be a whole number"),
        ({"metrics": ["ttft_p98_ms"]}, "s.yaml: metrics: there is no metric 'ttft_p98_ms'; did"),
        ({"metrics": ["slo.x.cost"]}, "there is no metric 'slo.x.cost'"),
        ({"confidence": 95}, "s.yaml: confidence: must be above 0 and below 1"),
        ({"base": "walk --model x"}, "s.yaml: base: must begin with run or replay"),
        ({"base": "run --modell x"}, "s.yaml: base: unknown flag --modell; did you mean --model?"),
        ({"base": "run 'x"}, "s.yaml: base: No closing quotation"),
        ({"base": ["run"]}, "s.yaml: base: must be a mapping of options, not a list"),
        ({"base": {}}, "there is nothing to sweep"),
        ({"base": {**BASE, "trace-output": "x"}}, "base.trace-output: trace-output writes a file"),
        ({"compare": {"baseline": "b"}}, "compare: there is no point 'b' (named points: none)"),
        (
            {"compare": {"baseline": "rate=9"}, "grid": {"rate": [1, 2]}},
            "compare: rate is never 9 (values: 1, 2)",
        ),
        (
            {"compare": {"baseline": {"tp": 1}}, "grid": {"rate": [1, 2]}},
            "compare: tp is never 1 (values: none: it is not varied)",
        ),
    ],
)
def test_mistakes_in_a_file(keys, message):
    with pytest.raises(BlisError) as caught:
        document(**keys)
    assert message in str(caught.value)


def test_mistakes_have_lines(folder):
    (folder / "s.yaml").write_text("base: run --model m/m\ngrid:\n  rate: [1, fast]\n")
    with pytest.raises(BlisError, match=r"^s.yaml: grid.rate\[1\]: .*, not fast \(line 3\)$"):
        Draft().add_file("s.yaml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is nothing to sweep: name the command"),
        (["none.yaml"], "cannot read sweep file none.yaml"),
        (["--", "walk"], "after --: must begin with run or replay"),
        (["--", "--model", "x"], "after --: must begin with run or replay"),
        (["--"], "there is nothing to sweep"),
        (["--grid", "rate=1", "run", "--model", "x"], "the command stands behind --"),
        (["--", "run", "--rate", "fast"], "after --: --rate: 'fast' is not a number"),
        (["--", "run", "--model", "x", "--grid", "rate=1"], "of sweep itself stand before --"),
        (["--", "run", "--model", "x", "--plugin", "y"], "of sweep itself stand before --"),
        (["--grid", "rate", "--", "run"], "--grid rate: must have the form OPTION=VALUE"),
        (["--grid", "rate=1,x", "--", "run"], "--grid rate=1,x: --rate: 'x' is not a number"),
        (["--grid", "rat=1", "--", "run"], "no option rat; did you mean rate?"),
        (["--point", "--tp 1", "--", "run"], "must have the form 'NAME: --option value ...'"),
        (["--point", "a: --tpp 1", "--", "run"], "unknown flag --tpp"),
        (["--seeds", "many", "--", "run", "--model", "x"], "--seeds many: must be a number"),
        (["--seeds", "0", "--", "run", "--model", "x"], "at least one seed is needed"),
        (["--metrics", "speed", "--", "run", "--model", "x"], "there is no metric 'speed'"),
        (["--confidence", "2", "--", "run", "--model", "x"], "--confidence: must be above 0"),
        (["--out", "x.xls", "--", "run", "--model", "x"], "must end in .csv or .parquet"),
        (["--out", "x.csv", "--summary", "./x.csv"], "--summary: is the file of --out"),
        (["--out", "no/x.csv", "--", "run", "--model", "x"], "folder no does not exist"),
        (["--summary", ".csv", "--", "run", "--model", "x"], "must end in .csv or .parquet"),
        (["--address", "tcp://x", "--", "run", "--model", "x"], "choose --backend dask or ray"),
        (["--no-cache", "--cache", "x", "--", "run"], "--no-cache: excludes --cache"),
        (["--cache", "marked.py", "--", "run", "--model", "x"], "cannot use the cache folder"),
    ],
)
def test_mistakes_on_the_command_line(sweep, arguments, message):
    code, out, err = sweep(*arguments)
    assert code in (1, 2)
    assert out == ""
    assert message in err
    assert err.count("\n") <= 2  # click adds where to find help

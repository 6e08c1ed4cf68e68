"""The scaling curves: measured, kept, compared, drawn, and shown in the documentation."""

import copy
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
STORED = json.loads((BENCHMARKS / "scaling.json").read_text())
PAGE = (ROOT / "docs" / "performance.md").read_text()


@pytest.fixture(scope="module")
def modules():
    """The scripts, which import each other by their plain names."""
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def scaling(modules):
    return modules("scaling")


def run(*arguments):
    return subprocess.run(
        [sys.executable, BENCHMARKS / "scaling.py", *arguments],
        check=False,
        capture_output=True,
        text=True,
    )


def figures(costs=((1000, 0.3), (10_000, 1.2)), start=0.2, stick=0.05):
    """Figures of one curve, as (requests, CPU seconds)."""
    start_point = {"cpu_s": start, "yardstick_s": stick, "peak_mib": 30}
    points = [
        {
            "study": "requests",
            "curve": "1 instance",
            "x": requests,
            "requests": requests,
            "wall_s": cpu,
            "cpu_s": cpu,
            "peak_mib": 100,
            "yardstick_s": stick,
            "completed_requests": requests,
            "total_output_tokens": requests,
            "e2e_mean_ms": 1.0,
        }
        for requests, cpu in costs
    ]
    return {"schema": 1, "about": "here", "start": start_point, "points": points}


# ------------------------------------------------------------------------------------ measuring


def test_points_are_measured_kept_compared_and_drawn(tmp_path):
    kept = tmp_path / "kept.json"
    pictures = tmp_path / "new" / "pictures"
    small = ["--only", "requests", "--most", "1000", "--runs", "1"]
    done = run(*small, "--json", kept, "--pictures", pictures)
    assert done.returncode == 0, done.stderr
    new = json.loads(kept.read_text())
    assert [(point["curve"], point["completed_requests"]) for point in new["points"]] == [
        ("1 instance", 1000),
        ("64 instances", 1000),
    ]
    assert all(0 < point["cpu_s"] < 60 and point["peak_mib"] > 5 for point in new["points"])
    assert sorted(path.name for path in pictures.iterdir()) == [
        "scaling-requests.png",
        "scaling-requests.svg",
    ]
    new["points"][1]["total_output_tokens"] += 1
    other = tmp_path / "other.json"
    other.write_text(json.dumps(new))
    done = run("--from", kept, "--compare", other, "--pictures", pictures)
    assert done.returncode == 1
    assert done.stdout.count("RESULTS DIFFER") == 1
    assert "1 regression (" in done.stdout


@pytest.mark.parametrize(
    ("study", "x"), [("output", 64), ("output", 16_384), ("prompt", 64), ("prompt", 32_768)]
)
def test_requests_of_all_lengths_are_served(scaling, study, x):
    point = next(point for point in scaling.STUDIES[study]() if point.x == x)
    arguments = list(point.arguments)
    arguments[arguments.index("--num-requests") + 1] = "3"
    metrics = scaling.run_once([scaling.BLIS], arguments).metrics
    prompt, output = (128, x) if study == "output" else (x, 128)
    assert metrics["completed_requests"] == 3
    assert metrics["total_input_tokens"] == 3 * prompt
    assert metrics["total_output_tokens"] == 3 * output
    assert metrics["preemption_count"] == 0


def test_the_studies_reach_as_far_as_they_should(scaling):
    reach = {
        name: (min(point.x for point in study()), max(point.x for point in study()))
        for name, study in scaling.STUDIES.items()
    }
    assert reach == {
        "requests": (1000, 1_000_000),
        "instances": (1, 256),
        "output": (64, 16_384),
        "prompt": (64, 32_768),
    }
    keys = [point[:3] for study in scaling.STUDIES.values() for point in study()]
    assert len(set(keys)) == len(keys)


def test_start_up_is_no_cost_of_a_request(scaling):
    made = figures()
    costs = [scaling.cost_us(point, made["start"]) for point in made["points"]]
    assert costs == pytest.approx([100.0, 100.0])
    # within the noise of a measurement a run may seem to be all start-up
    assert scaling.cost_us(made["points"][0] | {"cpu_s": 0.1}, made["start"]) == 0.0


# ------------------------------------------------------------------------------------ comparing


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"cpu_s": 1.49}, ""),
        ({"cpu_s": 1.51}, "SLOWER"),
        ({"cpu_s": 2.9, "yardstick_s": 0.1}, ""),
        ({"cpu_s": 1.2, "yardstick_s": 0.039}, "SLOWER"),
        ({"peak_mib": 114}, ""),
        ({"peak_mib": 116}, "MORE MEMORY"),
        ({"e2e_mean_ms": 1.5}, "RESULTS DIFFER"),
        ({"e2e_mean_ms": 1.5, "cpu_s": 9.0}, "RESULTS DIFFER, SLOWER"),
    ],
)
def test_regressions_are_named(scaling, capsys, change, remark):
    then, now = figures(), figures()
    now["points"][1] |= change
    assert scaling.compare(now, then, 1.25) == bool(remark)
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"requests +1 instance +1,000 +1\.00x +1\.00x", lines[3])
    assert lines[4].endswith(f"x  {remark}" if remark else "x")
    assert lines[5].startswith("1 regression (" if remark else "no regressions (")


def test_new_points_are_no_regressions(scaling, capsys):
    assert scaling.compare(figures(), figures(costs=((1000, 0.3),)), 1.25) == 0
    assert capsys.readouterr().out.splitlines()[4].endswith("10,000     new")


# -------------------------------------------------------------------------------------- drawing


def test_pictures_name_axes_curves_and_guides(modules, tmp_path):
    now = figures()
    now["points"][0]["cpu_s"] = 0.1  # less than start-up: no place on a logarithmic axis
    drawn = list(modules("pictures").draw_all(now, figures(), tmp_path))
    assert [path.name for path in drawn] == ["scaling-requests.svg", "scaling-requests.png"]
    text = " ".join(ET.parse(drawn[0]).getroot().itertext())
    for words in (
        "CPU time of a request (µs)",
        "peak memory (MiB)",
        "1 instance, before",
        "constant cost",
        "10,000",
    ):
        assert words in text


def test_figures_without_points_draw_nothing(modules, tmp_path):
    assert list(modules("pictures").draw_all(figures(costs=()), None, tmp_path)) == []


# ---------------------------------------------------------------------------------------- usage


def test_a_size_without_points_is_a_usage_error():
    done = run("--most", "10")
    assert done.returncode == 2
    assert "no point has 10 requests or fewer" in done.stderr


def test_a_missing_file_is_one_clear_line(tmp_path):
    done = run("--from", tmp_path / "none.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"scaling\.py: .*none\.json'?\n", done.stderr)


# --------------------------------------------------------------------------------- the stored ones


def test_the_stored_points_are_those_of_the_program(scaling):
    sizes = {(p.study, p.curve, p.x): p.requests for s in scaling.STUDIES.values() for p in s()}
    stored = {(p["study"], p["curve"], p["x"]): p["requests"] for p in STORED["points"]}
    assert stored.items() <= sizes.items()
    quick = {key for key, requests in sizes.items() if requests <= scaling.QUICK}
    assert quick <= stored.keys()
    assert all(p["completed_requests"] == p["requests"] for p in STORED["points"])


@pytest.mark.parametrize("study", ["requests", "instances", "output", "prompt"])
def test_the_page_shows_what_is_stored(modules, study):
    tables = modules("tables")
    block = re.search(rf"<!-- generated: scaling-{study} -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)
    assert block is not None
    lines = [
        tuple(cell.strip() for cell in line.strip("|").split("|")) for line in block[1].splitlines()
    ]
    made = tables.scaling(STORED, study)
    assert lines[0] == made.headings
    assert lines[2:] == made.rows
    assert tables.conditions(STORED) in PAGE
    changed = copy.deepcopy(STORED)
    next(point for point in changed["points"] if point["study"] == study)["peak_mib"] += 1
    assert tables.scaling(changed, study).rows != made.rows


def test_a_table_leaves_room_where_a_curve_has_no_point(modules):
    made = figures(costs=((1000, 0.3),))
    made["points"].append(made["points"][0] | {"curve": "64 instances", "x": 3000})
    assert modules("tables").scaling(made, "requests").rows == [
        ("1,000", "0.30", "100", "100", "", "", ""),
        ("3,000", "", "", "", "0.30", "100", "100"),
    ]

"""The documentation: examples run, generated parts are current, all is there, links lead on."""

from __future__ import annotations

import copy
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import attrs
import pytest

from blis_core import api, structuring
from blis_core.cluster.decisions import TraceSummary
from blis_core.cluster.slo import DEFAULT_PRIORITIES
from blis_core.config import SATURATION_DETECTORS, ReplayConfig, RunConfig
from blis_core.errors import BlisError
from blis_core.option import options_of
from blis_core.policies import bundle
from blis_core.policies.validation import check_bundle
from blis_core.registry import KINDS
from blis_core.results import model, parts
from blis_core.workload import spec
from blis_core.workload.inference_perf import with_inference_perf
from blis_core.workload.open_stages import check_open_loop
from blis_core.workload.pipeline import prepare
from blis_core.workload.sessions import STATUSES
from blis_core.workload.validation import validate

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def load(path):
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(f"blis_docs_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


examples = load(DOCS / "examples.py")
generate = load(DOCS / "generate.py")
PAGES = {str(page.relative_to(ROOT)): page for page in examples.PAGES}
TEXTS = {name: page.read_text(encoding="utf-8") for name, page in PAGES.items()}
ALL = "\n".join(TEXTS.values())
FILES = {
    "workload-file": (spec, generate.workload_keys()),
    "policy-file": (bundle, generate.policy_keys()),
}
"""Reference pages of files: the module that describes the file, and its mappings."""


@pytest.fixture(autouse=True)
def nothing_switched_off(monkeypatch):
    monkeypatch.delenv("BLIS_DISABLE_PLUGINS", raising=False)
    monkeypatch.delenv("BLIS_TRACE_PLUGINS", raising=False)


# ------------------------------------------------------------------------------------- examples


@pytest.mark.parametrize("name", PAGES)
def test_examples(name):
    """Commands end as they should, code runs, and what they print is what is shown."""
    differences = [example.difference for example in examples.run_page(PAGES[name])]
    assert not any(differences), "\n".join(filter(None, differences)) + (
        "\n(docs/examples.py --write puts real output into the pages)"
    )


def test_most_pages_have_examples():
    counts = {name: len(list(examples.blocks(text))) for name, text in TEXTS.items()}
    assert sum(count > 0 for count in counts.values()) > len(counts) / 2


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\n", "a\n", True),
        ("a\n...\nb\n", "a\nb\n", True),
        ("took ... ms\n", "took 1.5 ms\n", True),
        ("took ... ms\n", "took 1.5 s\n", False),
        ("", "a\n", False),
    ],
)
def test_ellipsis(shown, printed, expected):
    assert examples.matches(shown, printed) is expected


@pytest.mark.parametrize(
    ("block", "found"),
    [
        ("$ blis --version  # exit code 1\n", "exit code 0 instead of 1"),
        ("$ blis run\n", "exit code 1 instead of 0"),
        ("$ blis --version\nblis 99\n", "- blis 99"),
        ("$ blis --version\nblis ...\n", ""),
        ("$ blis --version\n", "+ blis"),
        ("$ blis run  # not run\n", None),
        ("$ rm -r everything\n", None),
    ],
)
def test_a_wrong_example_is_found(tmp_path, block, found):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```console\n{block}```\n")
    results = [example.difference for example in examples.run_page(page)]
    if found is None:
        assert results == []
    elif found:
        assert found in results[0]
    else:
        assert results == [""]


# ------------------------------------------------------------------------------- generated parts


def test_generated_parts_are_current():
    found = [str(path.relative_to(ROOT)) for path, _ in generate.outdated()]
    assert not found, f"out of date: {', '.join(found)}; run docs/generate.py"


def test_another_process_generates_the_same():
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    done = subprocess.run(
        [sys.executable, DOCS / "generate.py", "--check"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert (done.returncode, done.stdout) == (0, "")


# ----------------------------------------------------------------------------------- completeness


@pytest.mark.parametrize("config", [RunConfig, ReplayConfig])
def test_every_option_is_documented(config):
    page = TEXTS["docs/reference/options.md"]
    assert [spec.flag for spec in options_of(config) if f"`{spec.flag}`" not in page] == []


def test_every_option_of_the_other_commands_is_documented():
    page = TEXTS["docs/reference/options.md"]
    commands = list(generate._other_commands())
    assert {command.name for command in commands} >= {"calibrate", "compose", "preset", "azure"}
    for command in commands:
        section = page.partition(f"\n## {generate._command_path(command)}\n")[2]
        section = section.partition("\n## ")[0]
        missing = [param.opts[0] for param in command.params if f"`{param.opts[0]}`" not in section]
        assert missing == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_hook_and_built_in_name_is_documented(kind):
    assert f"`{KINDS[kind].hook}`" in ALL
    entries = generate.registered(kind)
    assert entries
    assert [entry.name for entry in entries if f"`{entry.name}`" not in ALL] == []


@pytest.mark.parametrize("page", FILES)
def test_every_key_of_a_file_is_documented(page):
    """Every key that the reader accepts has a row in the section of its mapping."""
    _, keys_of = FILES[page]
    assert undocumented(TEXTS[f"docs/reference/{page}.md"], keys_of) == []


def undocumented(text, keys_of):
    """Keys without a row that says what they mean."""
    sections = dict(re.findall(r"\n## (.+)\n((?:(?!\n## )[\s\S])*)", text))
    missing = []
    for owner in keys_of:
        section = sections[generate._section(owner)]
        for field in structuring._fields(owner):
            row = re.search(rf"^\| `{field.name}` \|.*\| (.*) \|$", section, re.MULTILINE)
            if row is None or not row[1].strip():
                missing.append(f"{owner.__name__}.{field.name}")
    return missing


def test_a_missing_key_is_found():
    text = TEXTS["docs/reference/policy-file.md"]
    without = re.sub(r"\| `gaie_qd_threshold` \|.*\n", "", text)
    without = re.sub(r"(\| `scheduler` \|.*\|) .* \|\n", r"\1  |\n", without)
    missing = ["PolicyBundle.scheduler", "AdmissionSection.gaie_qd_threshold"]
    assert undocumented(without, generate.policy_keys()) == missing


@pytest.mark.parametrize("page", FILES)
def test_every_mapping_of_a_file_has_a_section(page):
    module, keys_of = FILES[page]
    classes = {value for value in vars(module).values() if attrs.has(value)}
    internal = {spec.NormalisedExponential, spec.FactoryPoisson}
    assert classes - internal == set(keys_of)


@pytest.mark.parametrize(
    ("owner", "key"),
    [
        pytest.param(owner, key, id=f"{owner.__name__}.{key.name}")
        for owner, keys in generate.workload_keys().items()
        for key in keys
        if key.bounds
    ],
)
def test_documented_bounds_of_workload_keys_hold(owner, key):
    """The smallest and the largest value are allowed, and nothing beyond them."""
    low, high = key.bounds
    excluded = low > int(low)
    for good in {1 if excluded else int(low), *([int(high)] if high < math.inf else [])}:
        checked(owner, key.name, good)
    for bad in (0 if excluded else int(low) - 1, *([int(high) + 1] if high < math.inf else [])):
        with pytest.raises(BlisError, match=key.name.removeprefix("num_")):
            checked(owner, key.name, bad)


def checked(owner, key, value):
    """Validate a workload in which ``key`` of a mapping of class ``owner`` has this value."""
    document, *path = WORKLOADS[owner]
    document = copy.deepcopy(document)
    place = document
    for step in path:
        place = place[step]
    place[key] = value
    workload = structuring.structure(document, spec.WorkloadSpec, "test")
    if workload.inference_perf is not None and workload.inference_perf.open_loop is not None:
        check_open_loop(workload.inference_perf)
        return
    workload = with_inference_perf(workload)
    validate(workload)
    if workload.num_requests < 0:
        prepare(workload, horizon=1, max_requests=workload.num_requests)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        pytest.param(path, key, id=f"{owner.__name__}.{key.name}")
        for owner, path in {
            bundle.AdmissionSection: ("admission",),
            bundle.ScorerEntry: ("routing", "scorers", 0),
            bundle.NodePool: ("node_pools", 0),
            bundle.Delay: ("autoscaler", "hpa_scrape_delay"),
            bundle.AutoscalerSection: ("autoscaler",),
            bundle.AnalyzerSection: ("autoscaler", "analyzer"),
            bundle.LifecycleSection: ("instance_lifecycle",),
            bundle.ModelSection: ("models", 0),
            bundle.FleetEventSection: ("fleet_events", 0),
        }.items()
        for key in generate.policy_keys()[owner]
        if key.bounds
    ],
)
def test_documented_bounds_of_policy_keys_hold(path, key):
    low, high = key.bounds
    excluded = low > int(low)
    for good in {1 if excluded else int(low), *([int(high)] if high < math.inf else [])}:
        checked_policy(path, key.name, good)
    for bad in (0 if excluded else int(low) - 1, *([int(high) + 1] if high < math.inf else [])):
        with pytest.raises(BlisError, match="weight" if key.name == "weight" else key.name):
            checked_policy(path, key.name, bad)


def checked_policy(path, key, value):
    """Check a policy file in which a key of the mapping at ``path`` has this value."""
    pool = {"name": "a", "gpu_type": "H100", "gpus_per_node": 1, "gpu_memory_gib": 80.0}
    document = {
        "admission": {},
        "routing": {"scorers": [{"name": "queue-depth", "weight": 1.0}]},
        "node_pools": [{**pool, "max_nodes": 1}],
        "autoscaler": {
            "hpa_scrape_delay": {},
            "analyzer": {"scale_down_boundary": 1e-9, "scale_up_threshold": 1.0},
        },
        "instance_lifecycle": {},
        "models": [{"model": "a/b"}],
        "fleet_events": [{"drain": "instance_0"}],
    }
    place = document
    for step in path:
        place = place[step]
    place[key] = value
    check_bundle(structuring.structure(document, bundle.PolicyBundle, "test"))


TWO = {"type": "constant", "params": {"value": 2}}
MEMBER = {
    "rate_fraction": 1,
    "arrival": {"process": "poisson"},
    "input_distribution": TWO,
    "output_distribution": TWO,
    "reasoning": {"multi_turn": {"max_rounds": 1}},
}
WINDOWS = {"windows": [{"start_us": 5, "end_us": 9}]}
PATTERNS = {
    "diurnal": {"peak_to_trough_ratio": 2},
    "spike": {"duration_us": 5},
    "drain": {"ramp_duration_us": 5},
}
OPEN = {"aggregate_rate": 1, "clients": [{**MEMBER, "lifecycle": WINDOWS}]}
CROWD = {"aggregate_rate": 1, "cohorts": [{**MEMBER, "population": 1, **PATTERNS}]}
PERF = {
    "inference_perf": {
        "stages": [{"rate": 9, "duration": 9}],
        "shared_prefix": {"num_unique_system_prompts": 1, "num_users_per_system_prompt": 1},
    }
}
BENCHMARK = {
    "version": "2",
    "inference_perf": {
        "stages": [{"rate": 4.0, "duration": 2}],
        "shared_prefix": {"question_len": 10, "output_len": 10},
        "open_loop": {},
    },
}
WORKLOADS = {
    spec.WorkloadSpec: (OPEN,),
    spec.Client: (OPEN, "clients", 0),
    spec.Arrival: (OPEN, "clients", 0, "arrival"),
    spec.Window: (OPEN, "clients", 0, "lifecycle", "windows", 0),
    spec.MultiTurn: (OPEN, "clients", 0, "reasoning", "multi_turn"),
    spec.Cohort: (CROWD, "cohorts", 0),
    spec.Diurnal: (CROWD, "cohorts", 0, "diurnal"),
    spec.Spike: (CROWD, "cohorts", 0, "spike"),
    spec.Drain: (CROWD, "cohorts", 0, "drain"),
    spec.Stage: (PERF, "inference_perf", "stages", 0),
    spec.SharedPrefix: (PERF, "inference_perf", "shared_prefix"),
    spec.OpenLoop: (BENCHMARK, "inference_perf", "open_loop"),
}
"""For each mapping with bounds, a workload and the way to the mapping in it."""


@pytest.mark.parametrize(
    "owner",
    [*filter(attrs.has, [*vars(model).values(), *vars(parts).values()]), TraceSummary],
    ids=lambda owner: owner.__name__,
)
def test_every_figure_is_explained(owner):
    page = TEXTS["docs/results.md"]
    names = [field.name for field in attrs.fields(owner)]
    parts = {"cluster", "instances", "anomalies", "kv", "per_slo", "per_model", "per_tenant"}
    parts |= {"fitness", "pd", "trace", "decisions", "sessions", "fleet"}
    shown = {name: f"`results.{name}`" if name in parts else f"`{name}`" for name in names}
    assert [name for name, text in shown.items() if text not in page] == []


def test_every_end_of_a_session_is_explained():
    section = TEXTS["docs/results.md"].partition("## Sessions")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([\w-]+)`", section, re.MULTILINE)) == set(STATUSES)


def test_every_policy_is_explained():
    missing = []
    for page, kinds in {
        "docs/routing.md": ("routing-policy", "scorer"),
        "docs/admission.md": ("admission-policy",),
    }.items():
        names = {entry.name for kind in kinds for entry in generate.registered(kind)}
        missing += names - set(re.findall(r"^\| `([\w-]+)`", TEXTS[page], re.MULTILINE))
    assert missing == []


def test_slo_classes_and_detectors_are_those_of_the_code():
    page = TEXTS["docs/admission.md"]
    assert dict(re.findall(r"^\| `(\w+)` \| (-?\d) \|$", page, re.MULTILINE)) == {
        name: str(priority) for name, priority in DEFAULT_PRIORITIES.items()
    }
    section = page.partition("## Flow control")[2]
    detectors = re.findall(r"^\| `(\w+)`", section, re.MULTILINE)
    assert tuple(detectors[: len(SATURATION_DETECTORS)]) == SATURATION_DETECTORS


def test_every_difference_in_options_is_listed():
    """Against the options of the Go program; those of our own commands stand in their sections."""
    page = TEXTS["docs/coming-from-go.md"]
    theirs = json.loads((Path(__file__).parent / "go_options.json").read_text())
    ours = {
        generate._command_path(command).removeprefix("blis "): {
            param.opts[0].removeprefix("--") for param in command.params
        }
        for command in generate._other_commands()
    }
    for name, config in (("run", RunConfig), ("replay", ReplayConfig)):
        ours[name] = {spec.flag.removeprefix("--") for spec in options_of(config)}
    new = set()
    for name, options in theirs.items():
        assert set(options.split()) <= ours[name], name  # none is missing
        new |= ours[name] - set(options.split())
    listed = page.partition("## New options")[2].partition("\n## ")[0]
    assert [name for name in sorted(new) if f"`--{name}`" not in listed] == []
    commands = page.partition("## New commands")[2].partition("\n## ")[0]
    assert [n for n in ours.keys() - theirs.keys() if f"`blis {n}`" not in commands] == []


def test_every_public_name_is_documented():
    page = TEXTS["docs/reference/hooks.md"]
    assert [name for name in api.__all__ if f"\n### {name}\n" not in page] == []


def test_every_dependency_is_explained():
    names = set()
    for file in (ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")):
        contents = tomllib.loads(file.read_text(encoding="utf-8"))
        project = contents["project"]
        wanted = [*project["dependencies"], *contents["build-system"]["requires"]]
        for group in (
            *project.get("optional-dependencies", {}).values(),
            *contents.get("dependency-groups", {}).values(),
        ):
            wanted += [item for item in group if isinstance(item, str)]
        names |= {re.match(r"[\w.-]+", item)[0] for item in wanted}
    page = TEXTS["docs/libraries.md"]
    own = generate.projects()
    assert [name for name in sorted(names) if name not in own and f"`{name}`" not in page] == []


def test_every_distribution_is_in_the_readme():
    assert [name for name in generate.projects() if f"`{name}`" not in TEXTS["README.md"]] == []


def test_every_floor_is_in_the_architecture():
    folders = [path.parent.name for path in ROOT.glob("blis_core/*/__init__.py")]
    page = TEXTS["docs/architecture.md"]
    assert [name for name in folders if f"`{name}/`" not in page] == []


def test_the_readme_stays_short():
    assert TEXTS["README.md"].count("\n") <= 125


# ------------------------------------------------------------------------------------------ links


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    found, count = set(), {}
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = count[slug] = count.get(slug, -1) + 1
        found.add(f"{slug}-{number}" if number else slug)
    return found


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    page = PAGES[name]
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", TEXTS[name]):
        if re.match(r"https?:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.is_file() or (
            anchor and anchor not in anchors(target.read_text(encoding="utf-8"))
        ):
            dead.append(link)
    assert dead == []


def test_every_page_is_linked_from_the_index():
    links = set(re.findall(r"\]\(([^)#\s]+)", TEXTS["docs/index.md"]))
    pages = {name.removeprefix("docs/") for name in PAGES} - {"README.md", "index.md"}
    assert pages - links == set()


def test_every_page_is_in_the_navigation_of_the_site():
    """A page needs a line in a list of ``docs/index.md``: ``- [Title](page.md): its subject``."""
    sections = load(DOCS / "conf.py").navigation(TEXTS["docs/index.md"])
    assert list(sections) == [
        *("Start", "Tutorials", "Guides", "Concepts", "Reference", "Extending", "Project")
    ]
    listed = [page for pages in sections.values() for _, page in pages]
    assert len(set(listed)) == len(listed)
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    assert set(listed) == pages - {"index"}


def test_the_site_is_built_strictly_by_what_must_pass():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^test: .*\bdocs\b", makefile, re.MULTILINE)
    assert "--fail-on-warning" in makefile


# ------------------------------------------------------------------------------------- benchmarks


def test_the_suite_runs_and_compares(tmp_path):
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    figures = json.loads((ROOT / "benchmarks/baseline.json").read_text())
    figures["cases"]["tiny"]["total_output_tokens"] += 1
    before.write_text(json.dumps(figures))
    command = [sys.executable, ROOT / "benchmarks/run.py", "--only", "tiny", "--runs", "1"]
    done = subprocess.run(
        [*command, "--json", after, "--compare", before],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "NO: the results differ" in done.stdout
    assert json.loads(after.read_text())["cases"]["tiny"]["completed_requests"] == 100


def test_micro_benchmarks_run():
    script = ROOT / "benchmarks/engine.py"
    done = subprocess.run(
        [sys.executable, script, "--repeat", "1"], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("---") == 5


def test_the_baseline_covers_the_suite():
    run = load(ROOT / "benchmarks/run.py")
    stored = run.stored(Path("baseline.json"))
    suite = run.yaml.safe_load((ROOT / "benchmarks/suite.yaml").read_text())["cases"]
    assert list(stored["cases"]) == list(suite)
    assert stored["about"]

"""From wheel to use: every distribution, and one that a stranger might write, in environments of
their own. Works without a network: third-party packages are linked from the running environment."""

from __future__ import annotations

import json
import textwrap
import zipfile
from pathlib import Path

import pytest

from tests.plugins.environment import MODEL, PLUGINS, ROOT, SMALL, build

# One worker for all of them: the wheels are built once per worker.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheels")]

WEIGHTED = "--num-instances 2 --routing-policy weighted --routing-scorers".split()

# A stranger's distribution: two modules and nothing that is not public.
THIRD_PARTY = {
    "pyproject.toml": """
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"

        [project]
        name = "acme-blis"
        version = "3.1"
        dependencies = ["blis-core"]

        [project.entry-points.blis]
        acme = "acme_blis.plugin"
    """,
    "acme_blis/__init__.py": "",
    "acme_blis/plugin.py": """
        from blis_core.api import hookimpl

        @hookimpl
        def blis_register_scorers(register):
            register("mine", "acme_blis.parts:Mine", summary="odd instances")

        @hookimpl
        def blis_register_latency_models(register):
            register("fixed", "acme_blis.parts:Fixed", summary="every step takes 12.345 ms")
    """,
    "acme_blis/parts.py": """
        import numpy as np

        from blis_core.api import LatencyModel, Scorer

        class Mine(Scorer):
            def score(self, request, fleet):
                return (np.arange(len(fleet)) % 2).astype(float)

        class Fixed(LatencyModel):
            analytical = False

            def step_time(self, shape):
                return 12345
    """,
}


def _write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def contents(wheels, distribution):
    (wheel,) = wheels.glob(f"{distribution.replace('-', '_')}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name).decode(errors="replace") for name in archive.namelist()}


# ---- wheels


def test_contents_of_the_core_wheel(wheels):
    files = contents(wheels, "blis-core")
    tops = {name.split("/")[0] for name in files}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"blis_core"}
    expected = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "blis_core").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in files if name.startswith("blis_core/")} == expected
    assert "blis_core/py.typed" in files
    (entry_points,) = (text for name, text in files.items() if name.endswith("entry_points.txt"))
    assert "blis = blis_core.__main__:script" in entry_points
    assert any(name.endswith("licenses/LICENSE") for name in files)


@pytest.mark.parametrize("source", PLUGINS, ids=lambda path: path.name)
def test_contents_of_the_plugin_wheels(wheels, source):
    files = contents(wheels, source.name)
    tops = {name.split("/")[0] for name in files}
    assert {top for top in tops if not top.endswith(".dist-info")} == {source.name}
    package = source / "src"
    expected = {
        str(path.relative_to(package))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in files if name.startswith(f"{source.name}/")} == expected
    assert f"{source.name}/py.typed" in files
    (entry_points,) = (text for name, text in files.items() if name.endswith("entry_points.txt"))
    assert f"{source.name.replace('_', '-')} = {source.name}.plugin" in entry_points


# ---- our own distributions, from their wheels


def test_the_core_alone_says_what_to_install(environment):
    environment.install("blis-core")
    assert list(environment.listed()) == ["core"]
    process = environment.blis("run", *MODEL)
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.count("\n") == 1
    assert "pip install blis-latency-physics" in process.stderr


@pytest.mark.parametrize(
    ("plugins", "arguments"),
    [
        (["blis-latency-physics"], ["--latency-model", "roofline"]),
        (["blis-latency-physics"], ["--latency-model", "trained-physics"]),
        (["blis-latency-physics", "blis-routing"], [*WEIGHTED, "queue-depth:1,kv-utilization:1"]),
    ],
    ids=["roofline", "trained-physics", "routing"],
)
def test_a_plugin_beside_the_core(environment, plugins, arguments):
    environment.install("blis-core", *plugins)
    assert list(environment.listed()) == ["core", *plugins]
    assert environment.run(*arguments)["completed_requests"] == 100


def test_the_deprecated_models_work_and_say_so_once(environment):
    environment.install("blis-core", "blis-latency-legacy")
    coefficients = ["--alpha-coeffs", "1500,3,900", "--beta-coeffs", "6200,17,5"]
    process = environment.blis("run", *MODEL, *SMALL, "--latency-model", "blackbox", *coefficients)
    assert process.returncode == 0
    assert '"completed_requests": 100' in process.stdout
    assert process.stderr.count("deprecated") == 1
    assert "trained-physics" in process.stderr


def test_the_observer_beside_the_core(environment):
    environment.install("blis-core", "blis-observe")
    assert "probe" in environment.blis("--help").stdout
    process = environment.blis("probe", "--server-url", "http://127.0.0.1:9", "--timeout", "2")
    assert process.returncode == 1
    assert process.stderr.startswith("blis: error: http://127.0.0.1:9: ")


# ---- a stranger's distribution


def test_life_of_a_third_party_distribution(environment, tmp_path):
    environment.install("blis-core", "blis-latency-physics", "blis-routing")
    built = tmp_path / "built"
    build(_write(tmp_path / "source", THIRD_PARTY), built)
    weighted = [*WEIGHTED, "mine:2,queue-depth:1"]

    before = environment.run()
    environment.pip("install", "--no-index", "--find-links", str(built), "acme-blis")

    # listed
    listed = environment.listed()["acme"]
    assert (listed["distribution"], listed["version"], listed["status"]) == (
        "acme-blis",
        "3.1",
        "ok",
    )
    assert {(item["kind"], item["name"]) for item in listed["extensions"]} == {
        ("scorer", "mine"),
        ("latency-model", "fixed"),
    }
    table = environment.blis("--list-plugins").stdout
    assert "acme-blis" in table
    assert "scorer: mine" in table

    # used
    metrics = environment.run("--latency-model", "fixed")
    assert metrics["itl_mean_ms"] == 12.345
    process = environment.blis("run", *MODEL, *SMALL, *weighted)
    assert process.returncode == 0
    assert process.stderr.startswith("[warning] idle-instances: 1 of 2")  # it prefers the other one
    instances = [
        json.loads(block[: block.index("\n}") + 2])
        for block in process.stdout.split("=== Simulation Metrics ===")[1:]
    ]
    served = {item["instance_id"]: item["completed_requests"] for item in instances}
    assert served["instance_1"] > served.get("instance_0", 0)

    # without effect when it is not chosen
    assert environment.run() == before

    # gone
    environment.pip("uninstall", "--yes", "acme-blis")
    assert "acme" not in environment.listed()
    for arguments in (["--latency-model", "fixed"], weighted):
        process = environment.blis("run", *MODEL, *SMALL, *arguments)
        assert (process.returncode, process.stdout) == (1, "")
        assert "unknown" in process.stderr
        assert process.stderr.count("\n") == 1


BROKEN = {
    "pyproject.toml": THIRD_PARTY["pyproject.toml"].replace(
        'acme = "acme_blis.plugin"',
        '''acme-import = "acme_blis.imports"
        acme-rubbish = "acme_blis.rubbish"
        acme-taken = "acme_blis.taken"''',
    ),
    "acme_blis/__init__.py": "",
    "acme_blis/imports.py": "import a_module_that_nobody_has",
    "acme_blis/rubbish.py": """
        from blis_core.api import hookimpl

        @hookimpl
        def blis_register_scorers(register):
            register("fine", "acme_blis.parts:Mine")
            register("", 42)
    """,
    "acme_blis/taken.py": """
        from blis_core.api import hookimpl

        @hookimpl
        def blis_register_latency_models(register):
            register("roofline", "acme_blis.parts:Fixed")
    """,
}


def test_a_broken_third_party_distribution(environment, tmp_path):
    environment.install("blis-core", "blis-latency-physics")
    expected = environment.blis("run", *MODEL, *SMALL).stdout
    built = tmp_path / "built"
    build(_write(tmp_path / "source", BROKEN), built)
    environment.pip("install", "--no-index", "--find-links", str(built), "acme-blis")
    reasons = {
        "acme-import": "ModuleNotFoundError",
        "acme-rubbish": "lower-case words",
        "acme-taken": "which plugin blis-latency-physics (blis-latency-physics ",
    }

    # harmless, and one line each
    process = environment.blis("run", *MODEL, *SMALL)
    assert (process.returncode, process.stdout) == (0, expected)
    lines = process.stderr.splitlines()
    for line, (plugin, reason) in zip(lines, reasons.items(), strict=True):
        assert f"{plugin} (acme-blis 3.1)" in line
        assert reason in line

    # reported
    listed = environment.listed()
    for plugin, reason in reasons.items():
        assert listed[plugin]["status"] == "broken"
        assert reason in listed[plugin]["error"]
        assert listed[plugin]["extensions"] == []
    assert environment.blis("--list-plugins").stdout.count("BROKEN") == 3

    # switched off
    process = environment.blis("-p", "no:acme-blis", "run", *MODEL, *SMALL)
    assert (process.returncode, process.stdout, process.stderr) == (0, expected, "")

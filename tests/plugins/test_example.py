"""The example of a third-party distribution: its own tests, then from wheel to use."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from importlib.util import find_spec

import pytest

from tests.plugins.environment import MODEL, ROOT, build

EXAMPLE = ROOT / "examples" / "blis-scorer-demo"
TIGHT = (
    "--num-requests 60 --rate 200 --num-instances 2 --total-kv-blocks 300 --max-model-len 2048"
    " --log error --routing-policy weighted --routing-scorers"
).split()


def targets(stdout):
    """Requests by instance, of the trace summary."""
    lines = stdout.splitlines()
    start = lines.index("Target Distribution:") + 1
    pairs = [line.strip().split(": ") for line in lines[start:] if line.startswith("  instance")]
    return {name: int(count) for name, count in pairs}


def test_its_tests_pass_without_installing_it():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=EXAMPLE, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_it_uses_public_names_only():
    for path in EXAMPLE.rglob("*.py"):
        for line in path.read_text().splitlines():
            if "import" in line and "blis_core" in line:
                assert line.split()[1] in ("blis_core.api", "blis_core.testing"), f"{path}: {line}"


def test_nobody_here_depends_on_it():
    assert find_spec("blis_scorer_demo") is None


@pytest.mark.slow
@pytest.mark.xdist_group("wheels")
def test_from_wheel_to_use(environment, tmp_path):
    built = tmp_path / "built"
    build(EXAMPLE, built)
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {"__init__.py", "plugin.py", "py.typed", "scorers.py"}
    assert {name for name in names if ".dist-info" not in name} == {
        f"blis_scorer_demo/{name}" for name in modules
    }

    environment.install("blis-core", "blis-latency-physics", "blis-routing")
    environment.pip("install", "--no-index", "--find-links", str(built), "blis-scorer-demo")

    # listed
    listed = environment.listed()["blis-scorer-demo"]
    assert (listed["distribution"], listed["version"]) == ("blis-scorer-demo", "0.1.0")
    assert listed["status"] == "ok"
    assert [(item["kind"], item["name"]) for item in listed["extensions"]] == [
        ("scorer", "headroom")
    ]

    # used, alone and with another scorer
    for scorers in ("headroom:1", "headroom:3,queue-depth:1"):
        trace = ["--trace-level", "decisions", "--summarize-trace"]
        process = environment.blis("run", *MODEL, *TIGHT, scorers, *trace)
        assert (process.returncode, process.stderr) == (0, "")
        assert sum(targets(process.stdout).values()) == 60
        assert len(targets(process.stdout)) == 2

    # tested where it is installed, from the tests that ship with its source
    environment.link("pytest")
    (tmp_path / "test_headroom.py").write_text((EXAMPLE / "tests/test_headroom.py").read_text())
    process = environment.python("-m", "pytest", "-q", str(tmp_path / "test_headroom.py"))
    assert process.returncode == 0, process.stdout
    where = "import json, blis_scorer_demo as it; print(json.dumps(it.__file__))"
    assert str(environment.folder) in json.loads(environment.python("-c", where).stdout)

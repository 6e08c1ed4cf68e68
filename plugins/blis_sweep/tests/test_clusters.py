"""Sweeps on real clusters, all on this machine: Dask's and Ray's own workers."""

from __future__ import annotations

import csv
import secrets
import subprocess
import sys
import tempfile
from collections import Counter

import pytest

from blis_core.errors import BlisError
from blis_sweep import backends
from plugins.blis_sweep.tests.sweeping import alive, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("clusters")]
GRID = ["--grid", "latency-option=mode=a;mode=b;step_us=20000", "--seeds", "2"]

CLUSTERS = {
    "dask": """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
""",
    "ray": """
import sys
import ray
context = ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
ray.shutdown()
""",
}


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    """Ray reports to nobody and leaves no token in the home folder; Dask does not wait for long."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "2s")
    with tempfile.TemporaryDirectory(prefix="ray") as short:  # for sockets, whose paths are short
        monkeypatch.setenv("RAY_TMPDIR", short)
        monkeypatch.setenv("DASK_TEMPORARY_DIRECTORY", short)
        yield


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture
def cluster(folder):
    """Starts a cluster in a process of its own and returns its address."""
    started = []

    def start(kind):
        (folder / f"{kind}_cluster.py").write_text(CLUSTERS[kind])
        popen = subprocess.Popen(
            [sys.executable, f"{kind}_cluster.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        started.append(popen)
        return popen.stdout.readline().strip()

    yield start
    for popen in started:
        popen.stdin.close()
        popen.wait(timeout=60)
        popen.stdout.close()


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_cluster_gives_what_local_processes_give(folder, process, starts, backend):
    code, _, err = process(*GRID, "--out", "local.csv", "--no-cache", "--jobs", "2").end()
    assert code == 0, err
    before = len(starts())
    options = ["--backend", backend, "--jobs", "2", "--out", "cluster.csv"]
    code, out, err = process(*GRID, *options).end()
    assert code == 0, err
    assert len(starts()) == before + 6
    assert (folder / "cluster.csv").read_bytes() == (folder / "local.csv").read_bytes()
    assert out.startswith("latency-option ")
    # what a cluster has found is kept, and known to any other backend
    code, again, err = process(*GRID).end()
    assert (code, again) == (0, out)
    assert "0 simulated, 6 known before" in err
    wait_for(lambda: not any(alive(pid) for pid, _ in starts()))


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_failures_on_a_cluster(folder, process, starts, backend):
    """A run that raises, and one that kills every worker it meets."""
    grid = ["--grid", "latency-option=mode=a;mode=fail;mode=kill;mode=b"]
    options = ["--backend", backend, "--jobs", "2", "--out", "runs.csv"]
    code, out, err = process(*grid, *options).end()
    assert code == 1
    found = {row["latency_option"]: row for row in rows(folder / "runs.csv")}
    assert Counter(row["status"] for row in found.values()) == {"ok": 2, "failed": 2}
    assert found["mode=fail"]["error"] == "RuntimeError: no luck"
    assert "died" in found["mode=kill"]["error"]
    assert Counter(mode for _, mode in starts())["kill"] >= 2
    assert "2 failed" in err
    assert "Traceback" not in err + out


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_cluster_that_is_there_already(folder, process, cluster, starts, backend):
    """It is used, and left alone; a plugin that is a file comes along."""
    address = cluster(backend)
    assert address
    options = ["--backend", backend, "--address", address, "--out", "runs.csv"]
    code, _, err = process(*GRID, *options).end()
    assert code == 0, err
    assert [row["status"] for row in rows(folder / "runs.csv")] == ["ok"] * 6
    assert len(starts()) == 6
    code, _, err = process(*GRID, *options, "--no-cache").end()
    assert code == 0, err
    assert len(starts()) == 12


def test_no_cluster_at_an_address(process):
    code, out, err = process("--backend", "dask", "--address", "tcp://127.0.0.1:9").end()
    assert (code, out) == (1, "")
    assert "no Dask cluster at --address tcp://127.0.0.1:9" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("extra", ["dask", "ray"])
def test_a_library_that_is_missing(monkeypatch, extra):
    module = {"dask": "distributed", "ray": "ray"}[extra]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BlisError, match=rf"pip install 'blis-sweep\[{extra}\]'"):
        backends.make_backend(extra)

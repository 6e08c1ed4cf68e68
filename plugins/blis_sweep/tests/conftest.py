"""Small sweeps: a latency model that does what a test wants, and a cache of their own."""

from __future__ import annotations

import pytest

from blis_core import log
from blis_core import plugins as core_plugins
from blis_core.cli.main import main
from blis_sweep import backends
from blis_sweep import sweep as sweep_module
from plugins.blis_sweep.tests.sweeping import PLUGIN, RUN, InThisProcess, Process


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own, with the plugin ``marked.py``, and no other cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLIS_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "marked.py").write_text(PLUGIN)
    yield tmp_path
    core_plugins.reset()


@pytest.fixture
def sweep(capsys):
    """Calls ``blis sweep`` in this process; exit code, stdout, stderr."""

    def call(*arguments):
        capsys.readouterr()
        code = main(["sweep", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def in_this_process(monkeypatch):
    """Nothing is simulated elsewhere."""
    for module in (backends, sweep_module):
        monkeypatch.setattr(module, "make_backend", lambda *_, **__: InThisProcess())
    yield
    log.set_level("warn")


@pytest.fixture
def marked(sweep, in_this_process):
    """The same in this process, with the latency model ``marked`` and a small workload."""

    def call(*arguments, base=()):
        return sweep("--plugin", "marked.py", *arguments, "--", *RUN, *base)

    return call


@pytest.fixture
def marked_elsewhere(sweep):
    """The same in worker processes."""

    def call(*arguments, base=()):
        return sweep("--plugin", "marked.py", "--jobs", "2", *arguments, "--", *RUN, *base)

    return call


@pytest.fixture
def process():
    """Starts sweeps, and ends those that are left over."""
    started = []

    def start(*arguments):
        started.append(Process(*arguments))
        return started[-1]

    yield start
    for each in started:
        if each.popen.poll() is None:
            each.popen.kill()
            each.popen.communicate()


@pytest.fixture
def starts(folder):
    """The simulations that have started, as pairs of process id and mode."""

    def read():
        path = folder / "started.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(pid), mode) for pid, _, mode in (line.partition(" ") for line in lines)]

    return read

"""Distributions made up for a test: metadata and modules in a folder on sys.path."""

from __future__ import annotations

import importlib
import sys
import textwrap

import pytest

from blis_core import plugins
from tests.plugins.environment import PLUGINS, ROOT, Environment, build

SCORER_PLUGIN = """
    from blis_core.api import hookimpl

    @hookimpl
    def blis_register_scorers(register):
        register({name!r}, "{module}_impl:Mine", summary="made for a test")
"""
SCORER = """
    from blis_core.api import Scorer

    class Mine(Scorer):
        def score(self, request, fleet):
            return 1.0 - fleet.kv_utilization
"""


@pytest.fixture(autouse=True)
def fresh_platform(monkeypatch):
    """Each test loads plugins afresh and leaves nothing loaded behind."""
    monkeypatch.delenv("BLIS_DISABLE_PLUGINS", raising=False)
    monkeypatch.delenv("BLIS_TRACE_PLUGINS", raising=False)
    plugins.reset()
    yield
    plugins.reset()


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Returns install(distribution, version="1.0", entry_points=None, **modules)."""
    before = set(sys.modules)
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def install(distribution, version="1.0", *, entry_points=None, **modules):
        stem = distribution.replace("-", "_")
        if entry_points is None:
            entry_points = f"[blis]\n{distribution} = {stem}\n"
        info = site / f"{stem}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n\nName: not this\n"
        )
        (info / "entry_points.txt").write_text(entry_points)
        for module, text in modules.items():
            (site / f"{module}.py").write_text(textwrap.dedent(text))
        importlib.invalidate_caches()

    install.site = site
    yield install
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


@pytest.fixture
def install_scorer(install):
    """Returns install_scorer(distribution, name): a healthy plugin with one scorer."""

    def install_scorer(distribution, name="mine", version="1.0"):
        module = distribution.replace("-", "_")
        install(
            distribution,
            version,
            **{
                module: SCORER_PLUGIN.format(name=name, module=module),
                f"{module}_impl": SCORER,
            },
        )

    return install_scorer


@pytest.fixture
def core_alone(monkeypatch):
    """As if nothing but blis-core were installed."""
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """A folder with the wheels of all our distributions."""
    folder = tmp_path_factory.mktemp("wheels")
    for source in [ROOT, *PLUGINS]:
        build(source, folder)
    return folder


@pytest.fixture
def environment(tmp_path, wheels):
    """A fresh virtual environment that can install them."""
    return Environment(tmp_path, wheels)

"""Every scorer that this distribution registers passes the conformance kit."""

from __future__ import annotations

from importlib import import_module

import pytest

from blis_core.testing import ScorerTests
from blis_routing import plugin


def registered():
    found = {}
    plugin.blis_register_scorers(lambda name, factory, **_: found.__setitem__(name, factory))
    return found


@pytest.mark.parametrize("name", registered())
class TestScorers(ScorerTests):
    @pytest.fixture(autouse=True)
    def chosen(self, name):
        module, _, attribute = registered()[name].partition(":")
        self.make = getattr(import_module(module), attribute)

"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no failure: examples have no time limit.
settings.register_profile("blis", deadline=None)
settings.load_profile("blis")

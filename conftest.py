"""Settings for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from blis_core import log

# A busy machine is no failure: examples have no time limit.
settings.register_profile("blis", deadline=None)
settings.load_profile("blis")


@pytest.fixture(autouse=True)
def _usual_log_level() -> Iterator[None]:
    """What a test shows of the log is no matter of the tests before it."""
    log.set_level("warn")
    yield
    log.set_level("warn")

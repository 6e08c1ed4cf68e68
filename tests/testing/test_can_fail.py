"""Every law of the kit catches something, and says what is wrong and why."""

from __future__ import annotations

import pytest

from blis_core import testing
from tests.testing import wrong_importers, wrong_parts, wrong_policies, wrong_stages

CASES = [
    *wrong_policies.CASES,
    *wrong_parts.CASES,
    *wrong_stages.CASES,
    *wrong_importers.CASES,
]
KITS = [name for name in testing.__all__ if name.endswith("Tests")]


def laws(name):
    """The tests of a conformance class."""
    return {law for law in dir(getattr(testing, name)) if law.startswith("test_")}


@pytest.mark.parametrize(
    ("kit", "law", "message"),
    [
        pytest.param(*case, id=f"{case[0].__mro__[1].__name__}-{case[1]}-{i}")
        for i, case in enumerate(CASES)
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_mistake_is_found(kit, law, message):
    with pytest.raises(AssertionError) as caught:
        getattr(kit(), f"test_{law}")()
    assert message in str(caught.value)


@pytest.mark.parametrize("name", KITS)
def test_each_law_can_fail(name):
    broken = {f"test_{law}" for kit, law, _ in CASES if kit.__mro__[1].__name__ == name}
    assert laws(name) - broken == set()


@pytest.mark.parametrize("name", KITS)
def test_each_law_says_what_it_is(name):
    assert all(getattr(getattr(testing, name), law).__doc__ for law in laws(name))

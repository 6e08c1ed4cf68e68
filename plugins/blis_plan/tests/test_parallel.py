"""Work in other processes."""

from __future__ import annotations

import pytest

from blis_core.api import BlisError, configure_plugins, plugin_settings, simulate
from blis_plan.parallel import end_workers, in_parallel


def work(task):
    if task == "wrong":
        raise BlisError("cannot be")
    if task == "broken":
        raise ZeroDivisionError("oops")
    return task.upper()


@pytest.fixture(autouse=True)
def workers():
    yield
    end_workers()


@pytest.mark.parametrize("jobs", [1, 2])
def test_order_is_kept_and_failures_are_texts(jobs):
    done = []
    found = in_parallel(work, ["a", "wrong", "b", "broken"], jobs, lambda: done.append(1))
    assert found == ["A", "cannot be", "B", "ZeroDivisionError: oops"]
    assert len(done) == 4


def test_nothing_to_do():
    assert in_parallel(work, [], 2) == []


SCHEDULER = """
from blis_core.api import Scheduler, hookimpl

class Backwards(Scheduler):
    def key(self, request):
        return -request.arrival, request.id

@hookimpl
def blis_register_schedulers(register):
    register("backwards", Backwards)
"""


def completed(seed):
    options = {"model": "qwen/qwen3-14b", "scheduler": "backwards", "num_requests": 5}
    return simulate(**options, seed=seed).cluster.completed_requests


def test_other_processes_have_the_same_plugins(tmp_path):
    file = tmp_path / "backwards.py"
    file.write_text(SCHEDULER)
    before = plugin_settings()
    configure_plugins(files=[str(file)])
    try:
        assert in_parallel(completed, [1, 2], 2) == [5, 5]
    finally:
        configure_plugins(**before)

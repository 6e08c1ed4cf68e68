"""Where the simulations of a sweep run: one interface, and the choice between its kinds."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from importlib import import_module
from typing import Final, Protocol

from blis_core.api import BlisError, UsageError
from blis_sweep.worker import Outcome, Setup, Task

DEFAULT: Final = "joblib"
BACKENDS: Final = ("joblib", "dask", "ray")


class Backend(Protocol):
    """Runs tasks somewhere."""

    @property
    def slots(self) -> int:
        """How many tasks run at once; 0 = not known before they run."""

    def run(self, setup: Setup, tasks: Sequence[Task]) -> Generator[Outcome]:
        """The outcome of each task, in the order in which they end. Nothing that happens to a
        worker is an error; BlisError if there is no way to go on."""


def make_backend(name: str, *, jobs: int | None = None, address: str = "") -> Backend:
    """The backend of this name.

    ``jobs`` is the number of workers of local processes or of a cluster on this machine (None = one
    per core). ``address`` is that of a running cluster. UsageError for a combination that makes no
    sense, BlisError if a library is not installed.
    """
    from joblib import cpu_count  # knows the limits of containers

    workers = jobs or cpu_count()
    if name == "joblib":
        if address:
            raise UsageError("--address: is that of a cluster; choose --backend dask or ray")
        from blis_sweep.local import LocalProcesses

        return LocalProcesses(workers)
    if address and jobs:
        raise UsageError("--jobs: the cluster at --address has its own number of workers")
    if name == "dask":
        _require("distributed", "dask")
        from blis_sweep.dask_cluster import DaskCluster

        return DaskCluster(workers, address)
    _require("ray", "ray")
    from blis_sweep.ray_cluster import RayCluster

    return RayCluster(workers, address)


def _require(module: str, extra: str) -> None:
    try:
        import_module(module)
    except ImportError:
        raise BlisError(
            f"--backend {extra}: is not installed; pip install 'blis-sweep[{extra}]'"
        ) from None

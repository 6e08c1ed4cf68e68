"""A sweep, start to end: check every point, simulate what is not known yet, report."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from blis_sweep.backends import DEFAULT, make_backend
from blis_sweep.definition import Draft, Sweep
from blis_sweep.identity import code_identity
from blis_sweep.points import Point, Preparation, Run, expand, log_warnings
from blis_sweep.progress import Progress
from blis_sweep.report import Report
from blis_sweep.store import Finished, Store, default_folder
from blis_sweep.worker import Outcome, Task, setup_here

if TYPE_CHECKING:
    from blis_sweep.backends import Backend


def sweep(
    document: Mapping[str, Any],
    *,
    backend: str = DEFAULT,
    address: str = "",
    jobs: int | None = None,
    cache: str | Path | None = "",
    skip_invalid: bool = False,
) -> Report:
    """Sweep, from Python: ``document`` holds the keys of a sweep file.

    ``cache`` is the folder of finished runs: "" is the usual one, None is none. The other arguments
    are those of ``blis sweep``. Raises :class:`blis_core.api.BlisError` for whatever the command
    line would refuse; a run that fails is part of the report.

    Worker processes of Dask import the main module, so a script that uses it needs the usual
    ``if __name__ == "__main__"``.
    """
    draft = Draft()
    draft.add_document(dict(document), "sweep")
    prepared = Prepared(draft.finish(), skip_invalid=skip_invalid)
    folder = default_folder() if cache == "" else cache
    store = None if folder is None else Store(Path(folder))
    return prepared.execute(make_backend(backend, jobs=jobs, address=address), store)


_LONG_S: Final = 10.0


class Prepared:
    """A sweep whose points have been checked."""

    def __init__(self, sweep: Sweep, *, skip_invalid: bool = False) -> None:
        """BlisError for a point that cannot be simulated, unless they are skipped."""
        self.sweep = sweep
        self._code = code_identity()
        preparation = Preparation(sweep, self._code, skip_invalid=skip_invalid)
        self.points: list[Point]
        self.runs: list[Run]
        self.points, self.runs = preparation.prepare(expand(sweep))
        self.inputs = preparation.inputs
        log_warnings(preparation.warnings, len(self.points))

    def known(self, store: Store | None) -> dict[str, Finished]:
        """Runs by key that need not be simulated."""
        if store is None:
            return {}
        found = {run.key: store.get(run.key) for run in self.runs if run.key}
        return {key: finished for key, finished in found.items() if finished is not None}

    def execute(self, backend: Backend, store: Store | None, *, shown: bool = False) -> Report:
        """Simulate, keep each run in ``store`` as soon as it has finished, and report.

        Equal runs are simulated once. On an interrupt what has finished is kept. ``shown``: say on
        stderr how far it is.
        """
        known = self.known(store)
        missing = self._missing(known)
        failed: dict[str, Outcome] = {}
        try:
            with Progress(len(missing), shown=shown) as progress:
                if missing:
                    self._simulate(backend, store, missing, known, failed, progress)
        except KeyboardInterrupt:
            if shown:
                self._say_interrupted(known, store)
            raise
        if shown:
            self._say_done(progress, len(missing), backend.slots)
        outcomes = [_outcome(number, run, known, failed) for number, run in enumerate(self.runs)]
        return Report(sweep=self.sweep, points=self.points, runs=self.runs, outcomes=outcomes)

    def _missing(self, known: Mapping[str, Finished]) -> list[Run]:
        """Runs to simulate: the first seed of all points comes first, so that even a sweep that is
        cut short says something about each of them."""
        position = {seed: number for number, seed in enumerate(self.sweep.seeds)}
        wanted = {run.key: run for run in reversed(self.runs) if run.key and run.key not in known}
        return sorted(wanted.values(), key=lambda run: (position[run.seed], run.point))

    def _simulate(
        self,
        backend: Backend,
        store: Store | None,
        missing: list[Run],
        known: dict[str, Finished],
        failed: dict[str, Outcome],
        progress: Progress,
    ) -> None:
        replays = self.sweep.table.command == "replay"
        tasks = [
            Task(index=number, replays=replays, options=run.options)
            for number, run in enumerate(missing)
        ]
        setup = setup_here(self._code)
        with closing(backend.run(setup, tasks)) as outcomes:
            for outcome in map(self._trusted, outcomes):
                run = missing[outcome.index]
                if outcome.finished is None:
                    failed[run.key] = outcome
                else:
                    known[run.key] = outcome.finished
                    if store is not None:
                        about = {"point": self.points[run.point].label, **run.options}
                        store.put(run.key, outcome.finished, about)
                progress.add(outcome)

    def _trusted(self, outcome: Outcome) -> Outcome:
        """``outcome``, or a failure if a file has changed since the key of the run was made."""
        changed = self.inputs.changed()
        if changed is None:
            return outcome
        problem = f"{changed} has changed while the sweep was running; run it again"
        return attrs.evolve(outcome, finished=None, error=problem)

    def _say_done(self, progress: Progress, simulated: int, slots: int) -> None:
        counts = [f"{simulated} simulated"]
        runs = [run for run in self.runs if run.key]
        if len(runs) > simulated:
            counts.append(f"{len(runs) - simulated} known before")
        if progress.failed:
            counts.append(f"{progress.failed} failed")
        text = f"{len(runs)} run{'s' * (len(runs) != 1)}: {', '.join(counts)}"
        if simulated:
            text += f", in {progress.seconds:.1f} s"
        if slots and progress.seconds > _LONG_S:  # before, it is about how fast processes start
            share = progress.busy_s / (slots * progress.seconds)
            text += f" on {slots} workers that were busy for {min(share, 1) * 100:.0f} %"
        print(f"blis: sweep: {text}", file=sys.stderr)

    def _say_interrupted(self, known: Mapping[str, Finished], store: Store | None) -> None:
        finished = sum(run.key in known for run in self.runs)
        kept = "are kept; the same command goes on from here" if store else "are lost (--no-cache)"
        print(
            f"blis: sweep: interrupted; {finished} of {len(self.runs)} runs have finished and"
            f" {kept}",
            file=sys.stderr,
        )


def _outcome(
    number: int, run: Run, known: Mapping[str, Finished], failed: Mapping[str, Outcome]
) -> Outcome:
    if run.key in known:
        return Outcome(index=number, finished=known[run.key])
    error = failed[run.key].error if run.key in failed else ""
    return Outcome(index=number, error=error)


def draft_of(
    file: str,
    base: Iterable[str],
    *,
    grid: Iterable[str],
    points: Iterable[str],
) -> Draft:
    """A draft from what stands on the command line."""
    words = list(base)
    draft = Draft()
    if file:
        draft.add_file(file, words)
    if words:
        draft.add_base(words)
    for text in grid:
        draft.add_axis(text)
    for text in points:
        draft.add_point(text)
    return draft

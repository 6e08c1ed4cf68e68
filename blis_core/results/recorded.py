"""The recording of a run, with its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blis_core import __version__
from blis_core.results.as_json import document

if TYPE_CHECKING:
    from blis_core.recording.recorder import Recorder
    from blis_core.recording.tables import Recording
    from blis_core.results.model import Results


def record(recorder: Recorder, results: Results) -> Recording:
    """What ``recorder`` took down of a run with these ``results``."""
    replays = results.config is not None and results.config.replays
    about = {
        "command": "replay" if replays else "run",
        "version": __version__,
        "results": document(results),
    }
    return recorder.tables(results.requests, about)

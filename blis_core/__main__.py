"""The console script ``blis``, and ``python -m blis_core``: the command line as a process."""

from __future__ import annotations

import atexit
import gc
import os
import sys


def script() -> None:
    """``main`` in a process of its own, which ends here."""
    # Imports and runs make many objects and hardly any cycles: look for those less often. Even the
    # imports of the command line, which is why that is imported only now.
    gc.set_threshold(300_000, 20, 100)
    from blis_core.cli.main import main

    code = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # a reader that has gone, as main has reported
        pass
    atexit._run_exitfuncs()
    os._exit(code)  # the system takes the memory back in one piece, which Python does bit by bit


if __name__ == "__main__":
    script()

"""Many connections need many file descriptors; the usual limit of a shell is low."""

from __future__ import annotations

import contextlib


def raise_limit() -> None:
    """Allow this process as many open files as the system lets it have."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

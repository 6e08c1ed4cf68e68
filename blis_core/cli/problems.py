"""What is said of plugins before a command runs."""

from __future__ import annotations

from blis_core import log, plugins


def report_problems() -> None:
    """One line on stderr for each plugin that could not be used."""
    registry = plugins.get_registry()
    texts = [str(problem) for problem in registry.problems]
    texts += [
        f"there is no plugin {name} to leave out; blis --list-plugins shows all"
        for name in registry.absent
    ]
    for text in texts:
        log.warning(text)

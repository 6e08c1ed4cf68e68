"""The progress bar of ``blis observe`` on a terminal's standard error."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from blis_observe.dispatch import Dispatcher

_EVERY_S = 0.25


async def show(dispatcher: Dispatcher, expected: int) -> None:
    """Show a bar until cancelled. ``expected`` requests in all; 0 = not known."""
    counts, began = dispatcher.counts, time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[details]}"),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=Console(stderr=True), auto_refresh=False, transient=True
    ) as progress:
        bar = progress.add_task("observing", total=expected or None, details="")
        while True:
            rate = counts.done / max(1e-9, time.monotonic() - began)
            details = f"{rate:.1f}/s  {counts.sent - counts.done} in flight"
            if counts.failed:
                details += f"  [red]{counts.failed} failed[/red]"
            progress.update(bar, completed=counts.done, details=details, refresh=True)
            await asyncio.sleep(_EVERY_S)

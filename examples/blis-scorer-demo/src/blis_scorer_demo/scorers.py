"""The scorer ``headroom``."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from blis_core.api import Scorer

if TYPE_CHECKING:
    import numpy.typing as npt

    from blis_core.api import FleetView, Request


class Headroom(Scorer):
    """Is there room for the prompt?

    1 where the free KV blocks are ``plenty`` times what the prompt still needs, in proportion
    below. A prompt needs a block for each of its full blocks that is not cached, and one more for
    the rest and the answer.
    """

    plenty: ClassVar[float] = 4.0
    """Requests in the batch go on growing, so room for just the prompt is not enough."""

    def score(self, request: Request, fleet: FleetView) -> npt.NDArray[np.float64]:
        """min(1, free / (plenty x needed))."""
        needed = len(fleet.prompt_keys(request)) - fleet.cached_blocks(request) + 1
        return np.minimum(1.0, fleet.free_blocks / (self.plenty * needed))

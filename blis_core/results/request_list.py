"""The records of a run as the user of the Python interface gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blis_core.contracts import Request

if TYPE_CHECKING:
    import pandas as pd

    from blis_core.results.arrays import RequestArrays


class RequestList(list[Request]):
    """The records of a run: a list of :class:`Request`, which also comes as columns."""

    def arrays(self) -> RequestArrays:
        """The requests as numpy arrays, made anew by each call."""
        from blis_core.results.arrays import arrays_of

        return arrays_of(self)

    def frame(self) -> pd.DataFrame:
        """The requests as a pandas frame, one row each; BlisError if pandas is not installed.

        Columns are those of :class:`RequestArrays`; names that recur are categories.
        """
        try:
            import pandas as pd
        except ImportError:
            from blis_core.errors import BlisError

            raise BlisError(
                "frame: pandas is not installed; pip install pandas, or use arrays(), which needs"
                " numpy only"
            ) from None
        frame = pd.DataFrame(self.arrays().columns())
        recurring = ("state", "instance", "slo_class", "tenant", "client", "model")
        return frame.astype(dict.fromkeys(recurring, "category"))

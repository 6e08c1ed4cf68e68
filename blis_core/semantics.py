"""Rules of the engine in which vLLM and the reference simulator differ, each a named switch.

``--semantics NAME`` chooses a set of them; ``+RULE`` and ``-RULE`` behind it, separated by commas,
change single ones: ``vllm``, ``reference,+schedule-lag``, ``vllm,-recompute``.
"""

from __future__ import annotations

from typing import Final

import attrs

from blis_core.errors import UsageError
from blis_core.records import Record


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Semantics(Record):
    """Which rules hold. Without any, the engine does as the reference does."""

    schedule_lag: bool = False
    recompute: bool = False
    cached_context: bool = False
    compute_last_token: bool = False
    abort_timeouts: bool = False
    late_first_token: bool = False


RULES: Final = {
    "schedule-lag": "The batch of a step is chosen when the step before begins (asynchronous"
    " scheduling): who arrives later waits for the next choice, and who finishes meanwhile keeps"
    " slot and KV blocks until then. An idle engine begins at once.",
    "recompute": "A preempted request keeps the tokens that it has generated: when it returns, one"
    " prefill covers prompt and output, as far as they are not cached. (The reference generates"
    " them again, one by one.)",
    "cached-context": "In its first step a request counts with the cached prefix as its context.",
    "compute-last-token": "At least one prompt token is computed, even if the whole prompt is"
    " cached, so that a full hit costs a step and holds its blocks.",
    "abort-timeouts": "A request that times out was aborted: it counts as failed, and none of its"
    " latencies enters a statistic.",
    "late-first-token": "Without recompute, the first token after a preemption is the one that"
    " counts, so that TTFT and E2E include the wait.",
}
"""What each switch does; ``schedule-lag`` is the field ``schedule_lag``, and so on."""

REFERENCE: Final = Semantics()
VLLM: Final = Semantics(**{name.replace("-", "_"): True for name in RULES})
SETS: Final = {"reference": REFERENCE, "vllm": VLLM}


def parse_semantics(text: str) -> Semantics:
    """The rules that ``text`` names; UsageError for an unknown set or rule."""
    name, *changes = [part.strip() for part in text.split(",")]
    if name not in SETS:
        raise UsageError(
            f"--semantics {text}: {name!r} is not a set of rules; there are {', '.join(SETS)}"
        )
    changed: dict[str, bool] = {}
    for change in changes:
        rule = change[1:]
        if change[:1] not in ("+", "-") or rule not in RULES:
            raise UsageError(
                f"--semantics {text}: {change!r} is not + or - and a rule; the rules are"
                f" {', '.join(RULES)}"
            )
        changed[rule.replace("-", "_")] = change[0] == "+"
    return attrs.evolve(SETS[name], **changed)

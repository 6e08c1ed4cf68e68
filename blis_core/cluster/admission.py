"""Built-in admission policies.

A policy is built as ``factory(AdmissionSetup)``.
"""

from __future__ import annotations

import attrs

from blis_core.cluster.saturation import SATURATED, mean_pressure
from blis_core.cluster.slo import SloPriorities
from blis_core.config import DEFAULT_TOKEN_BUCKET_CAPACITY, DEFAULT_TOKEN_BUCKET_REFILL_RATE
from blis_core.contracts import AdmissionPolicy, FleetView, Request
from blis_core.records import Record

DEFAULT_GAIE_QD_THRESHOLD = 5.0
DEFAULT_GAIE_KV_THRESHOLD = 0.8


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AdmissionSetup(Record):
    """What an admission policy is built from; each takes what it needs."""

    token_bucket_capacity: float = DEFAULT_TOKEN_BUCKET_CAPACITY
    """Prompt tokens, above 0."""
    token_bucket_refill_rate: float = DEFAULT_TOKEN_BUCKET_REFILL_RATE
    """Prompt tokens per second, above 0."""
    tier_shed_threshold: int = 0
    """Largest load of an instance at which nobody is shed, at least 0."""
    tier_shed_min_priority: int = 0
    """Least priority of a class that is admitted beyond the threshold."""
    gaie_qd_threshold: float = DEFAULT_GAIE_QD_THRESHOLD
    """Waiting requests of a full instance, above 0."""
    gaie_kv_threshold: float = DEFAULT_GAIE_KV_THRESHOLD
    """Used share of KV blocks of a full instance, in (0, 1]."""
    priorities: SloPriorities = attrs.field(factory=SloPriorities)


class AlwaysAdmit(AdmissionPolicy):
    """Lets every request in."""

    reads_fleet = False

    def __init__(self, setup: AdmissionSetup) -> None:
        pass

    def admit(self, request: Request, fleet: FleetView, now: int) -> str | None:
        """Admitted, always."""
        return None


class RejectAll(AdmissionPolicy):
    """Turns every request away (to test what a client makes of it)."""

    reads_fleet = False

    def __init__(self, setup: AdmissionSetup) -> None:
        pass

    def admit(self, request: Request, fleet: FleetView, now: int) -> str | None:
        """Rejected, always."""
        return "reject-all"


class TokenBucket(AdmissionPolicy):
    """Limits the rate of prompt tokens, with a reserve for bursts."""

    reads_fleet = False

    def __init__(self, setup: AdmissionSetup) -> None:
        self._capacity = setup.token_bucket_capacity
        self._rate = setup.token_bucket_refill_rate
        self._last = 0
        self.tokens = self._capacity
        """Prompt tokens in reserve, from 0 to the capacity."""

    def admit(self, request: Request, fleet: FleetView, now: int) -> str | None:
        """Admitted, and paid for, if the reserve covers the prompt."""
        elapsed = now - self._last
        if elapsed > 0:
            self.tokens = min(self._capacity, self.tokens + float(elapsed) * self._rate / 1e6)
            self._last = now
        cost = float(request.prompt_len)
        if self.tokens < cost:
            return "insufficient tokens"
        self.tokens -= cost
        return None


class TierShed(AdmissionPolicy):
    """Beyond a load, admits the more important classes only."""

    def __init__(self, setup: AdmissionSetup) -> None:
        self._threshold = setup.tier_shed_threshold
        self._minimum = setup.tier_shed_min_priority
        self._priorities = setup.priorities

    def admit(self, request: Request, fleet: FleetView, now: int) -> str | None:
        """Rejected if the busiest instance is beyond the threshold and the class too low."""
        priority = self._priorities.of(request.slo_class)
        if priority >= self._minimum:
            return None  # whatever the load is, so it need not be known
        load = int(fleet.load.max()) if len(fleet) else 0
        if load <= self._threshold:
            return None
        return (
            f"tier-shed: class={request.slo_class} priority={priority} < min={self._minimum}"
            f" load={load}"
        )


class GaieLegacy(AdmissionPolicy):
    """Sheds sheddable classes while the cluster is saturated, like an inference gateway."""

    def __init__(self, setup: AdmissionSetup) -> None:
        self._queue_depth = setup.gaie_qd_threshold
        self._kv_utilization = setup.gaie_kv_threshold
        self._priorities = setup.priorities

    def admit(self, request: Request, fleet: FleetView, now: int) -> str | None:
        """Rejected if the class is sheddable and queues or KV caches are full on average."""
        if not self._priorities.sheddable(request.slo_class):
            return None
        saturation = mean_pressure(fleet, self._queue_depth, self._kv_utilization)
        if saturation < SATURATED:
            return None
        return f"gaie-saturated: class={request.slo_class} saturation={saturation:.2f}"

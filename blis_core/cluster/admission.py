"""Built-in admission policies."""

from __future__ import annotations

from blis_core.contracts import AdmissionPolicy, FleetView, Request


class AlwaysAdmit(AdmissionPolicy):
    """Lets every request in."""

    reads_fleet = False

    def admit(self, request: Request, fleet: FleetView, now: int) -> str | None:
        """Admitted, always."""
        return None


class RejectAll(AdmissionPolicy):
    """Turns every request away (to test what a client makes of it)."""

    reads_fleet = False

    def admit(self, request: Request, fleet: FleetView, now: int) -> str | None:
        """Rejected, always."""
        return "reject-all"

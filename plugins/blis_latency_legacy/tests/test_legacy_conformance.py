"""The deprecated models pass the conformance kit, too."""

from __future__ import annotations

from blis_core.testing import LatencyModelTests, latency_setup
from blis_latency_legacy import crossmodel, trained_roofline
from blis_latency_legacy.blackbox import Blackbox
from blis_latency_legacy.crossmodel import CrossModel
from blis_latency_legacy.trained_roofline import TrainedRoofline

ALPHA = (1500.5, 3.25, 40.0)


class TestBlackbox(LatencyModelTests):
    def make(self):
        return Blackbox(latency_setup("blackbox", alpha=ALPHA, beta=(8000.5, 20.25, 300.75)))


class TestCrossModel(LatencyModelTests):
    def make(self):
        return CrossModel(
            latency_setup("crossmodel", alpha=ALPHA, beta=tuple(crossmodel.GLOBAL[1]))
        )


class TestTrainedRoofline(LatencyModelTests):
    def make(self):
        return TrainedRoofline(
            latency_setup("trained-roofline", alpha=ALPHA, beta=tuple(trained_roofline.GLOBAL[1]))
        )

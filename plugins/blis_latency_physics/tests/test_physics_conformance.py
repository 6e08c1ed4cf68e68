"""The models of this distribution pass the conformance kit."""

from __future__ import annotations

import pytest

from blis_core.testing import LatencyModelTests, latency_setup
from blis_latency_physics import coefficients
from blis_latency_physics.roofline import Roofline
from blis_latency_physics.trained_physics import TrainedPhysics


@pytest.mark.parametrize("tp", [1, 4])
class TestRoofline(LatencyModelTests):
    @pytest.fixture(autouse=True)
    def chosen(self, tp):
        self.tp = tp

    def make(self):
        return Roofline(latency_setup("roofline", tp=self.tp))


class TestTrainedPhysics(LatencyModelTests):
    def make(self):
        return TrainedPhysics(
            latency_setup(
                "trained-physics", alpha=(1500.5, 3.25, 40.0), beta=tuple(coefficients.BETA)
            )
        )

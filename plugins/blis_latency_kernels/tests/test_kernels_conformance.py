"""The model passes the conformance kit."""

from __future__ import annotations

import pytest

from blis_core.testing import LatencyModelTests, latency_setup
from blis_latency_kernels.model import KernelModel


@pytest.mark.parametrize("tp", [1, 4])
class TestKernels(LatencyModelTests):
    # a decode replaces the attention kernel of pure prefill by its own, which may start earlier
    monotone = False

    @pytest.fixture(autouse=True)
    def chosen(self, tp):
        self.tp = tp

    def make(self):
        return KernelModel(latency_setup("kernels", tp=self.tp))

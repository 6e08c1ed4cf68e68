"""The model passes the conformance kit."""

from __future__ import annotations

import pytest

from blis_core.catalog.huggingface import describe
from blis_core.catalog.models import bundled_config
from blis_core.testing import LatencyModelTests, latency_setup
from blis_latency_kernels.model import KernelModel
from blis_latency_kernels.options import KernelOptions


@pytest.mark.parametrize("tp", [1, 4])
class TestKernels(LatencyModelTests):
    # a decode replaces the attention kernel of pure prefill by its own, which may start earlier
    monotone = False

    @pytest.fixture(autouse=True)
    def chosen(self, tp):
        self.tp = tp

    def make(self):
        return KernelModel(latency_setup("kernels", tp=self.tp))


class TestEnginesThatShareExperts(LatencyModelTests):
    monotone = False

    def make(self):
        name = "mixtral-8x7b-v0.1"
        model, _ = describe(bundled_config(name), name)
        options = KernelOptions(data_parallel=2)
        return KernelModel(latency_setup("kernels", model=model, options=options))

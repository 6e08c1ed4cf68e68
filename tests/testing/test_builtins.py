"""Whatever the core itself registers passes the conformance kit."""

from __future__ import annotations

import re

import pytest

from blis_core import plugins, testing
from blis_core.api import (
    AdmissionSetup,
    ImportSetup,
    KVSetup,
    LengthSetup,
    PriorityPolicy,
    RoutingSetup,
    ScalingSetup,
)
from blis_core.registry import KINDS
from blis_core.testing import (
    AdmissionPolicyTests,
    ArrivalSamplerTests,
    ImporterTests,
    KVStoreTests,
    LengthSamplerTests,
    PDDeciderTests,
    RoutingPolicyTests,
    ScalingActuatorTests,
    ScalingAnalyzerTests,
    ScalingCollectorTests,
    ScalingEngineTests,
    SchedulerTests,
)

LENGTHS = {
    "constant": ({"value": 37}, 37, 37),
    "gaussian": ({"mean": 200, "std_dev": 300, "min": 2, "max": 500}, 2, 500),
    "exponential": ({"mean": 100}, 1, None),
    "pareto_lognormal": (
        {"alpha": 1.5, "xm": 20, "mu": 4, "sigma": 1, "mix_weight": 0.3},
        1,
        None,
    ),
    "lognormal": ({"mu": 4, "sigma": 1.5, "min": 3, "max": 900}, 3, 900),
    "empirical": ({"10": 1, "20": 3, "500": 0.5}, 10, 500),
}
"""Parameters of each length sampler, and the bounds that they imply."""


def core(kind):
    """Names that the core registers."""
    entries = plugins.get_registry().entries(kind)
    return [entry.name for entry in entries if entry.origin.distribution == "blis-core"]


def make(kind, name, *arguments):
    return plugins.get_registry().create(kind, name, *arguments)


class Named:
    """Runs the tests of a kit for each name that the core registers."""

    @pytest.fixture(autouse=True)
    def chosen(self, name):
        self.name = name


@pytest.mark.parametrize("name", core("routing-policy"))
class TestRoutingPolicies(Named, RoutingPolicyTests):
    def make(self, setup: RoutingSetup):
        return make("routing-policy", self.name, setup)


@pytest.mark.parametrize("name", core("admission-policy"))
class TestAdmissionPolicies(Named, AdmissionPolicyTests):
    def make(self, setup: AdmissionSetup):
        return make("admission-policy", self.name, setup)


class TestTightTokenBucket(AdmissionPolicyTests):
    def make(self, setup: AdmissionSetup):
        return make("admission-policy", "token-bucket", setup)

    def setup(self):
        return AdmissionSetup(token_bucket_capacity=300.0, token_bucket_refill_rate=2000.0)


@pytest.mark.parametrize("name", core("pd-decider"))
class TestDeciders(Named, PDDeciderTests):
    def make(self, setup):
        return make("pd-decider", self.name, setup)


@pytest.mark.parametrize("name", core("scheduler"))
class TestSchedulers(Named, SchedulerTests):
    def make(self, priority: PriorityPolicy):
        return make("scheduler", self.name, priority)


class TestPagedStore(KVStoreTests):
    like_paged = True

    def make(self, setup: KVSetup):
        return make("kv-store", "paged", setup)


class TestTieredStore(KVStoreTests):
    def make(self, setup: KVSetup):
        return make("kv-store", "tiered", setup)

    def setup(self, total_blocks, block_size):
        return KVSetup(total_blocks=total_blocks, block_size=block_size, cpu_blocks=10)


@pytest.mark.parametrize("name", core("arrival-sampler"))
class TestArrivalSamplers(Named, ArrivalSamplerTests):
    def make(self, setup):
        return make("arrival-sampler", self.name, setup)


@pytest.mark.parametrize("name", core("length-sampler"))
class TestLengthSamplers(Named, LengthSamplerTests):
    @pytest.fixture(autouse=True)
    def bounds(self, name):
        self.params, self.smallest, self.largest = LENGTHS[name]

    def make(self):
        return make("length-sampler", self.name, LengthSetup(params=self.params))


@pytest.mark.parametrize("name", core("autoscaler-collector"))
class TestScalingCollectors(Named, ScalingCollectorTests):
    def make(self, setup: ScalingSetup):
        return make("autoscaler-collector", self.name, setup)


@pytest.mark.parametrize("name", core("autoscaler-analyzer"))
class TestScalingAnalyzers(Named, ScalingAnalyzerTests):
    def make(self, setup: ScalingSetup):
        return make("autoscaler-analyzer", self.name, setup)


@pytest.mark.parametrize("name", core("autoscaler-engine"))
class TestScalingEngines(Named, ScalingEngineTests):
    def make(self, setup: ScalingSetup):
        return make("autoscaler-engine", self.name, setup)


@pytest.mark.parametrize("name", core("autoscaler-actuator"))
class TestScalingActuators(Named, ScalingActuatorTests):
    def make(self, setup: ScalingSetup):
        return make("autoscaler-actuator", self.name, setup)


RECORDINGS = {
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2024-05-01 10:00:01.5000000,300,20\n2024-05-01 10:00:00.2500000,40,5\n",
    "mooncake": '{"timestamp": 0, "input_length": 700, "output_length": 9, "hash_ids": [0, 1]}\n'
    '{"timestamp": 5, "input_length": 1300, "output_length": 3, "hash_ids": [0, 2, 3]}\n',
}


@pytest.mark.parametrize("name", core("importer"))
class TestImporters(Named, ImporterTests):
    def make(self, setup: ImportSetup):
        return make("importer", self.name, setup)

    def sample(self):
        return RECORDINGS[self.name]


def test_each_kind_has_a_class():
    wanted = {f"{info.interface}Tests" for info in KINDS.values() if info.interface}
    assert wanted <= set(testing.__all__)


def test_every_store_of_the_core_is_tested():
    assert set(core("kv-store")) == {"paged", "tiered"}


@pytest.mark.parametrize("name", [name for name in testing.__all__ if name.endswith("Tests")])
def test_a_class_without_make_says_what_to_do(name):
    kit = getattr(testing, name)()
    law = next(law for law in dir(kit) if law.startswith("test_"))
    with pytest.raises(NotImplementedError, match=re.escape("define make(self")):
        getattr(kit, law)()

"""The policy file: what it may say, and what is said about what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from blis_core.errors import BlisError
from blis_core.policies.bundle import AutoscalerSection, Delay, PolicyBundle, load_bundle

FULL = """\
admission:
  policy: tier-shed
  token_bucket_capacity: 0
  token_bucket_refill_rate: 2.5e3
  tier_shed_threshold: 4.9
  tier_shed_min_priority: -1
  gaie_qd_threshold: 2
  gaie_kv_threshold: 1
  slo_priorities: {gold: 9, batch: -4, "": 2, odd: null}
routing:
  policy: weighted
  scorers:
  - {name: load-balance, weight: 2}
  - null
  - {name: queue-depth, weight: .5}
priority: {policy: slo-based}
scheduler: priority-fcfs
tenant_budgets: {t1: 0, t2: 1, 7: 0.5}
node_pools:
- name: a
  gpu_type: H100
  gpus_per_node: 4
  gpu_memory_gib: 80
  initial_nodes: 1
  max_nodes: 2
  provisioning_delay: {mean: 30, stddev: 0.5}
  cost_per_hour: 12.5
autoscaler:
  interval_us: 1e6
  hpa_scrape_delay: {mean: 0.1}
  analyzer: {kv_cache_threshold: 1, scale_up_threshold: 0.3, scale_down_boundary: 0.2}
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)

    def load(text: str) -> PolicyBundle:
        Path("p.yaml").write_text(text, encoding="utf-8")
        return load_bundle("p.yaml")

    return load


def test_everything(load) -> None:
    bundle = load(FULL)
    assert bundle.source == "p.yaml"
    admission = bundle.admission
    assert admission.policy == "tier-shed"
    assert (admission.token_bucket_capacity, admission.token_bucket_refill_rate) == (0, 2500)
    assert (admission.tier_shed_threshold, admission.tier_shed_min_priority) == (4, -1)
    assert (admission.gaie_qd_threshold, admission.gaie_kv_threshold) == (2, 1)
    assert admission.slo_priorities == {"gold": 9, "batch": -4, "": 2, "odd": 0}
    assert bundle.routing.policy == "weighted"
    assert [(s.name, s.weight) for s in bundle.routing.scorers] == [
        ("load-balance", 2),
        ("queue-depth", 0.5),
    ]
    assert (bundle.priority.policy, bundle.scheduler) == ("slo-based", "priority-fcfs")
    assert bundle.tenant_budgets == {"t1": 0, "t2": 1, "7": 0.5}
    (pool,) = bundle.node_pools
    assert (pool.name, pool.gpu_type, pool.gpus_per_node) == ("a", "H100", 4)
    assert (pool.initial_nodes, pool.min_nodes, pool.max_nodes) == (1, 0, 2)
    assert pool.provisioning_delay == Delay(mean=30, stddev=0.5)
    assert bundle.autoscaler.interval_us == 1e6
    assert bundle.autoscaler.hpa_scrape_delay == Delay(mean=0.1)
    assert bundle.autoscaler.analyzer.avg_input_tokens == 0


@pytest.mark.parametrize(
    "text",
    ["null", "{}", "---\nadmission:\nrouting: ~\ntenant_budgets: null\nnode_pools:\nscheduler:\n"],
)
def test_nothing(load, text: str) -> None:
    bundle = load(text)
    assert bundle == PolicyBundle(source="p.yaml")
    assert bundle.admission.token_bucket_capacity is None
    assert bundle.tenant_budgets is None
    assert bundle.autoscaler == AutoscalerSection()


def test_an_empty_map_of_budgets_is_not_none(load) -> None:
    assert load("tenant_budgets: {}").tenant_budgets == {}


def test_only_the_first_document_counts(load) -> None:
    assert load("scheduler: sjf\n---\nnonsense: 1\n").scheduler == "sjf"


POOL = "node_pools: [{name: a, gpu_type: H100, gpus_per_node: 1, gpu_memory_gib: 80, "
SCALER = "autoscaler: {interval_us: 0, "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"^p.yaml: the file is empty"),
        ("# nothing\n", r"^p.yaml: the file is empty"),
        ("[1]", r"^p.yaml: must be a mapping, not a list"),
        ("routing: {nope: 1}", r"^p.yaml: routing: unknown key 'nope'; .*policy.* \(line 1\)"),
        ("source: x", r"unknown key 'source'"),
        ("scheduler: a\nscheduler: b", r"line 2: key 'scheduler' is given twice"),
        ("admission: {tier_shed_threshold: '4'}", r"tier_shed_threshold: must be a whole number"),
        ("priority: slo-based", r"^p.yaml: priority: must be a mapping"),
        (
            "admission: {policy: maybe}",
            r"^p.yaml: admission.policy: unknown admission policy 'maybe' \(available: always-adm",
        ),
        ("routing: {policy: random}", r"^p.yaml: routing.policy: unknown routing policy"),
        (
            "priority: {policy: fair}",
            r"^p.yaml: priority.policy: must be one of constant, .*slo-based, got 'fair'",
        ),
        ("scheduler: lifo", r"^p.yaml: scheduler: unknown scheduler 'lifo'"),
        (
            "admission: {token_bucket_capacity: -1}",
            r"token_bucket_capacity: must be finite and at least 0, got -1.0",
        ),
        ("admission: {token_bucket_refill_rate: .inf}", r"refill_rate: must be finite .* got inf"),
        ("admission: {tier_shed_threshold: -1}", r"tier_shed_threshold: must be at least 0, got"),
        ("admission: {gaie_qd_threshold: 0}", r"gaie_qd_threshold: must be finite and greater th"),
        ("admission: {gaie_qd_threshold: .nan}", r"gaie_qd_threshold: must be finite and greater"),
        ("admission: {gaie_kv_threshold: 0}", r"gaie_kv_threshold: must be in \(0, 1\], got 0.0"),
        ("admission: {gaie_kv_threshold: 1.01}", r"gaie_kv_threshold: must be in \(0, 1\]"),
        ("admission: {gaie_kv_threshold: .nan}", r"gaie_kv_threshold: must be in \(0, 1\]"),
        ("tenant_budgets: {t1: 1.5}", r"^p.yaml: tenant_budgets.t1: must be in \[0, 1\], got 1.5"),
        ("tenant_budgets: {t1: .nan}", r"tenant_budgets.t1: must be in \[0, 1\], got nan"),
        (
            "routing: {scorers: [{name: queue-depth, weight: 1}, {name: best, weight: 1}]}",
            r"^p.yaml: routing.scorers\[1\]: unknown scorer 'best'",
        ),
        (
            "routing: {scorers: [{name: queue-depth, weight: 1}, {name: queue-depth, weight: 2}]}",
            r"routing.scorers\[1\]: scorer 'queue-depth' is listed twice",
        ),
        ("routing: {scorers: [{name: queue-depth}]}", r"the weight of queue-depth must be a fini"),
        ("routing: {scorers: [{name: queue-depth, weight: .inf}]}", r"weight of queue-depth"),
        ("routing: {scorers: [{weight: 1}]}", r"routing.scorers\[0\]: unknown scorer ''"),
        ("autoscaler: {interval_us: -1}", r"^p.yaml: autoscaler.interval_us: must be finite and"),
        (SCALER + "scale_up_stabilization_window_us: .nan}", r"scale_up_stabilization_window_us"),
        (SCALER + "scale_down_stabilization_window_us: -1}", r"scale_down_stabilization_window_"),
        (SCALER + "hpa_scrape_delay: {mean: -1}}", r"hpa_scrape_delay.mean: must be finite"),
        (SCALER + "hpa_scrape_delay: {stddev: .inf}}", r"hpa_scrape_delay.stddev: must be finite"),
        (SCALER + "analyzer: {kv_cache_threshold: 1.1}}", r"kv_cache_threshold: must be in \(0, 1"),
        (SCALER + "analyzer: {scale_up_threshold: -1}}", r"scale_up_threshold: must be finite and"),
        (SCALER + "analyzer: {avg_input_tokens: .inf}}", r"avg_input_tokens: must be finite and"),
        (
            SCALER + "analyzer: {scale_down_boundary: 0.8}}",
            r"analyzer.scale_down_boundary: must be less than scale_up_threshold \(0.8\), got 0.8",
        ),
        (SCALER + "analyzer: {scale_up_threshold: 0.4}}", r"scale_down_boundary: .*\(0.4\), got"),
        ("node_pools: [{gpu_type: H100}]", r"^p.yaml: node_pools\[0\].name: must be given, got ''"),
        ("node_pools: [{name: a}]", r"node_pools\[0\].gpu_type: must be given"),
        ("node_pools: [{name: a, gpu_type: b}]", r"gpus_per_node: must be at least 1, got 0"),
        (
            "node_pools: [{name: a, gpu_type: b, gpus_per_node: 1}]",
            r"gpu_memory_gib: must be finite and greater than 0, got 0.0",
        ),
        (POOL + "initial_nodes: -1}]", r"initial_nodes: must be at least 0, got -1"),
        (POOL + "min_nodes: -1}]", r"min_nodes: must be at least 0, got -1"),
        (POOL + "initial_nodes: 1}]", r"max_nodes: must be at least initial_nodes \(1\), got 0"),
        (POOL + "min_nodes: 2, max_nodes: 1}]", r"min_nodes: must be at most max_nodes \(1\), got"),
        (POOL + "provisioning_delay: {mean: .inf}}]", r"provisioning_delay.mean: must be finite"),
        (POOL + "cost_per_hour: -0.5}]", r"cost_per_hour: must be finite and at least 0, got -0.5"),
    ],
)
def test_errors(load, text: str, message: str) -> None:
    with pytest.raises(BlisError, match=message):
        load(text)


def test_the_first_fault_in_the_documented_order_is_reported(load) -> None:
    """Whatever the order in the file: names, admission, budgets, scorers, autoscaler, pools."""
    faults = {
        "admission": [
            ("policy: x", "admission.policy"),
            ("token_bucket_capacity: -1", "admission.token_bucket_capacity"),
            ("token_bucket_refill_rate: -1", "admission.token_bucket_refill_rate"),
            ("tier_shed_threshold: -1", "admission.tier_shed_threshold"),
            ("gaie_qd_threshold: -1", "admission.gaie_qd_threshold"),
            ("gaie_kv_threshold: -1", "admission.gaie_kv_threshold"),
        ],
        "routing": [("policy: x", "routing.policy"), ("scorers: [{}]", "routing.scorers[0]")],
        "priority": [("policy: x", "priority.policy")],
    }
    plain = {
        "scheduler": ("x", "scheduler"),
        "tenant_budgets": ("{t: 2}", "tenant_budgets.t"),
        "autoscaler": ("{interval_us: -1}", "autoscaler.interval_us"),
        "node_pools": ("[{}]", "node_pools[0].name"),
    }
    order = [
        *("admission.policy", "routing.policy", "priority.policy", "scheduler"),
        *(path for _, path in faults["admission"][1:]),
        *("tenant_budgets.t", "routing.scorers[0]", "autoscaler.interval_us", "node_pools[0].name"),
    ]
    for expected in order:
        lines = [f"{key}: {text}" for key, (text, _) in plain.items()]
        for section, entries in faults.items():
            lines.append(f"{section}: {{{', '.join(text for text, _ in entries)}}}")
        with pytest.raises(BlisError) as raised:
            load("\n".join(reversed(lines)))
        assert str(raised.value).startswith(f"p.yaml: {expected}: ")
        for section, entries in faults.items():
            faults[section] = [entry for entry in entries if entry[1] != expected]
        plain = {key: entry for key, entry in plain.items() if entry[1] != expected}


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BlisError, match=r"cannot read policy file .*absent.yaml: No such file"):
        load_bundle(str(tmp_path / "absent.yaml"))

"""When two runs are the same: whatever may change a result changes the key, and nothing else."""

from __future__ import annotations

import importlib
import json
import os
import sys

import pytest

from blis_core import plugins
from blis_core.config import ReplayConfig, RunConfig
from blis_core.errors import BlisError
from blis_core.option import options_of
from blis_sweep import identity
from blis_sweep.definition import Draft
from blis_sweep.identity import code_identity
from blis_sweep.inputs import FILE_OPTIONS, Inputs, with_absolute_paths
from blis_sweep.options import WITHOUT_MEANING, WRITES_A_FILE
from blis_sweep.points import Preparation, expand
from blis_sweep.store import Finished, Store

BASE = {"model": "qwen/qwen3-14b", "num-requests": 3}
WORKLOAD = """
version: "2"
aggregate_rate: 5
num_requests: 3
clients:
- id: a
  rate_fraction: 1
  arrival: {process: poisson}
  input_distribution: {type: constant, params: {value: 50}}
  output_distribution: {type: constant, params: {value: 5}}
"""
SERVEGEN = """
version: "2"
num_requests: 3
aggregate_rate: 5
servegen_data: {path: data}
"""


def keys(code="x", **document):
    """The keys of a sweep's runs."""
    draft = Draft()
    draft.add_document({"base": BASE, **document}, "s")
    sweep = draft.finish()
    _, runs = Preparation(sweep, code, skip_invalid=False).prepare(expand(sweep))
    return [run.key for run in runs]


def test_every_run_has_its_own_key():
    found = keys(grid={"rate": [1, 2], "num-instances": [1, 2]}, seeds=3)
    assert len(set(found)) == 12


def test_equal_runs_have_equal_keys():
    assert keys(seeds=2) == keys(seeds=2)
    assert keys(base={**BASE, "rate": 1}) == keys(points=[{"name": "x", "rate": 1}])
    assert keys(base=f"run --model {BASE['model']} --num-requests 3") == keys()
    assert keys(base={**BASE, "output": "table", "log": "info"}) == keys()
    assert keys(seeds=2)[1:] == keys(seeds=[43])


@pytest.mark.parametrize(
    "change",
    [
        {"rate": 2},
        {"model": "qwen/qwen2.5-7b-instruct"},
        {"hardware": "A100-80"},
        {"latency-model": "trained-physics"},
        {"fitness-weights": "throughput:1"},
        {"total-kv-blocks": 500},
    ],
)
def test_every_option_counts(change):
    assert keys(base={**BASE, **change}) != keys()


def test_the_code_counts():
    assert keys(code="y") != keys()


def test_a_plugin_file_counts_by_its_contents(folder):
    found = []
    for text in ("", "", "# a remark\n"):
        with (folder / "marked.py").open("a") as file:
            file.write(text)
        plugins.configure(files=["marked.py"])
        found.append(code_identity())
        plugins.reset()
    assert found[0] == found[1] != found[2]
    assert code_identity() not in found


def test_an_installed_plugin_counts_by_its_contents(folder, monkeypatch):
    """Also if nobody has changed its version, as while it is being written."""
    site = folder / "site"
    (site / "acme_demo-1.0.dist-info").mkdir(parents=True)
    (site / "acme_demo-1.0.dist-info" / "METADATA").write_text("Name: acme-demo\nVersion: 1.0\n")
    points = site / "acme_demo-1.0.dist-info" / "entry_points.txt"
    points.write_text("[blis]\nacme-demo = acme_demo.plugin\n")
    (site / "acme_demo").mkdir()
    (site / "acme_demo" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(site)
    found = {}
    for kind, step in (("scorers", 1), ("scorers", 2), ("commands", 1), ("commands", 2)):
        (site / "acme_demo" / "plugin.py").write_text(
            "from blis_core.api import hookimpl\n\n@hookimpl\n"
            f"def blis_register_{kind}(register):\n    register('acme', 'acme_demo.it:It')\n"
        )
        (site / "acme_demo" / "it.py").write_text(f"STEP = {step}\n")
        for name in [name for name in sys.modules if name.startswith("acme_demo")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        identity._package_digest.cache_clear()
        plugins.reset()
        found[kind, step] = code_identity()
    assert found["scorers", 1] != found["scorers", 2]
    assert found["commands", 1] == found["commands", 2]  # no part in a simulation


@pytest.mark.parametrize(
    "name", ["workload.yaml", "policy.yaml", "profile.yaml", "gpus.json", "config"]
)
def test_files_count_by_their_contents(folder, name):
    option, text, other = {
        "workload.yaml": ("workload-spec", WORKLOAD, WORKLOAD.replace("value: 5}", "value: 6}")),
        "policy.yaml": ("policy-config", "scheduler: fcfs\n", "scheduler: sjf\n"),
        "profile.yaml": (
            "latency-profile",
            "latency_model: kernels\noptions: {scale: 1.1}\n",
            "latency_model: kernels\noptions: {scale: 1.2}\n",
        ),
        "gpus.json": ("hardware-config", gpus(3.0), gpus(2.0)),
        "config": ("model-config-folder", model_config(40), model_config(41)),
    }[name]
    path = folder / name
    if name == "config":
        path.mkdir()
        path = path / "config.json"
    path.write_text(text)
    base = {**BASE, option: name}
    first = keys(base=base)
    assert keys(base=base) == first
    path.write_text(other)
    changed = keys(base=base)
    assert changed != first
    path.write_text(text)
    assert keys(base=base) == first


def gpus(bandwidth):
    figures = {"TFlopsPeak": 900, "BwPeakTBs": bandwidth, "mfuPrefill": 0.5, "mfuDecode": 0.3}
    return json.dumps({"H100": {**figures, "MemoryGiB": 80}})


def model_config(layers):
    return json.dumps(
        {
            "num_hidden_layers": layers,
            "hidden_size": 5120,
            "num_attention_heads": 40,
            "num_key_value_heads": 8,
            "intermediate_size": 17408,
            "vocab_size": 151936,
            "torch_dtype": "bfloat16",
            "max_position_embeddings": 40960,
        }
    )


def test_files_that_are_found_without_being_named_count(folder):
    plain = keys()
    (folder / "hardware_config.json").write_text(gpus(3.0))
    beside = keys()
    assert beside != plain
    (folder / "hardware_config.json").unlink()
    (folder / "defaults.yaml").write_text(
        "defaults:\n  qwen/qwen3-14b: {GPU: H100, tensor_parallelism: 2}\n"
    )
    assert len({*plain, *beside, *keys()}) == 3


def test_where_a_file_is_does_not_count(folder):
    (folder / "one.yaml").write_text("scheduler: sjf\n")
    (folder / "two.yaml").write_text("scheduler: sjf\n")
    first, second = (keys(base={**BASE, "policy-config": n}) for n in ("one.yaml", "two.yaml"))
    assert first == second


def test_a_folder_that_a_workload_refers_to_counts(folder):
    (folder / "data").mkdir()
    (folder / "data" / "chunk.csv").write_text("1,2\n")
    (folder / "w.yaml").write_text(SERVEGEN)
    options = {"workload_spec": "w.yaml"}
    first = Inputs().digests(options)
    assert {"workload_spec", "workload_spec.0"} <= set(first)
    (folder / "data" / "chunk.csv").write_text("1,3\n")
    assert Inputs().digests(options) != first


def test_every_option_that_reads_a_file_is_known():
    for config in (RunConfig, ReplayConfig):
        for spec in options_of(config):
            words = set(spec.help.replace(".", " ").split())
            if words & {"file", "Folder", "Header", "Rows"} and spec.kind.value == "text":
                known = (*FILE_OPTIONS, "defaults_filepath", *WRITES_A_FILE)
                assert spec.name in known, spec.name
            if spec.section == "Output":
                assert spec.name in (*WRITES_A_FILE, *WITHOUT_MEANING)


def test_a_changed_file_is_noticed(folder):
    (folder / "w.yaml").write_text(WORKLOAD)
    inputs = Inputs()
    inputs.digests({"workload_spec": "w.yaml"})
    assert inputs.changed() is None
    os.utime(folder / "w.yaml", ns=(1, 1))
    assert inputs.changed().name == "w.yaml"


def test_absolute_paths(folder):
    (folder / "defaults.yaml").touch()
    options = {"workload_spec": "w.yaml", "policy_config": "", "rate": 1.0}
    found = with_absolute_paths(options)
    assert found == {
        "workload_spec": str(folder / "w.yaml"),
        "policy_config": "",
        "rate": 1.0,
        "defaults_filepath": str(folder / "defaults.yaml"),
    }
    assert with_absolute_paths(found) == found


def test_a_defaults_file_that_is_not_there_is_not_named(folder):
    assert with_absolute_paths({"rate": 1.0}) == {"rate": 1.0}


# ----------------------------------------------------------------------------------- the store

FINISHED = Finished(metrics={"a": 1, "b": 0.1}, traffic="t", warnings=("w",))
KEY = "ab" * 32


def test_what_is_put_is_there(folder):
    store = Store(folder / "x" / "y")
    assert store.get(KEY) is None
    store.put(KEY, FINISHED, {"rate": 1.0})
    assert store.get(KEY) == FINISHED
    assert Store(folder / "x" / "y").get(KEY) == FINISHED


@pytest.mark.parametrize("keep", [0, 1, 20, -2])
def test_a_torn_file_counts_as_none(folder, keep):
    store = Store(folder)
    store.put(KEY, FINISHED, {})
    (path,) = folder.rglob("*.json")
    path.write_bytes(path.read_bytes()[:keep])
    assert store.get(KEY) is None
    store.put(KEY, FINISHED, {})
    assert store.get(KEY) == FINISHED


def test_a_file_in_the_way(folder):
    (folder / "f").write_text("")
    with pytest.raises(BlisError, match="choose another one with --cache, or use --no-cache"):
        Store(folder / "f")

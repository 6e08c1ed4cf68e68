"""Trials made by hand."""

from __future__ import annotations

import pytest

from blis_plan.load import FlagLoad
from blis_plan.measuring import Run
from blis_plan.options import LoadConfig
from blis_plan.probing import Probe, Trials
from blis_plan.slo import parse_slos


def run(**changes):
    """A run that meets everything and goes on like that."""
    figures = {
        "seed": 42,
        "sent": 1000,
        "completed": 1000,
        "failed": (),
        "values": (100.0,),
        "misses": (0.0,),
        "offered": 10.0,
        "achieved": 10.0,
        "growth": 0.0,
        "growth_noise": 0.001,
        "backlog": 0.0,
        "backlog_noise": 0.001,
        "backlog_jitter": 0.001,
        "span_s": 100.0,
        "e2e_mean_s": 5.0,
        "output_tokens": 100.0,
        "total_tokens": 300.0,
        "peak_used_blocks": 10,
        "preemptions": 0,
        "length_capped": 0,
        "changing_fleet": False,
        "warnings": (),
        "outside": None,
        "unstable": (),
    }
    return Run(**{**figures, **changes})


def probe(value=100.0, limit="200ms", rate=10.0, steady=True, **changes):
    """A trial with one SLO, of which the mean TTFT is ``value`` ms."""
    return Probe(
        rate=rate,
        slos=parse_slos([f"ttft_mean={limit}"]),
        runs=(run(values=(value,), **changes),),
        steady=steady,
    )


@pytest.fixture
def make_run():
    return run


@pytest.fixture
def make_probe():
    return probe


@pytest.fixture
def make_config():
    """A load of short requests on one GPU."""

    def make(cls=LoadConfig, **changes):
        options = {
            "model": "qwen/qwen3-14b",
            "slo": ("ttft_p90=500ms",),
            "output_tokens": 20,
            "output_tokens_stdev": 5,
            "seeds": 1,
        }
        return cls(**{**options, **changes})

    return make


@pytest.fixture
def make_trials(make_config):
    def make(**changes):
        config = make_config(**changes)
        return config, Trials(
            load=FlagLoad(config, config.rate or 1.0), slos=config.slos, seeds=config.seeds
        )

    return make

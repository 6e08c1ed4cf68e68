"""Single trials."""

from __future__ import annotations

import pytest

from blis_core.api import simulate
from blis_plan import probing
from blis_plan.probing import FAILURES, NOT_SUSTAINED, TOO_SHORT, Probe, noisy, try_rate
from blis_plan.slo import parse_slos


@pytest.fixture
def counted(monkeypatch):
    """The number of requests of every simulation, and its seed."""
    made = []

    def counting(config):
        made.append((config.num_requests, config.seed))
        return simulate(config)

    monkeypatch.setattr(probing, "simulate", counting)
    return made


def test_verdicts(make_probe, make_run):
    assert make_probe().met
    assert make_probe().binding == "ttft_mean"
    slow = make_probe(value=300.0)
    assert (slow.met, slow.binding, slow.why) == (False, "ttft_mean", "ttft_mean 300 ms")
    growing = make_probe(backlog=0.1, achieved=9.0)
    assert (growing.met, growing.binding) == (False, NOT_SUSTAINED)
    assert growing.why == "only 9 of 10 requests/s come through"
    assert make_probe(backlog=0.1, steady=False).met
    assert not make_probe(growth=0.2, steady=False).met
    short = make_probe(span_s=10.0)
    assert (short.met, short.binding, short.why) == (
        False,
        TOO_SHORT,
        "the run is too short to tell",
    )
    failed = make_probe(value=float("inf"), failed=(("timed out", 30),), sent=1000)
    assert (failed.met, failed.binding) == (False, FAILURES)
    assert failed.why == "of 1,000 requests: 30 timed out"


def test_the_worst_seed_counts(make_run):
    slos = parse_slos(["ttft_mean=200ms,completed=90%"])
    runs = (make_run(values=(100.0, 0.99)), make_run(values=(150.0, 0.95)))
    probe = Probe(rate=1.0, slos=slos, runs=runs, steady=True)
    assert probe.values == (150.0, 0.95)
    assert probe.headroom == pytest.approx(0.25)
    assert probe.met


def test_a_short_run_at_an_absurd_rate_is_not_believed(make_trials):
    """A hundred requests at once meet any SLO that is loose enough: no queue has time to grow."""
    config, trials = make_trials(
        slo=("ttft_p99=60s",), num_requests=100, output_tokens=200, output_tokens_stdev=50
    )
    probe = try_rate(trials, config.shared, 10_000.0)
    assert not probe.violated
    assert not probe.met
    assert not probe.long_enough
    assert not probe.sustained


def test_free_runs_are_lengthened_until_they_tell(make_trials, counted):
    config, trials = make_trials(slo=("ttft_p90=10000s",), timeout=-1)
    probe = try_rate(trials, config.shared, 500.0)
    assert not probe.met
    assert probe.why.startswith("only ")
    assert len(counted) > 1
    assert counted[-1][0] > counted[0][0]


@pytest.mark.parametrize(
    ("changes", "longer"),
    [
        ({}, 2000),
        ({"values": (900.0,)}, 2000),  # not met, whatever its length
        ({"e2e_mean_s": 25.0}, 4400),  # 100 s are half of what is needed
        ({"e2e_mean_s": 2500.0}, 16_000),
        ({"backlog": 0.1}, 4000),  # to see whether it grows
        ({"backlog": 0.0, "backlog_jitter": 0.01}, 4000),
        ({"backlog": 0.1, "sent": 1500}, 2000),  # there are no more
    ],
)
def test_how_long_a_run_should_be(make_run, changes, longer):
    slos = parse_slos(["ttft_mean=200ms"])
    assert probing._longer(make_run(**{"sent": 2000, **changes}), slos, 2000) == longer


def test_doubts_have_an_end(make_run):
    slos = parse_slos(["ttft_mean=200ms"])
    doubtful = make_run(sent=10**6, backlog=0.1, span_s=1e6)
    assert probing._longer(doubtful, slos, 8000) == 16_000
    assert probing._longer(doubtful, slos, 16_000) == 16_000
    crowded = make_run(sent=10**6, backlog=0.1, span_s=100.0, e2e_mean_s=12.0)
    assert probing._longer(crowded, slos, 20_000) == 40_000
    assert probing._longer(crowded, slos, 100_000) == 100_000


def test_a_number_of_requests_that_is_given_is_kept(make_trials, counted):
    config, trials = make_trials(num_requests=50)
    try_rate(trials, config.shared, 2.0)
    assert counted == [(50, None)]


def test_seeds_follow_one_another_and_the_first_is_plain(make_trials, counted):
    config, trials = make_trials(num_requests=60, seeds=3)
    probe = try_rate(trials, config.shared, 2.0)
    assert counted == [(60, None), (60, 43), (60, 44)]
    assert probe.met
    assert [run.seed for run in probe.runs] == [42, 43, 44]


def test_seeds_after_a_failure_are_spared(make_trials, counted):
    config, trials = make_trials(num_requests=60, seeds=3, slo=("ttft_p90=1ms",))
    assert not try_rate(trials, config.shared, 2.0).met
    assert len(counted) == 1


def test_an_early_stop_agrees_with_the_whole_run(make_trials, counted, monkeypatch):
    """The first part settles only what the rest cannot change."""
    early = set()
    for rate in (10.0, 40.0, 100.0, 1000.0):
        config, trials = make_trials(num_requests=1000, slo=("ttft_p90=60ms",))
        counted.clear()
        probe = try_rate(trials, config.shared, rate)
        with monkeypatch.context() as patched:
            patched.setattr(probing, "FEWEST_FIRST", 10**9)
            whole = try_rate(trials, config.shared, rate)
        assert probe.met == whole.met
        early.add(probe.early)
        if probe.early:
            assert counted[0][0] == 250
    assert early == {True, False}


def test_trials_repeat(make_trials):
    config, trials = make_trials(num_requests=200, seeds=2)
    assert try_rate(trials, config.shared, 9.0) == try_rate(trials, config.shared, 9.0)


def test_tails_of_few_requests_are_called_noise():
    slos = parse_slos(["ttft_p99=1s,e2e_mean=1s,itl_p99=1s"])
    assert noisy(slos, 1000) == []
    (text,) = noisy(slos, 50)
    assert text.startswith("ttft_p99 of 50 requests rests on 1 of them")
    assert "2,000" in text

"""Policies through the command line: the policy file, and what replay makes of it all."""

from __future__ import annotations

from pathlib import Path

import pytest

from blis_core.cli.main import main

RUN = (
    "run --model qwen/qwen3-14b --latency-model blackbox --alpha-coeffs 100,1,10"
    " --beta-coeffs 5000,20,50 --total-kv-blocks 2000 --num-requests 5 --rate 50"
    " --prompt-tokens 20 --prompt-tokens-stdev 4 --output-tokens 4 --output-tokens-stdev 2"
)


@pytest.fixture
def blis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)

    def blis(text: str) -> tuple[int, str, str]:
        try:
            code = main(text.split()) or 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return blis


def test_a_trace_without_the_times_of_disaggregated_requests_is_announced(blis) -> None:
    pools = "--num-instances 2 --prefill-instances 1 --decode-instances 1 --hardware H100 --tp 1"
    code, _, err = blis(f"{RUN} {pools} --pd-decider always --trace-output t")
    assert code == 0
    assert "t.csv: requests that were disaggregated are marked incomplete" in err
    assert Path("t.csv").read_text().count(",incomplete,") == 5
    _, _, err = blis(f"{RUN} {pools} --trace-output t")
    assert "incomplete" not in err


def test_a_policy_file_takes_effect(blis) -> None:
    Path("p.yaml").write_text("admission: {policy: reject-all}\n")
    code, out, _ = blis(f"{RUN} --policy-config p.yaml")
    assert code == 0
    assert "Rejected Requests (Admission): 5\n  Shed (standard): 5\n" in out
    _, out, _ = blis(f"{RUN} --policy-config p.yaml --admission-policy always-admit")
    assert "Rejected" not in out


def test_errors_leave_stdout_empty(blis) -> None:
    Path("p.yaml").write_text("routing: {policy: nobody}\n")
    for more, expected in (
        ("--policy-config p.yaml --routing-policy round-robin", "p.yaml: routing.policy: unknown"),
        ("--policy-config absent.yaml", "cannot read policy file absent.yaml"),
        ("--fitness-weights throughput", "--fitness-weights: 'throughput' is not of the form"),
        ("--flow-control --dispatch-order lifo", "--dispatch-order: must be one of fifo"),
        ("--admission-policy token-bucket --token-bucket-capacity 0", "--token-bucket-capacity"),
        ("--trace-level everything", "--trace-level: must be one of"),
    ):
        code, out, err = blis(f"{RUN} {more}")
        assert (code, out) == (1, "")
        assert expected in err


def test_what_replay_leaves_out(blis) -> None:
    code, _, _ = blis(f"{RUN} --trace-output t")
    assert code == 0
    Path("p.yaml").write_text("autoscaler: {interval_us: 1000}\n")
    code, out, err = blis(
        "replay --trace-header t.yaml --trace-data t.csv"
        + RUN[3:].partition(" --num-requests")[0]
        + " --policy-config p.yaml --fitness-weights nonsense"
    )
    assert code == 0
    assert "Fitness" not in out
    assert "--fitness-weights has no effect on replay" in err
    assert "p.yaml: replay ignores autoscaler" in err

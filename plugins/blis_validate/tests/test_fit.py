"""``blis fit``: a factor on the step is found again, and a profile works."""

from __future__ import annotations

import json

import pytest

ENGINE = ["--model", "qwen/qwen3-14b", "--latency-model", "kernels"]
TRACE = ["--trace-header", "t.yaml", "--trace-data", "t.csv"]


@pytest.fixture
def recorded(blis):
    """A run whose steps last 1.07 times as long as the constants say, as a trace."""

    def record(*arguments):
        code, _, err = blis(
            *("run", *ENGINE, "--latency-option", "scale=1.07"),
            *("--num-requests", "80", "--rate", "6", "--seed", "3", "--trace-output", "t"),
            *arguments,
        )
        assert code == 0, err

    return record


def test_the_factor_is_found_again(blis, recorded):
    recorded()
    code, out, err = blis("fit", *ENGINE, *TRACE, "--profile-output", "p.yaml", "--output", "json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["scale"] == pytest.approx(1.07, abs=0.002)
    assert abs(document["error_percent_before"]["itl_mean"]) > 5
    # first tokens depend on where in a step a request arrives, which the last decimals decide
    assert all(abs(document["error_percent_after"][m]) < 1 for m in ("itl_mean", "e2e_mean"))
    assert document["requests"] == 80


def test_the_profile_gives_the_recorded_run(blis, recorded):
    recorded()
    code, out, _ = blis("fit", *ENGINE, *TRACE, "--profile-output", "p.yaml")
    assert code == 0
    assert out.startswith("scale 1.0")
    itl = [
        json.loads(blis("replay", *ENGINE[:2], *TRACE, "--output", "json", *chosen)[1])["cluster"][
            "itl_mean_ms"
        ]
        for chosen in (
            ["--latency-profile", "p.yaml"],
            ["--latency-model", "kernels", "--latency-option", "scale=1.07"],
            ["--latency-model", "kernels"],
        )
    ]
    assert itl[0] == pytest.approx(itl[1], rel=0.002)
    assert itl[2] < 0.96 * itl[1]


def test_options_are_kept_in_the_profile(blis, recorded, tmp_path):
    recorded("--latency-option", "sampler=off")
    options = ["--latency-option", "sampler=off", "--latency-option", "scale=3"]
    code, _, _ = blis("fit", *ENGINE, *options, *TRACE, "--profile-output", "p.yaml")
    assert code == 0
    text = (tmp_path / "p.yaml").read_text()
    assert 'sampler: "off"' in text
    assert 'scale: "1.0' in text
    assert 'hardware: "H100"' in text


def test_warm_up_and_failures_do_not_count(blis, recorded, tmp_path):
    recorded()
    header, data = tmp_path / "t.yaml", tmp_path / "t.csv"
    header.write_text(header.read_text().replace("warm_up_requests: 0", "warm_up_requests: 10"))
    data.write_text(data.read_text().replace(",ok,", ",error,", 15))
    _, out, _ = blis("fit", *ENGINE, *TRACE, "--profile-output", "p.yaml", "--output", "json")
    assert json.loads(out)["requests"] == 65


def test_warnings_are_said_once(blis, recorded):
    recorded()
    long_steps = ["--max-num-scheduled-tokens", "16384"]
    _, _, err = blis("fit", *ENGINE, *long_steps, *TRACE, "--profile-output", "p.yaml")
    assert err.count("steps of 16384 tokens") == 1


def test_another_latency_model_has_no_factor(blis, recorded, tmp_path):
    recorded()
    code, out, err = blis(
        *("fit", "--model", "qwen/qwen3-14b", *TRACE, "--profile-output", "p.yaml")
    )
    assert (code, out) == (1, "")
    assert "latency model roofline has no options" in err
    assert not (tmp_path / "p.yaml").exists()


def test_no_factor_will_do(blis, recorded):
    recorded("--latency-option", "scale=8")
    code, out, err = blis("fit", *ENGINE, *TRACE, "--profile-output", "p.yaml")
    assert (code, out) == (1, "")
    assert "no factor from 0.25 to 4.0" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--profile-output: name the file to write"),
        (["--profile-output", "none/p.yaml"], "folder none does not exist"),
        (["--profile-output", "p.yaml", "--trace-output", "x"], "a fit writes a profile only"),
        (["--profile-output", "p.yaml", "--trace-header", ""], "--trace-header: name the trace"),
    ],
)
def test_what_is_refused(blis, arguments, message):
    code, out, err = blis("fit", *ENGINE, *TRACE, *arguments)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_trace_that_was_never_sent(blis, recorded, tmp_path):
    recorded()
    data = tmp_path / "t.csv"
    lines = data.read_text().splitlines()
    rows = [line.split(",") for line in lines]
    for row in rows[1:]:
        row[21] = row[22] = "0"
    data.write_text("\n".join(",".join(row) for row in rows) + "\n")
    code, _, err = blis("fit", *ENGINE, *TRACE, "--profile-output", "p.yaml")
    assert code == 1
    assert "record one with blis observe" in err

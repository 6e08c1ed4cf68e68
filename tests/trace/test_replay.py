"""Fixed-mode replay, against the requests that the reference makes of the same traces."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.contracts import MAX_INT64, Request
from blis_core.errors import BlisError
from blis_core.rng import GoRand
from blis_core.trace.replay import check_replayable, fixed_requests, load_replay, replay_horizon
from blis_core.trace.rows import TraceRow, TraceRows

DATA = Path(__file__).parents[1] / "data" / "trace"


def described(r: Request) -> dict[str, Any]:
    """A request in the words of the recorded files."""
    assert r.tokens is not None
    prompt, output = r.tokens[: r.prompt_len].tolist(), r.tokens[r.prompt_len :].tolist()
    return {
        "id": r.id,
        "arrival_us": r.arrival,
        "session_id": r.session,
        "round_index": r.round_index,
        "n_input": len(prompt),
        "n_output": len(output),
        "input_first3": prompt[:3],
        "input_last3": prompt[-3:],
        "input_sum": sum(prompt),
        "output_first3": output[:3],
        "output_sum": sum(output),
        "deadline_us": r.deadline,
        "model": r.model,
        "prefix_group": r.prefix_group,
        "prefix_length": r.prefix_length,
        "streaming": r.streaming,
        "client_id": r.client,
        "tenant_id": r.tenant,
        "slo_class": r.slo_class,
        "reason_ratio": r.reason_ratio,
        "text_tokens": r.text_tokens,
    }


@pytest.mark.parametrize("folder", ["basic", "mixed", "multiturn"])
def test_requests_of_the_reference(folder: str) -> None:
    known = json.loads((DATA / folder / "fixed.requests.json").read_text())
    requests = load_replay(DATA / folder / "trace.yaml", DATA / folder / "trace.csv", seed=42)
    assert [described(r) for r in requests] == known
    assert all(r.max_output == r.output_len for r in requests)


def test_every_recorded_count_is_kept() -> None:
    row = TraceRow(
        -3, input_tokens=1, text_tokens=2, image_tokens=3, audio_tokens=4, video_tokens=5
    )
    (r,) = fixed_requests(TraceRows([row]), 1)
    assert r.id == "request_-3"
    assert (r.text_tokens, r.image_tokens, r.audio_tokens, r.video_tokens) == (2, 3, 4, 5)


def test_requests_are_made_on_demand() -> None:
    rows = TraceRows([TraceRow(0, input_tokens=3), TraceRow(1, input_tokens=2**40)])
    assert [r.prompt_len for r in itertools.islice(fixed_requests(rows, 1), 1)] == [3]


@pytest.mark.parametrize(
    ("arrivals", "horizon"),
    [
        ([], 600_000_000),
        ([0], 600_000_000),
        ([-5], 600_000_000),
        ([3, 7, 5], 14),
        ([MAX_INT64 // 2], MAX_INT64 - 1),
        ([MAX_INT64 // 2 + 1], MAX_INT64),
        ([MAX_INT64], MAX_INT64),
    ],
)
def test_horizon(arrivals: list[int], horizon: int) -> None:
    assert replay_horizon([Request("r", a, None, 1, 1) for a in arrivals]) == horizon


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], r"^t\.csv: the trace has no rows"),
        ([TraceRow(0, input_tokens=1), TraceRow(1)], r"^t\.csv, row 2: the prompt is empty"),
        # A length without a group adds nothing.
        ([TraceRow(0, prefix_length=5)], "row 1: the prompt is empty"),
        (
            [TraceRow(i, input_tokens=1) for i in (4, 5, 6, 5)],
            r"^t\.csv, rows 2 and 4: request_id 5 is given twice",
        ),
    ],
)
def test_traces_that_cannot_be_replayed(rows: list[TraceRow], message: str) -> None:
    with pytest.raises(BlisError, match=message):
        check_replayable(TraceRows(rows), "t.csv")


def test_a_prefix_alone_is_a_prompt() -> None:
    rows = TraceRows(
        [TraceRow(0, prefix_group="g"), TraceRow(1, prefix_group="g", prefix_length=4)]
    )
    check_replayable(rows, "t.csv")
    assert [r.prompt_len for r in fixed_requests(rows, 1)] == [4, 4]


ROWS = st.builds(
    TraceRow,
    request_id=st.integers(0, 100),
    prefix_group=st.sampled_from(["", "a", "b", "c"]),
    prefix_length=st.integers(0, 5),
    input_tokens=st.integers(0, 9),
    output_tokens=st.integers(0, 9),
)


@settings(max_examples=60)
@given(st.lists(ROWS), st.integers(-(2**63), MAX_INT64))
def test_draws_in_order(rows: list[TraceRow], seed: int) -> None:
    rng = GoRand(seed)
    prefixes: dict[str, list[int]] = {}
    for row in rows:
        if row.prefix_group and row.prefix_length > 0 and row.prefix_group not in prefixes:
            prefixes[row.prefix_group] = rng.tokens(row.prefix_length).tolist()
    requests = list(fixed_requests(TraceRows(rows), seed))
    assert len(requests) == len(rows)
    for row, r in zip(rows, requests, strict=True):
        prompt = prefixes.get(row.prefix_group, []) + rng.tokens(row.input_tokens).tolist()
        output = rng.tokens(row.output_tokens).tolist()
        assert r.tokens is not None
        assert r.tokens.dtype == np.int32
        assert r.tokens.tolist() == prompt + output
        assert (r.prompt_len, r.output_len) == (len(prompt), len(output))

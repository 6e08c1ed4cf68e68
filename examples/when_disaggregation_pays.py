#!/usr/bin/env python3
"""Four GPUs, used in one piece or divided into pools for prefill and decode, side by side.

For three kinds of traffic at two rates each it prints the 99th percentiles of the time to first
token and of the time between tokens. Run it as it is, or change TRAFFIC to yours.
"""

from __future__ import annotations

from blis_core.api import Results, simulate

TRAFFIC = {
    # name: (prompt tokens, output tokens, requests/s)
    "chat, 500 in, 200 out": (500, 200, (30, 60)),
    "documents, 6000 in, 100 out": (6000, 100, (4, 7)),
    "reasoning, 300 in, 2000 out": (300, 2000, (5, 10)),
}
SPLITS = {"one piece": None, "1 + 3": (1, 3), "2 + 2": (2, 2), "3 + 1": (3, 1)}
"""Instances for prefill and decode, of four."""


def run(prompt: int, output: int, rate: float, split: tuple[int, int] | None) -> Results:
    """One simulation; every choice goes to the instance with the least work."""
    options: dict[str, object] = {}
    if split is not None:
        options = {
            "prefill_instances": split[0],
            "decode_instances": split[1],
            "pd_decider": "always",
            "pd_transfer_contention": True,
            "prefill_routing_scorers": "load-balance:1",
            "decode_routing_scorers": "load-balance:1",
        }
    return simulate(
        model="qwen/qwen3-14b",
        latency_model="trained-physics",
        num_instances=4,
        routing_policy="weighted",
        routing_scorers="load-balance:1",
        rate=rate,
        num_requests=int(30 * rate),
        prompt_tokens=prompt,
        prompt_tokens_stdev=prompt // 4,
        prompt_tokens_max=2 * prompt,
        output_tokens=output,
        output_tokens_stdev=output // 4,
        output_tokens_max=2 * output,
        **options,
    )


def main() -> None:
    """Print the table. Times are ms."""
    print(f"{'TTFT p99 / ITL p99 (ms)':31}" + "".join(f"{name:>15}" for name in SPLITS))
    for name, (prompt, output, rates) in TRAFFIC.items():
        for rate in rates:
            cells = []
            for split in SPLITS.values():
                figures = run(prompt, output, rate, split).cluster
                cells.append(f"{figures.ttft_p99_ms:.0f} / {figures.itl_p99_ms:.0f}")
            print(f"{name:27} {rate:2}/s" + "".join(f"{cell:>15}" for cell in cells))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Who waits for whom? One workload, two routings, and the requests as numpy columns.

Chats with a short prompt share four instances with reports that have a long one. The table shows,
for each routing, the time to first token of both, and how evenly the prompts are spread.
Run it as it is, or change WORKLOAD and ROUTINGS to yours.
"""

from __future__ import annotations

import numpy as np

from blis_core.api import RunConfig, simulate

WORKLOAD = {
    "version": "2",
    "aggregate_rate": 40,
    "num_requests": 2000,
    "clients": [
        {
            "id": "chat",
            "rate_fraction": 0.9,
            "arrival": {"process": "poisson"},
            "input_distribution": {"type": "constant", "params": {"value": 200}},
            "output_distribution": {"type": "exponential", "params": {"mean": 150}},
        },
        {
            "id": "report",
            "rate_fraction": 0.1,
            "arrival": {"process": "poisson"},
            "input_distribution": {"type": "constant", "params": {"value": 8000}},
            "output_distribution": {"type": "exponential", "params": {"mean": 300}},
        },
    ],
}
ROUTINGS = {
    "in turn": {},
    "least work": {"routing_policy": "weighted", "routing_scorers": "load-balance:1"},
}


def main() -> None:
    """Simulate, and print one row for each routing."""
    print(f"{'TTFT (ms)':12}{'chat p50':>10}{'chat p99':>10}{'report p99':>12}{'imbalance':>11}")
    for name, routing in ROUTINGS.items():
        config = RunConfig(model="qwen/qwen3-14b", num_instances=4, **routing)
        requests = simulate(config, spec=WORKLOAD).requests.arrays()
        chats = requests.where(requests.client == "chat")
        reports = requests.where(requests.client == "report")
        times = [
            np.nanpercentile(chosen.ttft_us, percentile) / 1e3
            for chosen, percentile in ((chats, 50), (chats, 99), (reports, 99))
        ]
        # prompt tokens of the busiest instance, over the mean
        _, where = np.unique(requests.instance, return_inverse=True)
        tokens = np.bincount(where, weights=requests.prompt_tokens)
        imbalance = tokens.max() / tokens.mean()
        print("{:12}{:10.1f}{:10.1f}{:12.1f}{:11.2f}".format(name, *times, imbalance))


if __name__ == "__main__":
    main()

"""Registers the scorers; none is imported before it is chosen."""

from __future__ import annotations

from blis_core.api import Register, hookimpl


@hookimpl
def blis_register_scorers(register: Register) -> None:
    """Add the scorers of this distribution."""
    at = "blis_routing.scorers:"
    register("queue-depth", at + "QueueDepth", summary="few waiting requests")
    register("running-requests", at + "RunningRequests", summary="a small running batch")
    register("vllm-dp", at + "VllmDataParallel", summary="few of 4 x waiting + running")
    register("active-requests", at + "ActiveRequests", summary="few requests in flight")
    register("load-balance", at + "LoadBalance", summary="small load: 1 / (1 + load)")
    register("load-aware", at + "LoadAware", summary="a short queue in absolute terms")
    register("kv-utilization", at + "KVUtilization", summary="free KV memory")
    at = "blis_routing.prefix:"
    register(
        "precise-prefix-cache",
        at + "PrecisePrefixCache",
        summary="most of the prompt in the KV cache",
    )
    register("prefix-affinity", at + "PrefixAffinity", summary="where such prompts went before")
    register("no-hit-lru", at + "NoHitLru", summary="spread prompts that no cache knows")

"""What the core itself provides, registered through the same hooks as any plugin.

All factories are addresses, so that nothing is imported before it is chosen.
"""

from __future__ import annotations

from blis_core.hookspecs import Register, hookimpl


@hookimpl
def blis_register_schedulers(register: Register) -> None:
    """Orders of the wait queue."""
    at = "blis_core.engine.schedulers:"
    register("fcfs", at + "Fcfs", summary="first come, first served; preempted requests in front")
    register("priority-fcfs", at + "PriorityFcfs", summary="highest priority first, then arrival")
    register("sjf", at + "ShortestJobFirst", summary="shortest prompt first")
    register(
        "reverse-priority", at + "ReversePriority", summary="lowest priority first (for tests)"
    )


@hookimpl
def blis_register_kv_stores(register: Register) -> None:
    """Stores of KV blocks."""
    register("paged", "blis_core.kv.paged:PagedKVStore", summary="one tier with prefix caching")
    register(
        "tiered",
        "blis_core.kv.tiered:TieredKVStore",
        summary="the same with a second tier in CPU memory (--kv-cpu-blocks)",
    )


@hookimpl
def blis_register_routing_policies(register: Register) -> None:
    """Choice of an instance for a request."""
    at = "blis_core.cluster.routing:"
    register("round-robin", at + "RoundRobin", summary="each instance in turn")
    register("least-loaded", at + "LeastLoaded", summary="fewest queued, running and in-flight")
    register("weighted", at + "Weighted", summary="highest weighted sum of scores")
    register("always-busiest", at + "AlwaysBusiest", summary="highest load (a worst case)")


@hookimpl
def blis_register_admission_policies(register: Register) -> None:
    """Entry to the cluster."""
    at = "blis_core.cluster.admission:"
    register("always-admit", at + "AlwaysAdmit", summary="admit every request")
    register("reject-all", at + "RejectAll", summary="reject every request (for tests)")
    register("token-bucket", at + "TokenBucket", summary="limit the rate of prompt tokens")
    register("tier-shed", at + "TierShed", summary="beyond a load, important classes only")
    register("gaie-legacy", at + "GaieLegacy", summary="no sheddable classes while saturated")


@hookimpl
def blis_register_pd_deciders(register: Register) -> None:
    """Requests to disaggregate."""
    at = "blis_core.policies.deciders:"
    register("never", at + "Never", summary="all requests in one piece")
    register("always", at + "Always", summary="all requests through the pools")
    register(
        "prefix-threshold",
        at + "PrefixThreshold",
        summary="prompts with more new tokens than --pd-prefix-threshold",
    )


@hookimpl
def blis_register_arrival_samplers(register: Register) -> None:
    """Times between arrivals."""
    at = "blis_core.workload.arrivals:"
    register("constant", at + "ConstantArrivals", summary="equal gaps")
    register("poisson", at + "PoissonArrivals", summary="exponential gaps")
    register("gamma", at + "GammaArrivals", summary="gamma gaps: bursty for cv > 1")
    register("weibull", at + "WeibullArrivals", summary="Weibull gaps")


@hookimpl
def blis_register_length_samplers(register: Register) -> None:
    """Lengths of prompts and outputs."""
    at = "blis_core.workload.lengths:"
    register("constant", at + "ConstantLengths", summary="always the same")
    register("gaussian", at + "GaussianLengths", summary="normal, clamped to [min, max]")
    register("exponential", at + "ExponentialLengths", summary="exponential with a given mean")
    register(
        "pareto_lognormal",
        at + "ParetoLognormalLengths",
        summary="mixture of a Pareto tail and a log-normal body",
    )
    register(
        "lognormal",
        at + "LognormalLengths",
        summary="log-normal within bounds (sizes of media, reason ratios, think times)",
    )
    register("empirical", at + "EmpiricalLengths", summary="weighted values from a table")


@hookimpl
def blis_register_autoscaler_collectors(register: Register) -> None:
    """What the autoscaler sees."""
    register(
        "routable",
        "blis_core.autoscaling.collector:RoutableCollector",
        summary="every instance that can take requests",
    )


@hookimpl
def blis_register_autoscaler_analyzers(register: Register) -> None:
    """What a model needs."""
    register(
        "saturation",
        "blis_core.autoscaling.analyzer:SaturationAnalyzer",
        summary="KV tokens in use and waiting, against those that there are",
    )


@hookimpl
def blis_register_autoscaler_engines(register: Register) -> None:
    """How many instances to start or drain."""
    at = "blis_core.autoscaling.engine:"
    register("unlimited", at + "UnlimitedEngine", summary="one at a time, whatever room there is")
    register("greedy", at + "GreedyEngine", summary="as many as needed, where there is room")


@hookimpl
def blis_register_autoscaler_actuators(register: Register) -> None:
    """How decisions are carried out."""
    register(
        "direct",
        "blis_core.autoscaling.actuator:DirectActuator",
        summary="at once; drains active instances in the order of their names",
    )


@hookimpl
def blis_register_importers(register: Register) -> None:
    """Formats of recorded traffic."""
    at = "blis_core.trace."
    register(
        "azure",
        at + "azure:AzureImporter",
        summary="Azure LLM inference traces (CSV: time, prompt and answer length)",
    )
    register(
        "mooncake",
        at + "mooncake:MooncakeImporter",
        summary="Mooncake traces (JSON lines: time, lengths, ids of prompt blocks)",
        options={"block-tokens": "tokens of a prompt block (512)"},
    )


@hookimpl
def blis_register_commands(register: Register) -> None:
    """Subcommands of the command line."""
    register("run", "blis_core.cli.run:command", summary="Simulate a generated workload.")
    at = "blis_core.cli."
    register("replay", at + "replay:command", summary="Simulate recorded traffic.")
    register("calibrate", at + "calibrate:command", summary="Compare a simulation with reality.")
    register("convert", at + "convert:command", summary="Make a workload of something else.")
    register("compose", at + "compose:command", summary="Make one workload out of several.")
    register("diff", at + "diff:command", summary="Compare two results, figure by figure.")
    register("doctor", at + "doctor:command", summary="Find out what is wrong with a set-up.")
    register("completion", at + "completion:command", summary="Complete commands in a shell.")

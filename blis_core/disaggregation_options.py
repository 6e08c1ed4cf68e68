"""The options of prefill/decode disaggregation, and what they must satisfy."""

from __future__ import annotations

import math

import attrs

from blis_core.errors import BlisError
from blis_core.option import ValueKind, finite_positive, option
from blis_core.records import Record

DISAGGREGATION = "Disaggregation"
DEFAULT_PREFIX_THRESHOLD = 512
POOLS = ("prefill", "decode")
POOL_SETTINGS = ("hardware", "tp", "latency_model", "max_model_len")
"""What can be set for one pool by an option ``--POOL-SETTING``."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class DisaggregationOptions(Record):
    """Pools for prefill and decode. ``replay`` accepts these options and ignores them."""

    prefill_instances: int = option(
        ValueKind.INT,
        DISAGGREGATION,
        0,
        "Instances that prefill only, the first ones; 0 = no disaggregation (run only).",
    )
    decode_instances: int = option(
        ValueKind.INT, DISAGGREGATION, 0, "Instances that decode only, the next ones."
    )
    pd_decider: str = option(
        ValueKind.TEXT, DISAGGREGATION, "never", "What decides which requests are disaggregated."
    )
    pd_prefix_threshold: int | None = option(
        ValueKind.INT,
        DISAGGREGATION,
        None,
        "New prompt tokens beyond which prefix-threshold disaggregates; at least 0.",
        implied=DEFAULT_PREFIX_THRESHOLD,
    )
    pd_transfer_bandwidth: float = option(
        ValueKind.FLOAT,
        DISAGGREGATION,
        25.0,
        "GB/s at which KV caches move between the pools; greater than 0.",
    )
    pd_transfer_base_latency: float = option(
        ValueKind.FLOAT, DISAGGREGATION, 0.05, "ms added to each such transfer; at least 0."
    )
    pd_transfer_contention: bool = option(
        ValueKind.BOOL, DISAGGREGATION, False, "Let concurrent transfers share the bandwidth."
    )
    prefill_routing_scorers: str = option(
        ValueKind.TEXT,
        DISAGGREGATION,
        "",
        "Scorers for the prefill pool, as name:weight,name:weight.",
        implied="the routing policy",
    )
    decode_routing_scorers: str = option(
        ValueKind.TEXT,
        DISAGGREGATION,
        "",
        "Scorers for the decode pool, as name:weight,name:weight.",
        implied="the routing policy",
    )
    prefill_hardware: str = option(
        ValueKind.TEXT,
        DISAGGREGATION,
        "",
        "GPU of the prefill pool, for the size of its KV cache; step times do not change.",
        implied="as all",
    )
    decode_hardware: str = option(
        ValueKind.TEXT,
        DISAGGREGATION,
        "",
        "GPU of the decode pool, for the size of its KV cache; step times do not change.",
        implied="as all",
    )
    prefill_tp: int | None = option(
        ValueKind.INT,
        DISAGGREGATION,
        None,
        "GPUs of one prefill instance; greater than 0.",
        implied="as all",
    )
    decode_tp: int | None = option(
        ValueKind.INT,
        DISAGGREGATION,
        None,
        "GPUs of one decode instance; greater than 0.",
        implied="as all",
    )
    prefill_latency_model: str = option(
        ValueKind.TEXT,
        DISAGGREGATION,
        "",
        "Predictor of step times of the prefill pool, with the coefficients of all.",
        implied="as all",
    )
    decode_latency_model: str = option(
        ValueKind.TEXT,
        DISAGGREGATION,
        "",
        "Predictor of step times of the decode pool, with the coefficients of all.",
        implied="as all",
    )
    prefill_max_model_len: int | None = option(
        ValueKind.INT64,
        DISAGGREGATION,
        None,
        "Longest request in tokens on the prefill pool; greater than 0.",
        implied="as all",
    )
    decode_max_model_len: int | None = option(
        ValueKind.INT64,
        DISAGGREGATION,
        None,
        "Longest request in tokens on the decode pool; greater than 0.",
        implied="as all",
    )

    @property
    def disaggregated(self) -> bool:
        """Whether there are pools."""
        return self.prefill_instances > 0

    @property
    def decider(self) -> str:
        """Name of the decider; an empty one means never."""
        return self.pd_decider or "never"

    def pool_setting(self, pool: str, setting: str) -> int | str | None:
        """What an option sets for a pool; None = as for all instances."""
        value: int | str | None = getattr(self, f"{pool}_{setting}")
        return None if value == "" else value

    def pool_flags(self) -> list[str]:
        """Flags of single pools that are given."""
        return [
            f"--{pool}-{setting.replace('_', '-')}"
            for pool in POOLS
            for setting in (*POOL_SETTINGS, "routing_scorers")
            if self.pool_setting(pool, setting) is not None
        ]

    @property
    def mentions_pools(self) -> bool:
        """Whether any of these options may matter, be it for a warning."""
        return self.disaggregated or self.decider != "never" or bool(self.pool_flags())

    def check_disaggregation(self, num_instances: int) -> None:
        """BlisError for the first wrong value, in the order of the reference."""
        prefill, decode = self.prefill_instances, self.decode_instances
        for pool in POOLS:
            count = getattr(self, f"{pool}_instances")
            if count < 0:
                raise BlisError(f"--{pool}-instances: must be at least 0, got {count}")
        if bool(prefill) != bool(decode):
            given, missing = POOLS if prefill else POOLS[::-1]
            raise BlisError(
                f"--{given}-instances: works only together with --{missing}-instances; give both"
                " or neither"
            )
        if prefill + decode > num_instances:
            raise BlisError(
                f"--num-instances: {num_instances} are fewer than {prefill} prefill and {decode}"
                " decode instances"
            )
        if self.decider == "prefix-threshold" and (self.pd_prefix_threshold or 0) < 0:
            raise BlisError(
                f"--pd-prefix-threshold: must be at least 0, got {self.pd_prefix_threshold}"
            )
        if not self.disaggregated:
            if self.pd_transfer_contention:
                raise BlisError(
                    "--pd-transfer-contention: there are no transfers without --prefill-instances"
                    " and --decode-instances"
                )
            return
        if not finite_positive(self.pd_transfer_bandwidth):
            raise BlisError(
                "--pd-transfer-bandwidth: must be finite and greater than 0 GB/s, got"
                f" {self.pd_transfer_bandwidth:g}"
            )
        latency = self.pd_transfer_base_latency
        if not (math.isfinite(latency) and latency >= 0):
            raise BlisError(
                f"--pd-transfer-base-latency: must be finite and at least 0 ms, got {latency:g}"
            )
        for pool in POOLS:
            for setting in ("tp", "max_model_len"):
                value = getattr(self, f"{pool}_{setting}")
                if value is not None and value <= 0:
                    flag = f"--{pool}-{setting.replace('_', '-')}"
                    raise BlisError(f"{flag}: must be greater than 0, got {value}")

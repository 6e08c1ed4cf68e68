"""Compares a measured trace with a simulation of it, request by request.

Latencies are those that the client saw: the simulated ones get the network on top. Specification
05a, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

import attrs

from blis_core.errors import BlisError
from blis_core.records import Record
from blis_core.trace.chunk_times import ChunkTime
from blis_core.trace.explanation import Explanation, Pair, explain
from blis_core.trace.rows import TraceRow
from blis_core.trace.simulated import SimulatedRequest
from blis_core.trace.statistics import MetricComparison, compare, total
from blis_core.trace.tracev2 import Trace
from blis_core.workload.network import transfer_us
from blis_core.workload.numeric import trunc_int64
from blis_core.workload.spec import Network

KNOWN_LIMITATIONS = (
    "Batch steps: a simulated server admits requests between them, a real one at any time.",
    "Prompts: their tokens are synthetic, and may share more or fewer prefixes than real ones.",
    "Speculative decoding is not simulated: where a server used it, times between tokens differ.",
)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CalibrationOptions(Record):
    """What is left out, and what lies between client and server."""

    warmup_requests: int | None = None
    """Requests with smaller ids are left out; None = what the trace's header says."""
    network_rtt_us: int | None = None
    """Round-trip time; None = what the trace's header says."""
    network_bandwidth_mbps: float = 0.0
    """0 or less = transfers take no time."""
    only_ok: bool = False
    """Leave out rows with a status other than ``ok``, of which the reference takes no notice."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Counts(Record):
    """What became of the rows of the trace."""

    excluded: int
    """Left out as warm-up."""
    failed: int
    """Left out because of their status; not reported."""
    matched: int
    """In the results."""
    unmatched_real: int
    """Not in the results, or with a latency below 0 (such a row may be matched as well)."""
    unmatched_sim: int
    """Results for which there is no row."""
    mismatches: int
    """Matched, with other numbers of tokens than in the results (reference quirk 05a-6: the
    results count prefixes in, the trace does not)."""
    prefix_mismatches: int
    """Those of them that a prefix explains."""
    negative: int
    """Rows with a latency below 0."""
    itl_dropped: int
    """Rows with chunk times that never advance."""

    @property
    def requests(self) -> int:
        """As reported; a matched row with a negative latency counts twice (reference quirk
        05a-9)."""
        return self.matched + self.excluded + self.unmatched_real


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Calibration(Record):
    """The outcome of a comparison."""

    counts: Counts
    metrics: Mapping[str, MetricComparison]
    """``ttft`` and ``e2e``; ``itl`` if chunk times were given."""
    explanation: Explanation
    """Where the error of the end-to-end time comes from."""
    warnings: tuple[str, ...] = ()
    """What makes the comparison doubtful."""


def calibrate(
    trace: Trace,
    results: Iterable[SimulatedRequest],
    options: CalibrationOptions | None = None,
    chunk_times: Sequence[ChunkTime] = (),
) -> Calibration:
    """Compare ``trace`` with the ``results`` of its replay.

    Of several results with one id the last counts. Rows are used whatever their status (reference
    quirk 05a-7); ``warnings`` of the outcome say so. BlisError for options out of range, and if
    there is nothing to compare.
    """
    options = options or CalibrationOptions()
    rtt = _round_trip(trace, options)
    bandwidth = options.network_bandwidth_mbps
    if not math.isfinite(bandwidth):
        raise BlisError(f"--network-bandwidth-mbps: must be finite, got {bandwidth}")
    network = Network(bandwidth_mbps=bandwidth)
    warmup = options.warmup_requests
    if warmup is None:
        warmup = trace.header.warm_up_requests
    pairing = _Pairing({result.request_id: result for result in results})
    for row in trace.rows:
        if options.only_ok and row.status != "ok":
            pairing.failed += 1
        elif row.request_id < max(0, warmup):
            pairing.excluded += 1
        else:
            pairing.add(row, rtt, network)
    if not pairing.matched_ids:
        raise BlisError(
            "no request of the trace is in the results"
            + (f" ({pairing.excluded} are left out as warm-up)" if pairing.excluded else "")
            + (f" ({pairing.failed} are left out because they failed)" if pairing.failed else "")
            + ": compare ids (request_id) in both files"
        )
    if not pairing.ttft.real:
        raise BlisError(
            f"none of the {len(pairing.rows)} matched requests has usable times: first and last"
            " chunk are before the sending"
        )
    metrics = {"ttft": pairing.ttft.compare(), "e2e": pairing.e2e.compare()}
    dropped = 0
    if chunk_times:
        itl, dropped = _inter_token(pairing, chunk_times)
        if itl.real:
            metrics["itl"] = itl.compare()
    counts = pairing.counts(dropped)
    return Calibration(
        counts=counts,
        metrics=metrics,
        explanation=explain(pairing.pairs()),
        warnings=tuple(_doubts(trace, pairing, counts)),
    )


def _round_trip(trace: Trace, options: CalibrationOptions) -> int:
    """us; the header's figure loses its fraction of a us (reference quirk 05a-10)."""
    if options.network_rtt_us is not None:
        if options.network_rtt_us < 0:
            raise BlisError(
                f"--network-rtt-us: must be at least 0 (or -1 for that of the header), "
                f"got {options.network_rtt_us}"
            )
        return options.network_rtt_us
    network = trace.header.network
    measured = trunc_int64(network.measured_rtt_ms * 1000) if network is not None else 0
    return max(0, measured)


# ----------------------------------------------------------------------------------------- pairing


class _Vectors:
    """Real and simulated values of one metric, in us."""

    def __init__(self) -> None:
        self.real: list[float] = []
        self.sim: list[float] = []

    def add(self, real: float, sim: float) -> None:
        self.real.append(real)
        self.sim.append(sim)

    def compare(self) -> MetricComparison:
        return compare(self.real, self.sim)


class _Pairing:
    """Rows and the results that belong to them."""

    def __init__(self, results: dict[int, SimulatedRequest]) -> None:
        self.results = results
        self.rows: list[tuple[TraceRow, SimulatedRequest]] = []
        """Matched rows in order."""
        self.ttft, self.e2e = _Vectors(), _Vectors()
        self.compared: list[TraceRow] = []
        self.output_tokens: list[tuple[int, int]] = []
        """Of the compared rows, and of their results."""
        self.matched_ids: set[int] = set()
        self.excluded = self.missing = self.mismatches = self.prefix_mismatches = self.failed = 0

    def add(self, row: TraceRow, rtt: int, network: Network) -> None:
        result = self.results.get(row.request_id)
        if result is None:
            self.missing += 1
            return
        self.matched_ids.add(row.request_id)
        self.rows.append((row, result))
        outputs_differ = row.output_tokens != result.output_tokens
        if row.input_tokens != result.input_tokens or outputs_differ:
            self.mismatches += 1
            whole = row.input_tokens + row.prefix_length
            self.prefix_mismatches += whole == result.input_tokens and not outputs_differ
        ttft = _difference(row.first_chunk_time_us, row.send_time_us)
        e2e = _difference(row.last_chunk_time_us, row.send_time_us)
        if ttft < 0 or e2e < 0:
            return
        up = transfer_us(network, result.input_tokens)
        down = transfer_us(network, result.output_tokens)
        self.compared.append(row)
        self.output_tokens.append((row.output_tokens, result.output_tokens))
        self.ttft.add(float(ttft), result.ttft_us + rtt + up)
        self.e2e.add(float(e2e), result.e2e_us + rtt + up + down)

    def pairs(self) -> list[Pair]:
        """The compared requests."""
        return [
            Pair(real_ttft, real_e2e, real_tokens, sim_ttft, sim_e2e, sim_tokens)
            for real_ttft, real_e2e, sim_ttft, sim_e2e, (real_tokens, sim_tokens) in zip(
                self.ttft.real,
                self.e2e.real,
                self.ttft.sim,
                self.e2e.sim,
                self.output_tokens,
                strict=True,
            )
        ]

    def counts(self, itl_dropped: int) -> Counts:
        negative = len(self.rows) - len(self.compared)
        return Counts(
            excluded=self.excluded,
            failed=self.failed,
            matched=len(self.rows),
            unmatched_real=self.missing + negative,
            unmatched_sim=len(self.results) - len(self.matched_ids),
            mismatches=self.mismatches,
            prefix_mismatches=self.prefix_mismatches,
            negative=negative,
            itl_dropped=itl_dropped,
        )


def _difference(a: int, b: int) -> int:
    """``a - b`` in 64 bits."""
    return (a - b + 2**63) % 2**64 - 2**63


def _inter_token(pairing: _Pairing, chunk_times: Iterable[ChunkTime]) -> tuple[_Vectors, int]:
    """Mean times between chunks and between simulated tokens; and the number of rows left out
    because no chunk came after another one."""
    by_request: dict[int, list[ChunkTime]] = {}
    for chunk in chunk_times:
        by_request.setdefault(chunk.request_id, []).append(chunk)
    vectors, dropped = _Vectors(), 0
    for row, result in pairing.rows:
        chunks = sorted(by_request.get(row.request_id, ()), key=attrgetter("chunk_index"))
        if len(chunks) < 2:
            continue
        times = [chunk.timestamp_us for chunk in chunks]
        gaps = [b - a for a, b in pairwise(times) if b >= a]
        if not gaps:
            dropped += 1
            continue
        sim = 0.0
        if result.output_tokens > 1:
            sim = (result.e2e_us - result.ttft_us) / (result.output_tokens - 1)
        vectors.add(total(gaps) / len(gaps), sim)
    return vectors, dropped


# ------------------------------------------------------------------------------------------ doubts

_DAY_US = 86_400_000_000


def _doubts(trace: Trace, pairing: _Pairing, counts: Counts) -> Iterable[str]:
    """What a reader of the figures should know."""
    header = trace.header
    if header.trace_version not in (0, 2):
        yield f"the trace is of version {header.trace_version}; it is read as version 2"
    if header.time_unit not in ("", "us", "microseconds"):
        yield f"the trace has time_unit {header.time_unit!r}; times are taken as microseconds"
    compared = pairing.compared
    if others := [row for row in compared if row.status != "ok"]:
        shown = ", ".join(sorted({row.status or "none" for row in others})[:5])
        yield (
            f"{len(others)} of {len(compared)} compared requests have a status other than ok"
            f" ({shown}); their times may not be those of whole answers (--only-ok leaves them out)"
        )
    if counts.negative:
        yield (
            f"{counts.negative} of {counts.matched} matched requests are left out: a chunk came"
            " before the request was sent, so these times have different origins, or there was"
            " no chunk"
        )
    far = sum(row.last_chunk_time_us - row.send_time_us > _DAY_US for row in compared)
    if far:
        yield (
            f"{far} of {len(compared)} compared requests took more than a day: the times of"
            " sending and of chunks seem to have different origins"
        )
    empty = sum(row.send_time_us == row.last_chunk_time_us == 0 for row in compared)
    if empty:
        yield f"{empty} of {len(compared)} compared requests have no times and count as 0 us"
    if counts.mismatches:
        because = ""
        if counts.prefix_mismatches:
            because = (
                f" (for {counts.prefix_mismatches} of them because input_tokens of the trace leaves"
                " out the prefix)"
            )
        yield (
            f"{counts.mismatches} of {counts.matched} matched requests have other numbers of tokens"
            f" in the results{because}"
        )
    if counts.itl_dropped:
        yield f"{counts.itl_dropped} requests have chunk times that never advance, and no ITL"

"""Latencies as a client sees them across a network. Library functions; no simulation uses them."""

from __future__ import annotations

from blis_core.workload.spec import Network

_BYTES_PER_TOKEN = 4


def transfer_us(network: Network, tokens: int) -> float:
    """us that ``tokens`` take in one direction; 0 with a bandwidth of 0 or less (unlimited)."""
    if network.bandwidth_mbps <= 0:
        return 0.0
    bits = tokens * _BYTES_PER_TOKEN * 8
    return bits / (network.bandwidth_mbps * 1e6) * 1e6


def client_ttft_us(server_ttft_us: float, network: Network | None, input_tokens: int) -> float:
    """Time to first token in us: the server's, the round trip, and the upload of the prompt."""
    if network is None:
        return server_ttft_us
    return server_ttft_us + network.rtt_ms * 1000 + transfer_us(network, input_tokens)


def client_e2e_us(
    server_e2e_us: float, network: Network | None, input_tokens: int, output_tokens: int
) -> float:
    """End-to-end time in us: like :func:`client_ttft_us`, and the download of the output."""
    if network is None:
        return server_e2e_us
    return client_ttft_us(server_e2e_us, network, input_tokens) + transfer_us(
        network, output_tokens
    )

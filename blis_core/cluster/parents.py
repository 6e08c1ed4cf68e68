"""A disaggregated request and its two halves.

The halves share the block keys of the whole request, so that splitting it costs no second look at
its tokens and nobody takes one half for a stranger with the same prompt.
"""

from __future__ import annotations

from typing import Any

from blis_core.contracts import Request, TransferredRequest


class PrefillHalf(Request):
    """The prompt of a request, without any output."""

    __slots__ = ("parent",)

    parent: Parent


class DecodeHalf(TransferredRequest):
    """The request behind its prefill."""

    __slots__ = ("parent",)

    parent: Parent


class Parent:
    """What the cluster remembers of a disaggregated request. Times are us, 0 = not reached.

    A transfer that starts at time 0 counts as not reached: reference quirk 07-Q8.
    """

    __slots__ = (
        "blocks",
        "completion",
        "decode",
        "decode_enqueue",
        "decode_instance",
        "prefill",
        "prefill_enqueue",
        "prefill_instance",
        "request",
        "transfer_complete",
        "transfer_start",
    )

    def __init__(self, request: Request, block_size: int) -> None:
        self.request = request
        self.blocks = -(-request.prompt_len // block_size)
        """KV blocks that are transferred."""
        tokens = request.tokens
        assert tokens is not None
        self.prefill = PrefillHalf(
            f"{request.id}_prefill",
            request.arrival,
            tokens[: request.prompt_len],
            request.prompt_len,
            0,
            **_common(request),
        )
        self.prefill.keys = request.keys
        self.prefill.parent = self
        self.decode: DecodeHalf | None = None
        self.prefill_instance = ""
        self.decode_instance = ""
        """Empty if there was no room for it."""
        self.prefill_enqueue = 0
        self.transfer_start = 0
        self.transfer_complete = 0
        self.decode_enqueue = 0
        self.completion = 0

    def split_off_decode(self) -> DecodeHalf:
        """The second half, once the first is done."""
        request = self.request
        self.decode = half = DecodeHalf(
            f"{request.id}_decode",
            request.arrival,
            request.tokens,
            request.prompt_len,
            request.output_len,
            **_common(request),
        )
        half.keys = request.keys
        half.parent = self
        return half


def _common(request: Request) -> dict[str, Any]:
    """What both halves take over; sessions, clients and media concern the whole request only."""
    return {
        "max_output": request.max_output,
        "deadline": request.deadline,
        "tenant": request.tenant,
        "slo_class": request.slo_class,
        "prefix_group": request.prefix_group,
        "model": request.model,
    }

"""The JSON bodies and headers of requests to an OpenAI-compatible server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from blis_observe.words import CALIBRATION_PROMPT

if TYPE_CHECKING:
    from blis_core.api import Request
    from blis_observe.observe_options import ObserveConfig

DEFAULT_MAX_TOKENS = 2048
"""Asked for when a request does not say how long its answer may be."""
_UNLIMITED = 2**31 - 1
TENANT_HEADER = "x-gateway-inference-fairness-id"
CLASS_HEADER = "x-gateway-inference-objective"


def most_output(request: Request) -> int:
    """Tokens that the answer to ``request`` may have."""
    return request.max_output if request.max_output > 0 else DEFAULT_MAX_TOKENS


def body(config: ObserveConfig, request: Request, prompt: str, *, streaming: bool) -> bytes:
    """The body for ``request`` with the text ``prompt``."""
    content = _start(config, prompt, streaming=streaming)
    if not config.unconstrained_output:
        content["max_tokens"] = most_output(request)
    elif config.api_format == "completions":
        content["max_tokens"] = _UNLIMITED  # without it, servers answer 16 tokens
    if config.min_tokens > 0:
        content["min_tokens"] = config.min_tokens
    if streaming:
        content["stream_options"] = {"include_usage": True}
    return json.dumps(content).encode()


def calibration_body(config: ObserveConfig) -> bytes:
    """The body of the request that measures the tokens per word."""
    content = _start(config, CALIBRATION_PROMPT, streaming=False)
    content["max_tokens"] = 1
    return json.dumps(content).encode()


def _start(config: ObserveConfig, prompt: str, *, streaming: bool) -> dict[str, Any]:
    content: dict[str, Any] = {"model": config.model, "stream": streaming}
    if config.api_format == "chat":
        content["messages"] = [{"role": "user", "content": prompt}]
    else:
        content["prompt"] = prompt
    return content


def headers(request: Request) -> dict[str, str]:
    """Headers that tell a gateway who asks, and how important it is."""
    found = {TENANT_HEADER: request.tenant, CLASS_HEADER: request.slo_class}
    return {name: value for name, value in found.items() if value}

"""The regression latency model of the specification's worked examples, for both engines."""

from __future__ import annotations

from blis_core.contracts import BatchShape, LatencyModel


class Regression(LatencyModel):
    """Step = b0 + b1 * prefill tokens + b2 * decode tokens; queueing = a0 + a1 * prompt."""

    analytical = False

    def __init__(self, alpha=(10.5, 0.3, 2.9), beta=(50.2, 3.7, 1.9), after=0):
        self.alpha, self.beta, self.after = alpha, beta, after

    def step_time(self, shape) -> int:
        if isinstance(shape, BatchShape):
            prefill, decode = sum(c.new_tokens for c in shape.prefills), shape.decodes
        else:  # members of the naive engine
            prefill = sum(new for progress, new, prompt, _ in shape if progress < prompt)
            decode = sum(new for progress, new, prompt, _ in shape if progress >= prompt)
        b0, b1, b2 = self.beta
        return max(1, int(b0 + b1 * prefill + b2 * decode))

    def queueing_time(self, prompt_len):
        return int(self.alpha[0] + self.alpha[1] * prompt_len)

    def output_token_time(self):
        return int(self.alpha[2])

    def completion_time(self):
        return self.after


class ContextSensitive(Regression):
    """Like it, but steps also grow with the context, so that runs have no constant step."""

    def step_time(self, shape) -> int:
        base = super().step_time(shape)
        if isinstance(shape, BatchShape):
            context = shape.decode_context_sum
            chunks = [(c.context, c.new_tokens, c.prompt_len) for c in shape.prefills]
        else:
            context = sum(p for p, _, prompt, _ in shape if p >= prompt)
            chunks = [(p, new, prompt) for p, new, prompt, _ in shape if p < prompt]
        extra = sum(p + 3 * new + prompt for p, new, prompt in chunks)
        return base + (context + extra) // 7

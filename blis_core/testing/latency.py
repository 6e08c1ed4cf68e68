"""Laws of latency models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from blis_core.contracts import (
    BatchShape,
    HardwareDescription,
    LatencyModel,
    LatencySetup,
    ModelDescription,
    PrefillChunk,
)
from blis_core.testing.checks import UNPREDICTABLE, cost, require, require_whole

SHAPES = (
    BatchShape(),
    BatchShape((), 1, 1),
    BatchShape((), 1, 100_000),
    BatchShape((), 32, 32_000),
    BatchShape((), 256, 300_000),
    BatchShape((PrefillChunk(0, 1, 1),)),
    BatchShape((PrefillChunk(0, 512, 512),)),
    BatchShape((PrefillChunk(0, 2048, 8192), PrefillChunk(6144, 100, 8192))),
    BatchShape((PrefillChunk(2048, 512, 30_000),), 16, 11_200),
    BatchShape((PrefillChunk(0, 100, 100), PrefillChunk(50, 7, 57)), 64, 70_000),
)
"""Batches to try: empty, pure decodes, prefills, mixed ones."""

RUNS = ((1, 0, 40), (1, 5, 1), (3, 700, 200), (32, 32_000, 100), (256, 400_000, 50))
"""Runs of decode steps to try: members, sum of their contexts, steps."""

PROMPTS = (1, 16, 100, 4096, 100_000)


def latency_setup(backend: str = "test", **changes: Any) -> LatencySetup:
    """A setup with the figures of an 8-billion-parameter model on one H100.

    ``changes`` are fields of ``LatencySetup``; ``alpha`` and ``beta`` are zeros otherwise.
    """
    figures: dict[str, Any] = {
        "backend": backend,
        "model": ModelDescription(
            layers=32,
            hidden=4096,
            heads=32,
            kv_heads=8,
            vocab=128_256,
            ffn=14_336,
            bytes_per_value=2.0,
            activation="silu",
        ),
        "hardware": HardwareDescription(
            name="H100",
            fp16_tflops=989.5,
            fp8_tflops=1979.0,
            hbm_tb_s=3.35,
            mfu_prefill=0.45,
            mfu_decode=0.3,
            memory_gib=80.0,
        ),
        "tp": 1,
    }
    return LatencySetup(**{**figures, **changes})


class LatencyModelTests:
    """Subclass it and define ``make``.

    Times are whole microseconds and repeatable, a run of decode steps takes what its single steps
    take, and the cost of a step does not grow with its tokens.
    """

    monotone: ClassVar[bool] = True
    """Whether further decodes never make a step shorter. Set it to False for a model that does
    not promise that."""

    def make(self) -> LatencyModel:
        """A new model."""
        raise NotImplementedError("define make(self), which returns a new latency model")

    def test_steps_take_whole_microseconds(self) -> None:
        """At least 1, whatever the batch; time that stands still would never end."""
        model = self.make()
        for shape in SHAPES:
            require_whole(model.step_time(shape), 1, f"step_time({shape})")

    def test_overheads_are_whole_microseconds(self) -> None:
        """Queueing, per token and at completion: at least 0."""
        model = self.make()
        for prompt_len in PROMPTS:
            require_whole(model.queueing_time(prompt_len), 0, f"queueing_time({prompt_len})")
        require_whole(model.output_token_time(), 0, "output_token_time()")
        require_whole(model.completion_time(), 0, "completion_time()")
        for members in (1, 32, 256):
            delay = model.first_token_delay(members)
            require_whole(delay, 0, f"first_token_delay({members})")

    def test_warnings_are_lines_of_text(self) -> None:
        """They are shown to users, one by one."""
        warnings: Sequence[object] = self.make().warnings
        for warning in warnings:
            require(
                isinstance(warning, str) and warning.strip() and "\n" not in warning,
                f"warnings holds {warning!r}, which is not a line of text",
            )

    def test_a_run_of_decode_steps_takes_what_its_steps_take(self) -> None:
        """``decode_times`` is ``step_time`` in bulk, to the last microsecond."""
        model = self.make()
        for decodes, context, steps in RUNS:
            call = f"decode_times({decodes}, {context}, {steps})"
            times = model.decode_times(decodes, context, steps)
            require(
                getattr(times, "dtype", None) == np.int64 and times.shape == (steps,),
                f"{call} returned {getattr(times, 'dtype', type(times).__name__)} of shape"
                f" {np.shape(times)}; return an int64 array with one time for each step",
            )
            single = [
                model.step_time(BatchShape((), decodes, context + j * decodes))
                for j in range(steps)
            ]
            wrong = next((j for j in range(steps) if times[j] != single[j]), None)
            require(
                wrong is None,
                f"{call}: step {wrong} takes {times[wrong or 0]} us, but step_time says"
                f" {single[wrong or 0]}. The engine uses either, so results would depend on which",
            )

    def test_same_batch_takes_the_same_time(self) -> None:
        """A model is immutable and draws nothing at random; all instances share it."""
        model, other = self.make(), self.make()
        first = [model.step_time(shape) for shape in SHAPES]
        model.decode_times(8, 1000, 20)
        for shape, time in reversed(list(zip(SHAPES, first, strict=True))):
            for times in (model.step_time(shape), other.step_time(shape)):
                require(
                    times == time,
                    f"step_time({shape}) returned {time}, then {times}; a latency model is"
                    f" immutable ({UNPREDICTABLE})",
                )

    def test_further_decodes_never_help(self) -> None:
        """Unless the class sets ``monotone = False``."""
        if not self.monotone:
            return
        model = self.make()
        for shape in SHAPES:
            time = model.step_time(shape)
            for more, context in ((1, 0), (1, 500), (64, 64_000)):
                larger = BatchShape(
                    shape.prefills, shape.decodes + more, shape.decode_context_sum + context
                )
                longer = model.step_time(larger)
                require(
                    longer >= time,
                    f"step_time({larger}) is {longer}, less than the {time} of a batch without"
                    f" {more} of its decodes. If that is meant, set monotone = False",
                )

    def test_cost_does_not_grow_with_the_tokens(self) -> None:
        """A batch is described by aggregates, so that a step costs the same for any number."""
        model = self.make()
        small, large = (
            BatchShape((PrefillChunk(0, 10 * n, 10 * n),), n, 100 * n) for n in (2, 2000)
        )
        for shape in (small, large):
            model.step_time(shape)  # whatever is computed on first use
        few, many = cost(lambda: model.step_time(small)), cost(lambda: model.step_time(large))
        require(
            not many.exceeds(few),
            f"step_time takes {many} for 2000 decodes and 20000 prompt tokens instead of {few} for"
            " 2 and 20: its cost grows with the batch",
        )

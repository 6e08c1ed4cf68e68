"""The latency model ``kernels``: a step is the sum of its kernels.

Source of the form and of its constants: a least-squares fit to the kernel measurements of NVIDIA
AIConfigurator, with five constants of the serving engine fitted to served models (see NOTICE and
docs/accuracy.md). Sums over the tokens of a step and over its sequences are computed once for each
number of them; a step then takes two look-ups and a few multiplications.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from blis_core.api import (
    Accuracy,
    BatchShape,
    HardwareDescription,
    LatencyModel,
    LatencySetup,
    RunFacts,
    truncate_us,
    truncate_us_array,
)
from blis_latency_kernels import memory
from blis_latency_kernels.accuracy import accuracy_of
from blis_latency_kernels.constants import contents, gpu, gpu_names
from blis_latency_kernels.layers import Layers
from blis_latency_kernels.options import KernelOptions
from blis_latency_kernels.validity import checked, sampling_default, warnings

if TYPE_CHECKING:
    import numpy.typing as npt

NOMINAL_DECODES: Final = 32
NOMINAL_CONTEXT: Final = 1000
"""Decodes, and tokens of context of each, of the step that stands for the scheduling lag."""


class KernelModel(LatencyModel):
    """Sum of the kernels of a step, from closed forms fitted to measurements of each GPU."""

    accepts_coefficients = False
    options_class = KernelOptions

    def __init__(self, setup: LatencySetup) -> None:
        found, shapes, options = checked(setup)
        self.warnings = tuple(warnings(setup, found, shapes, options))
        host = contents()["host"]
        sampled = options.sampler == "on" or (
            options.sampler == "auto" and bool(sampling_default(setup.model_name))
        )
        self._layers = Layers(
            found,
            shapes,
            largest_graph=min(
                2 * setup.max_running // shapes.engines, contents()["cuda_graph_sizes"][-1]
            ),
            sampler_us=host["sampler_us_per_million_logits"] / 1e6 if sampled else 0.0,
            link_gb_s=options.link_gb_s,
            power_law=options.routing == "power-law",
        )
        self._scale = scale = options.scale
        self._engines = engines = shapes.engines
        layers, heads, head_dim = shapes.layers, shapes.heads, shapes.head_dim
        decode_floor, read_rate = found.attn_decode
        prefill_floor, per_token_and_head, attend_rate = found.attn_prefill
        self._decode_floor = layers * decode_floor
        self._prefill_floor = scale * layers * prefill_floor
        self._mixed_floor = scale * layers * decode_floor
        self._mixed_layers: float = layers * host["mixed_layer_us"]
        self._per_context = scale * layers * (4 * shapes.kv_heads * head_dim / read_rate) / engines
        self._per_chunk_token = scale * layers * (per_token_and_head * heads)
        self._per_attended = scale * layers * (4 * heads * head_dim / attend_rate)
        # filled as the numbers of tokens and sequences come up
        self._decode_us: dict[int, float] = {}
        self._mixed_us: dict[int, float] = {}
        self._head_us: dict[int, float] = {}

        self._lagging = setup.schedule_lag > 0
        self._queueing = self._delay = 0
        if options.measured_at == "client":
            self._queueing = int(host["arrival_to_first_token_us"])
            self._delay = int(host["output_us_per_sequence"])
        if not self._lagging:
            # an engine without the lag: a nominal step takes its place
            self._queueing += self.step_time(
                BatchShape((), NOMINAL_DECODES, NOMINAL_DECODES * NOMINAL_CONTEXT)
            )

    @classmethod
    def known_gpus(cls) -> Mapping[str, HardwareDescription]:
        """Every GPU with constants; its memory is not known where nobody has measured it."""
        gpus = {}
        for name in gpu_names():
            found = gpu(name)
            assert found is not None
            gpus[name] = HardwareDescription(
                name=name,
                fp16_tflops=found.peak16 / 1e6,
                fp8_tflops=found.peak8 / 1e6,
                hbm_tb_s=found.bandwidth / 1e6,
                memory_gib=found.usable_memory_gib or 0.0,
            )
        return gpus

    @classmethod
    def kv_blocks(cls, setup: LatencySetup, block_size: int, utilization: float) -> int:
        """By figures that were fitted to block counts of vLLM."""
        found, shapes, _ = checked(setup)
        return memory.kv_blocks(found, shapes, setup, block_size, utilization)

    # -------------------------------------------------------------------------------- step time

    def step_time(self, shape: BatchShape) -> int:
        """Duration in us; 1 for an empty batch."""
        prefills, decodes, context_sum = shape
        if not prefills:
            if not decodes:
                return 1
            base = self._decode_us.get(decodes)
            if base is None:
                base = self._new_decodes(decodes)
            value = base + self._per_context * context_sum
        elif self._engines > 1:
            value = self._busiest_us(shape)
        else:
            tokens = decodes
            chunks = 0.0
            per_token, per_attended = self._per_chunk_token, self._per_attended
            for context, new_tokens, _ in prefills:
                tokens += new_tokens
                chunks += new_tokens * (per_token + per_attended * (context + new_tokens / 2))
            sequences = decodes + len(prefills)
            base = self._mixed_us.get(tokens)
            if base is None:
                base = self._new_mixed(tokens)
            head = self._head_us.get(sequences)
            if head is None:
                head = self._new_head(sequences)
            floor = self._mixed_floor if decodes else self._prefill_floor
            value = base + head + floor + self._per_context * context_sum + chunks
        return int(value) if 1.0 <= value < 1e18 else max(1, truncate_us(value))

    def decode_times(self, decodes: int, context_sum: int, steps: int) -> npt.NDArray[np.int64]:
        """As :meth:`step_time` for each of ``steps`` consecutive decode steps."""
        if steps <= 2 or decodes <= 0:
            return super().decode_times(decodes, context_sum, steps)
        base = self._decode_us.get(decodes)
        if base is None:
            base = self._new_decodes(decodes)
        times = np.arange(context_sum, context_sum + decodes * steps, decodes, dtype=np.float64)
        times *= self._per_context
        times += base
        return np.maximum(truncate_us_array(times), 1)

    def _busiest_us(self, shape: BatchShape) -> float:
        """us of a step with prefill of data parallel engines: all wait for the busiest.

        Decodes are divided evenly; each chunk goes where there are the fewest tokens.
        """
        engines, decodes = self._engines, shape.decodes
        sequences = [(decodes + engine) // engines for engine in range(engines)]
        tokens, chunks = list(sequences), [0.0] * engines
        for context, new_tokens, _ in sorted(shape.prefills, key=lambda chunk: -chunk.new_tokens):
            least = tokens.index(min(tokens))
            tokens[least] += new_tokens
            sequences[least] += 1
            attended = self._per_attended * (context + new_tokens / 2)
            chunks[least] += new_tokens * (self._per_chunk_token + attended)
        layers = self._layers
        value = layers.tokens_us(max(tokens), sum(tokens)) + self._mixed_layers
        value += layers.head_us(max(sequences))
        floor = self._mixed_floor if decodes else self._prefill_floor
        attention = self._per_context * shape.decode_context_sum + max(chunks)
        return self._scale * value + floor + attention

    # -------------------------------------------------------------------------------- overheads

    def queueing_time(self, prompt_len: int) -> int:
        """us from arrival until the engine knows of a request, and back with its first token.

        Without a scheduling lag in the engine, a nominal step comes on top.
        """
        return self._queueing

    def first_token_delay(self, sequences: int) -> int:
        """us in which the answers of one step are streamed; the newest one is the last."""
        return self._delay * sequences

    def accuracy(self, run: RunFacts) -> Accuracy:
        """The errors of the nearest runs that were compared with a served model."""
        return accuracy_of(run, lagging=self._lagging, engines=self._engines)

    # ----------------------------------------------------------------------------------- sums

    def _new_decodes(self, decodes: int) -> float:
        """us of a step of this many decodes, without what depends on their contexts."""
        layers, busiest = self._layers, -(-decodes // self._engines)
        value = layers.tokens_us(busiest, decodes) + self._decode_floor + layers.head_us(busiest)
        self._decode_us[decodes] = value = self._scale * value
        return value

    def _new_mixed(self, tokens: int) -> float:
        """us of the layers of a step with prefill, without attention."""
        value = self._scale * (self._layers.tokens_us(tokens) + self._mixed_layers)
        self._mixed_us[tokens] = value
        return value

    def _new_head(self, sequences: int) -> float:
        """us of the logits and samples of this many sequences."""
        self._head_us[sequences] = value = self._scale * self._layers.head_us(sequences)
        return value

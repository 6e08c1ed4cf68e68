"""Reference results for the tests of the latency plugins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import pytest

from blis_core.api import (
    BatchShape,
    HardwareDescription,
    LatencyModel,
    LatencySetup,
    ModelDescription,
    PrefillChunk,
)
from blis_core.catalog.hardware import bundled_gpus
from blis_core.cli.main import main

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"

ModelClass = type[LatencyModel]


class Batch(NamedTuple):
    """A batch of the reference. ``uncounted`` members got no tokens: BatchShape leaves them out."""

    shape: BatchShape
    uncounted: int
    expected: int


class LatencyReference:
    """Observed results of the Go reference and the worked examples of the documentation."""

    @cached_property
    def vectors(self) -> dict[str, Any]:
        """Contents of ``latency_vectors.json``."""
        return json.loads((DATA / "latency_vectors.json").read_text())

    @cached_property
    def examples(self) -> dict[str, Any]:
        """Contents of ``latency_examples.json``."""
        return json.loads((DATA / "latency_examples.json").read_text())

    @cached_property
    def gpus(self) -> dict[str, HardwareDescription]:
        """The catalogue's GPUs."""
        return bundled_gpus()

    def model(self, name: str, **changes: Any) -> ModelDescription:
        """The description of a model of the vectors, with some figures changed."""
        figures = {**self.vectors["models"][name], **changes}
        width = float(figures.pop("bytes"))
        return ModelDescription(bytes_per_value=width, **figures)

    def groups(
        self, cls: ModelClass, backend: str
    ) -> Iterator[tuple[dict[str, Any], LatencyModel]]:
        """Each recorded group of ``backend`` with a model built for it."""
        for group in self.vectors["groups"]:
            if group["backend"] == backend:
                coefficients = self.vectors["coefficient_sets"][group["coefficients"]]
                yield (
                    group,
                    cls(
                        LatencySetup(
                            backend=backend,
                            model=self.model(group["model"]),
                            hardware=self.gpus[group["gpu"]],
                            tp=group["tp"],
                            alpha=tuple(coefficients["alpha"]),
                            beta=tuple(coefficients["beta"]),
                        )
                    ),
                )

    def batches(self, group: dict[str, Any]) -> Iterator[Batch]:
        """The batches of a group, by aggregates."""
        for requests, expected in group["batches"]:
            yield self._batch(requests, expected)

    def constructions(self, backend: str) -> Iterator[tuple[dict[str, Any], LatencySetup]]:
        """Each construction case of ``backend`` with the setup it describes."""
        for case in self.vectors["construction"]:
            if case["backend"] == backend:
                yield (
                    case,
                    LatencySetup(
                        backend=backend,
                        model=self.model("llama-3.1-8b-instruct", **case["model_changes"]),
                        hardware=attrs.evolve(self.gpus["H100"], **case["gpu_changes"]),
                        tp=case["tp"],
                        alpha=tuple(case["alpha"]),
                        beta=tuple(case["beta"]),
                    ),
                )

    def example_batches(self) -> list[BatchShape]:
        """Batches a, b, c, m, e, f and the empty one of the worked examples."""
        chunk = PrefillChunk
        return [
            BatchShape((chunk(0, 512, 512),)),
            BatchShape((), 1, 513),
            BatchShape((), 32, 32_000),
            BatchShape((chunk(0, 512, 2048), chunk(1536, 512, 2048)), 16, 11_200),
            BatchShape((chunk(0, 2048, 8192),)),
            BatchShape(
                (chunk(0, 100, 100), chunk(50, 7, 57), chunk(0, 1, 1)),
                64,
                sum(10 + 37 * i for i in range(64)),
            ),
            BatchShape(),
        ]

    @staticmethod
    def _batch(requests: list[list[int]], expected: int) -> Batch:
        prefills, decodes, context_sum, uncounted = [], 0, 0, 0
        for progress, new_tokens, prompt_len, output_len in requests:
            if progress < prompt_len:
                prefills.append(PrefillChunk(progress, new_tokens, prompt_len))
            elif output_len > 0:
                assert new_tokens == 1, "the contract has no decode of several tokens"
                decodes += 1
                context_sum += progress
            else:
                uncounted += 1
        return Batch(BatchShape(tuple(prefills), decodes, context_sum), uncounted, expected)


@pytest.fixture(scope="session")
def latency_reference() -> LatencyReference:
    """Reference results, read on first use."""
    return LatencyReference()


@pytest.fixture
def blis(capsys, tmp_path, monkeypatch):
    """The command line in a folder of its own: arguments -> exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return run

"""Recorded verdicts on small specifications, and the verdict of loading and validation.

``CASES`` has ``name``, ``yaml`` and ``result`` (``ok``, ``load_error``, ``generate_error``, or
``panic`` where the reference crashes), and where they apply ``num_generated`` and ``warnings``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from blis_core.errors import BlisError
from blis_core.workload.inference_perf import with_inference_perf
from blis_core.workload.servegen import with_servegen
from blis_core.workload.spec import parse_spec
from blis_core.workload.validation import check_sources, validate

LOAD_ERROR, INVALID, PASSED = "load_error", "validation_error", "passed"


def _cases() -> list[dict[str, Any]]:
    path = Path(__file__).parents[1] / "data" / "validation_cases.json"
    data = json.loads(path.read_text())
    for case in data["cases"]:
        for short, text in data["abbreviations"].items():
            case["yaml"] = case["yaml"].replace(short, text)
    cases: list[dict[str, Any]] = data["cases"]
    return cases


CASES = _cases()

LEFT_TO_GENERATION = frozenset(
    """
    num_requests_negative dist_missing_param dist_no_params empirical_file_only empirical_empty
    empirical_bad_key reason_ratio_bad_type mm_bad_dist emp_neg
    """.split()
)
"""Cases with another result than ``ok`` that only making requests finds out."""


def explain(text: str) -> tuple[str, str]:
    """(LOAD_ERROR, INVALID or PASSED, error message)."""
    try:
        spec = parse_spec(text, "spec.yaml")
    except BlisError as problem:
        return LOAD_ERROR, str(problem)
    try:
        check_sources(spec)
        validate(with_servegen(with_inference_perf(spec)))
    except BlisError as problem:
        return INVALID, str(problem)
    return PASSED, ""


def verdict(text: str) -> str:
    """LOAD_ERROR, INVALID or PASSED: what becomes of a specification before any request."""
    return explain(text)[0]

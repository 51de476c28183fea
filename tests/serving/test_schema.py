"""The server keeps to its own OpenAPI description, whatever a generator of requests comes up with."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import CHECKS
from schemathesis.generation import GenerationMode

pytestmark = pytest.mark.slow
OPERATIONS = {
    ("GET", "/healthz"),
    ("GET", "/metrics"),
    ("GET", "/readyz"),
    ("GET", "/v1/models"),
    ("POST", "/v1/caption"),
    ("POST", "/v1/caption/batch"),
}


@pytest.fixture(scope="module")
def operations(api_server: Any) -> dict[tuple[str, str], Any]:
    described = schemathesis.openapi.from_url(f"{api_server.address}/openapi.json")
    found = [result.ok() for result in described.get_all_operations()]
    return {(operation.method.upper(), operation.path): operation for operation in found}


def test_every_operation_is_tried(operations: dict[tuple[str, str], Any]) -> None:
    assert operations.keys() == OPERATIONS


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, GenerationMode.POSITIVE) for name in sorted(OPERATIONS)]
    + [(name, GenerationMode.NEGATIVE) for name in sorted(OPERATIONS) if name[0] == "POST"],
    ids=str,
)
def test_the_description_holds(
    operations: dict[tuple[str, str], Any], name: tuple[str, str], mode: GenerationMode
) -> None:
    @given(case=operations[name].as_strategy(generation_mode=mode))
    @settings(
        max_examples=12,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    def hold(case: Any) -> None:
        # An image cannot be described by a schema: bytes that fit it may still be refused, in the ways described.
        case.call_and_validate(excluded_checks=[CHECKS.get_one("positive_data_acceptance")], timeout=120)

    hold()

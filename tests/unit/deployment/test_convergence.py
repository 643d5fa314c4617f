"""Whether an object has converged, according to its status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright.client._dynamic import Unstructured, decode_object
from kubewright.machinery.json import compact
from kubewright.models import APIResource
from kubewright_cli.deployment.convergence import is_stuck, not_reconciled, reason_not_converged

KIND = Unstructured.of(APIResource("example.com", "v1", "Widget", "widgets"))


def widget(status: object = None, **metadata: Any) -> Unstructured:
    document = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "generation": 2, **metadata},
        **({} if status is None else {"status": status}),
    }
    return decode_object(KIND, compact(document).encode())


def condition(kind: str, status: str, **more: Any) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, **more}]}


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(None, id="says nothing"),
        pytest.param({"observedGeneration": 2}, id="up to date"),
        pytest.param(condition("Available", "True", observedGeneration=2), id="available"),
        pytest.param(condition("Degraded", "False"), id="not degraded"),
        pytest.param(condition("Progressing", "True"), id="kubebuilder's Progressing"),
        pytest.param(condition("Interesting", "False", observedGeneration=1), id="not known"),
        pytest.param({"conditions": "broken"}, id="no conditions at all"),
    ],
)
def test_an_object_without_problems_has_converged(status: object) -> None:
    assert reason_not_converged(widget(status)) is None


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"observedGeneration": 1}, "generation 2 is not reconciled yet; the status is of generation 1"),
        (condition("Ready", "False", reason="NoNode", message="none fits"), "Ready is False (NoNode: none fits)"),
        (condition("Available", "Unknown"), "Available is Unknown"),
        (condition("Degraded", "True", reason="Disk"), "Degraded is True (Disk)"),
        (condition("Reconciling", "True"), "Reconciling is True"),
        (
            condition("Ready", "True", observedGeneration=1),
            "condition Ready is of generation 1, the object has generation 2",
        ),
    ],
)
def test_a_problem_is_the_reason(status: object, why: str) -> None:
    assert reason_not_converged(widget(status)) == why


def test_a_deleted_object_names_its_finalizers() -> None:
    dying = widget(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a.example.com/f"])
    assert reason_not_converged(dying) == "is being deleted, held by a.example.com/f"


@pytest.mark.parametrize(
    ("status", "declared", "field"),
    [
        (None, ("observedGeneration", "conditions"), "observedGeneration"),
        (condition("Ready", "True"), ("observedGeneration",), "observedGeneration"),
        ({"conditions": []}, ("conditions",), "conditions"),
        ({"observedGeneration": 2}, ("observedGeneration", "conditions"), None),
        (condition("Ready", "True"), ("conditions",), None),
        (None, (), None),
    ],
)
def test_an_object_without_a_status_is_not_reconciled(
    status: object, declared: tuple[str, ...], field: str | None
) -> None:
    reason = None if field is None else f"not reconciled yet: status.{field} is not set"
    assert not_reconciled(widget(status), declared) == reason


@pytest.mark.parametrize(
    ("found", "stuck"),
    [
        (widget(condition("Ready", "False", lastTransitionTime="2026-01-01T11:58:59Z")), True),
        (widget(condition("Ready", "False", lastTransitionTime="2026-01-01T11:59:30Z")), False),
        (widget(condition("Ready", "False", lastTransitionTime="yesterday")), False),
        (widget(condition("Ready", "False")), False),
        (widget(condition("Ready", "True", lastTransitionTime="2026-01-01T11:00:00Z")), False),
        (widget(condition("Ready", "Unknown", lastTransitionTime="2026-01-01T11:00:00Z")), False),
        (widget(deletionTimestamp="2026-01-01T11:58:59Z", finalizers=["example.com/f"]), True),
        (widget(deletionTimestamp="2026-01-01T11:59:30Z", finalizers=["example.com/f"]), False),
        (widget(deletionTimestamp="2026-01-01T11:00:00Z"), False),
    ],
)
def test_an_object_is_stuck_after_a_minute_without_success(found: Unstructured, stuck: bool) -> None:
    assert is_stuck(found, datetime(2026, 1, 1, 12, tzinfo=UTC)) is stuck

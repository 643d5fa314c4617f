"""Whether an object is what it is meant to be, by its own word."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.client._dynamic import Unstructured, decode_object
from kubewright.machinery.json import compact
from kubewright.models import APIResource
from kubewright_cli.deployment.convergence import hindrance

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
def test_what_does_not_complain_has_converged(status: object) -> None:
    assert hindrance(widget(status)) is None


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"observedGeneration": 1}, "generation 2 has not been looked at yet; the status is of generation 1"),
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
def test_what_complains_says_why(status: object, why: str) -> None:
    assert hindrance(widget(status)) == why


def test_what_is_being_deleted_names_who_holds_it() -> None:
    dying = widget(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a.example.com/f"])
    assert hindrance(dying) == "is being deleted, held by a.example.com/f"

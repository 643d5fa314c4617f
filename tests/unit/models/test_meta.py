"""The methods of the meta/v1 structures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec

from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.meta.v1 import Condition, MicroTime, OwnerReference, owner_reference, set_condition
from kubewright.models import codec

NOON = datetime(2026, 1, 2, 12, 0, 0, 999, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def deployment() -> Deployment:
    return codec.from_dict(
        Deployment,
        {"metadata": {"name": "web", "uid": "u-1"}, "spec": {"selector": {}, "template": {}}},
    )


def test_an_owner_reference_names_the_owner_and_makes_it_the_controller() -> None:
    assert msgspec.to_builtins(owner_reference(deployment())) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": "u-1",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_an_owner_that_is_not_the_controller_is_only_referenced() -> None:
    assert owner_reference(deployment(), controller=False) == OwnerReference(
        api_version="apps/v1", kind="Deployment", name="web", uid="u-1"
    )


def test_a_new_condition_has_the_current_time_in_whole_seconds() -> None:
    conditions: list[Condition] = []
    assert set_condition(conditions, "Ready", "True", reason="Up", observed_generation=2, now=NOON)
    assert msgspec.to_builtins(conditions) == [
        {
            "type": "Ready",
            "status": "True",
            "observedGeneration": 2,
            "lastTransitionTime": "2026-01-02T12:00:00Z",
            "reason": "Up",
            "message": "",
        }
    ]


def test_the_time_of_a_condition_moves_only_when_its_status_does() -> None:
    conditions: list[Condition] = []
    set_condition(conditions, "Ready", "False", reason="Down", now=NOON)
    set_condition(conditions, "Ready", "False", reason="StillDown", message="wait", now=LATER)
    assert (conditions[0].reason, conditions[0].last_transition_time.hour) == ("StillDown", 12)
    set_condition(conditions, "Ready", "True", reason="Up", now=LATER)
    assert (len(conditions), conditions[0].last_transition_time.hour) == (1, 13)


def test_setting_an_equal_condition_changes_nothing() -> None:
    conditions: list[Condition] = []
    assert set_condition(conditions, "Ready", "True", reason="Up", now=NOON)
    before = msgspec.json.encode(conditions)
    assert not set_condition(conditions, "Ready", "True", reason="Up", now=LATER)
    assert msgspec.json.encode(conditions) == before


def test_a_micro_time_is_the_same_moment_in_utc() -> None:
    moment = datetime(2026, 1, 2, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    assert MicroTime.of(moment) == moment
    assert MicroTime.of(moment).tzinfo is UTC

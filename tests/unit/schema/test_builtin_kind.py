"""Built-in kinds: decoding as in Go, and defaults."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.machinery.errors import DecodeError
from kubewright_controlplane.schema.structural.schema import Schema


def test_unknown_fields_are_dropped_and_reported(thing: Schema) -> None:
    obj = {"metadata": {"name": "a", "no": 1}, "spec": {"containers": [{"name": "c", "bogus": {}}], "foo": 1}, "x": 1}
    assert thing.prune(obj) == ["metadata.no", "spec.containers[0].bogus", "spec.foo", "x"]
    assert obj == {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}


def test_values_that_go_omits_are_dropped(thing: Schema) -> None:
    obj: dict[str, Any] = {
        "metadata": {"name": "a", "creationTimestamp": None, "labels": {}, "finalizers": []},
        "spec": {"containers": [], "replicas": None, "selector": {}, "nodeSelector": {"a": None}},
    }
    assert thing.prune(obj) == []
    assert obj == {
        "metadata": {"name": "a"},
        "spec": {"containers": [], "selector": {}, "nodeSelector": {"a": ""}},
    }


def test_quantities_and_times_are_normalized(thing: Schema) -> None:
    obj = {
        "metadata": {"creationTimestamp": "2026-01-31T14:00:00.5+02:00"},
        "spec": {"containers": [{"name": "c", "limits": {"cpu": "1000m", "memory": 1048576, "disk": "1024Mi"}}]},
    }
    thing.prune(obj)
    assert obj["metadata"] == {"creationTimestamp": "2026-01-31T12:00:00Z"}
    assert obj["spec"] == {"containers": [{"name": "c", "limits": {"cpu": "1", "memory": "1048576", "disk": "1Gi"}}]}


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        (
            {"spec": {"replicas": "3"}},
            "json: cannot unmarshal string into Go struct field Spec.spec.replicas of type int32",
        ),
        (
            {"spec": {"replicas": 3_000_000_000}},
            "json: cannot unmarshal number 3000000000 into Go struct field Spec.spec.replicas of type int32",
        ),
        (
            {"spec": {"containers": {}}},
            "json: cannot unmarshal object into Go struct field Spec.spec.containers of type []v1.Container",
        ),
        (
            {"spec": {"containers": [{"name": 1}]}},
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
        ),
        (
            {"spec": {"containers": ["c"]}},
            "json: cannot unmarshal string into Go struct field Spec.spec.containers of type v1.Container",
        ),
        (
            {"metadata": {"labels": {"a": True}}},
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"metadata": []},
            "json: cannot unmarshal array into Go struct field Thing.metadata of type v1.ObjectMeta",
        ),
        (
            {"spec": {"containers": [{"limits": {"cpu": "much"}}]}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ({"spec": {"surge": True}}, "json: cannot unmarshal bool into Go value of type int32"),
        ({"spec": {"secret": "not base64!"}}, "illegal base64 data at input byte 3"),
        (
            {"metadata": {"creationTimestamp": "today"}},
            'parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006"',
        ),
    ],
)
def test_a_wrong_type_is_rejected_with_gos_message(thing: Schema, obj: dict[str, Any], told: str) -> None:
    with pytest.raises(DecodeError) as refused:
        thing.prune(obj)
    assert str(refused.value) == told


def test_defaults_are_set_in_lists_of_objects_too(thing: Schema) -> None:
    obj: dict[str, Any] = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}}
    thing.default(obj)
    assert obj["spec"]["replicas"] == 1
    assert obj["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_a_recursive_kind_can_be_decoded() -> None:
    node = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "child": {"$ref": "#/components/schemas/a.Node"}},
    }
    schema = Schema.from_openapi("a.Node", {"a.Node": node})
    assert schema.prune({"child": {"child": {"name": "x", "no": 1}}}) == ["child.child.no"]

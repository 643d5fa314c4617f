"""Objects from and to JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.coordination.v1 import Lease
from kubewright.apis.core.v1 import ConfigMap, Pod, Secret
from kubewright.apis.meta.v1 import MicroTime, ObjectMeta, Quantity
from kubewright.apis.rbac.v1 import ClusterRole
from kubewright.machinery.errors import DecodeError
from kubewright.models import UNSET, CustomResource, Model, UnsetType, codec, field


class DiskSpec(Model):
    size: Quantity
    replicas: int = 1
    zones: list[str] = field(default_factory=list)
    note: str | None = None


class Disk(CustomResource, group="example.com", version="v1"):
    spec: DiskSpec


def doc(**document: Any) -> bytes:
    return json.dumps(document).encode()


def pod(*containers: dict[str, Any], **spec: Any) -> bytes:
    return doc(
        apiVersion="v1",
        kind="Pod",
        metadata={"name": "web", "namespace": "default"},
        spec={"containers": list(containers), **spec},
    )


def test_an_encoded_object_begins_with_api_version_and_kind() -> None:
    disk = Disk(metadata=ObjectMeta(name="a"), spec=DiskSpec(size="1Gi"))
    assert codec.encode(disk).startswith(b'{"apiVersion":"example.com/v1","kind":"Disk",')


def test_none_and_empty_lists_are_omitted_but_other_defaults_are_sent() -> None:
    disk = Disk(metadata=ObjectMeta(name="a"), spec=DiskSpec(size="1Gi"))
    assert json.loads(codec.encode(disk)) == {
        "apiVersion": "example.com/v1",
        "kind": "Disk",
        "metadata": {"name": "a"},
        "spec": {"size": "1Gi", "replicas": 1},
    }


def test_an_encoded_object_decodes_to_an_equal_one() -> None:
    disk = Disk(metadata=ObjectMeta(name="a", labels={"x": "y"}), spec=DiskSpec(size="1Gi", zones=["b"]))
    assert codec.decode(Disk, codec.encode(disk)) == disk


def test_to_dict_equals_the_encoded_document() -> None:
    data = doc(
        apiVersion="v1",
        kind="ConfigMap",
        metadata={"name": "a", "managedFields": [{"manager": "m", "fieldsV1": {"f:data": {}}}]},
        data={"k": "v"},
    )
    found = codec.decode(ConfigMap, data)
    assert codec.to_dict(found) == json.loads(codec.encode(found)) == json.loads(data)


def test_null_for_a_list_or_map_is_an_empty_one() -> None:
    role = codec.decode(ClusterRole, doc(kind="ClusterRole", metadata={"name": "a", "labels": None}, rules=None))
    assert role.rules == []
    assert role.metadata.labels == {}


def test_null_for_a_list_deep_inside_is_an_empty_one() -> None:
    found = codec.decode(Pod, pod({"name": "a", "image": "i", "args": None}, {"name": "b", "ports": None}))
    assert [each.args for each in found.spec.containers] == [[], []]


def test_null_for_a_field_with_a_default_is_the_default() -> None:
    disk = codec.decode(Disk, doc(metadata={"name": "a"}, spec={"size": "1Gi", "replicas": None}))
    assert disk.spec.replicas == 1


def test_a_quantity_that_is_a_number_is_its_text() -> None:
    assert codec.decode(Disk, doc(metadata={"name": "a"}, spec={"size": 3})).spec.size == "3"


def test_a_secret_holds_bytes() -> None:
    secret = codec.decode(Secret, doc(metadata={"name": "a"}, data={"k": "aGVsbG8="}))
    assert secret.data == {"k": b"hello"}
    assert codec.to_dict(secret)["data"] == {"k": "aGVsbG8="}


def test_a_micro_time_is_written_with_six_digits_and_read_back() -> None:
    data = doc(metadata={"name": "a"}, spec={"renewTime": "2026-01-02T03:04:05.000000Z"})
    found = codec.decode(Lease, data)
    assert found.spec.renew_time == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    found.spec.renew_time = MicroTime.of(datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC))
    assert codec.to_dict(found)["spec"]["renewTime"] == "2026-01-02T03:04:06.000000Z"
    assert b'"2026-01-02T03:04:06.000000Z"' in codec.encode_update(found)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            doc(metadata={"name": "a", "namespace": "b"}, spec={"size": "1", "replicas": "many"}),
            'Disk "b/a": spec.replicas: expected int, got str',
        ),
        (
            doc(metadata={"name": "a"}, spec={"size": "1", "zones": ["x", 3]}),
            'Disk "a": spec.zones[1]: expected str, got int',
        ),
        (
            doc(metadata={"name": "a"}, spec={}),
            'Disk "a": spec: object missing required field size',
        ),
        (doc(kind="Pod", metadata={"name": "a"}), "Disk \"a\": kind: invalid value 'Pod'"),
        (b"[]", "Disk: not a JSON object"),
        (b'{"metadata"', "Disk: not JSON"),
    ],
)
def test_a_decode_error_names_kind_object_and_field(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        codec.decode(Disk, data)
    assert message in str(caught.value)


def test_a_document_of_another_version_is_rejected() -> None:
    with pytest.raises(DecodeError, match=r'apiVersion is "example.com/v2", not "example.com/v1"'):
        codec.from_dict(Disk, {"apiVersion": "example.com/v2", "kind": "Disk", "spec": {"size": "1"}})


def test_an_update_keeps_unknown_fields_at_every_depth() -> None:
    data = doc(
        apiVersion="v1",
        kind="Pod",
        metadata={"name": "web", "futureMeta": 1},
        spec={
            "containers": [{"name": "a", "image": "old", "future": {"x": [1]}}, {"name": "b", "future": 2}],
            "futureSpec": True,
        },
        future=None,
    )
    found = codec.decode(Pod, data)
    found.spec.containers[0].image = "new"
    found.metadata.labels["l"] = "v"
    wanted = json.loads(data)
    wanted["spec"]["containers"][0]["image"] = "new"
    wanted["metadata"]["labels"] = {"l": "v"}
    assert json.loads(codec.encode_update(found)) == wanted


def test_an_update_of_an_unchanged_object_is_the_document_that_was_read() -> None:
    data = pod({"name": "a", "image": "i", "ports": None, "resources": {"requests": {"cpu": 1}}}, future=1)
    assert json.loads(codec.encode_update(codec.decode(Pod, data))) == json.loads(data)


def test_an_update_removes_deleted_fields() -> None:
    found = codec.decode(Pod, pod({"name": "a", "image": "i"}, nodeName="n", futureSpec=1))
    found.spec.node_name = None
    assert json.loads(codec.encode_update(found))["spec"] == {
        "containers": [{"name": "a", "image": "i"}],
        "futureSpec": 1,
    }


def test_unknown_fields_stay_with_the_item_they_belong_to_when_a_list_changes() -> None:
    found = codec.decode(Pod, pod({"name": "a", "future": "of a"}, {"name": "b", "future": "of b"}))
    first, second = found.spec.containers
    second.image = "new"
    found.spec.containers = [second, type(first)(name="c"), first]
    assert json.loads(codec.encode_update(found))["spec"]["containers"] == [
        {"name": "b", "future": "of b", "image": "new"},
        {"name": "c"},
        {"name": "a", "future": "of a"},
    ]


def test_items_without_a_name_are_matched_by_index_when_the_length_is_unchanged() -> None:
    data = doc(metadata={"name": "a"}, rules=[{"verbs": ["get"], "future": 1}, {"verbs": ["list"], "future": 2}])
    role = codec.decode(ClusterRole, data)
    role.rules[1].verbs.append("watch")
    assert json.loads(codec.encode_update(role))["rules"] == [
        {"verbs": ["get"], "future": 1},
        {"verbs": ["list", "watch"], "future": 2},
    ]


def test_an_object_that_was_not_decoded_is_sent_as_it_is() -> None:
    disk = Disk(metadata=ObjectMeta(name="a"), spec=DiskSpec(size="1"))
    assert codec.encode_update(disk) == codec.encode(disk)


def test_objects_are_equal_by_value_and_not_by_origin() -> None:
    made = Disk(metadata=ObjectMeta(name="a"), spec=DiskSpec(size="1"))
    assert codec.decode(Disk, doc(metadata={"name": "a"}, spec={"size": "1"}, future=1)) == made


def test_missing_metadata_spec_and_status_are_created() -> None:
    found = codec.decode(Pod, doc(apiVersion="v1", kind="Pod"))
    assert (found.metadata.name, found.spec.containers, found.status.phase) == ("", [], None)


def test_a_deployment_without_a_template_is_rejected() -> None:
    with pytest.raises(DecodeError, match=r"Deployment \"a\": spec: object missing required field template"):
        codec.decode(Deployment, doc(metadata={"name": "a"}, spec={"selector": {}}))


class SwitchSpec(Model):
    on: bool | UnsetType | None = UNSET
    lamp: DiskSpec = field(default_factory=lambda: DiskSpec(size="1"))


class Switch(CustomResource, group="example.com", version="v1"):
    spec: SwitchSpec


@pytest.mark.parametrize(("sent", "value", "updated"), [({}, None, {"on": None}), ({"on": True}, UNSET, {})])
def test_an_update_sets_and_unsets_a_field_that_may_be_unset(
    sent: dict[str, Any], value: UnsetType | None, updated: dict[str, Any]
) -> None:
    found = codec.decode(Switch, doc(apiVersion="example.com/v1", kind="Switch", metadata={}, spec=sent))
    found.spec.on = value
    assert json.loads(codec.encode_update(found))["spec"] == updated


def test_an_update_of_a_structure_that_was_absent_has_what_it_requires_and_its_changes() -> None:
    found = codec.decode(Switch, doc(apiVersion="example.com/v1", kind="Switch", metadata={}, spec={}))
    found.spec.lamp.note = "new"
    assert json.loads(codec.encode_update(found))["spec"] == {"lamp": {"size": "1", "note": "new"}}

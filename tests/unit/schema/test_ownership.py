"""Field ownership after writes and applies."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright.machinery.errors import BadRequest, Conflict
from kubewright_controlplane.schema.ownership.fieldset import FieldSet
from kubewright_controlplane.schema.ownership.managedfields import applied_fields, apply, update
from kubewright_controlplane.schema.structural.schema import Schema

EARLIER = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def thing_with(spec: Any, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a", **metadata}, "spec": spec}


class Server:
    """One object of the kind `Thing`, which several managers write."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.live: dict[str, Any] | None = None

    def write(self, obj: dict[str, Any], manager: str, *, now: datetime = EARLIER, **more: Any) -> dict[str, Any]:
        new = json.loads(json.dumps(obj))
        update(self.live, new, manager=manager, api_version="v1", now=now, schema=self.schema, **more)
        self.live = new
        return new

    def apply(self, config: dict[str, Any], manager: str, *, now: datetime = NOW, **more: Any) -> dict[str, Any]:
        about: Any = {
            "fields": applied_fields(config, self.schema),
            "api_version": "v1",
            "now": now,
            "schema": self.schema,
        }
        self.live = apply(self.live, config, manager=manager, **about, **more)
        return self.live

    def owned_by(self, manager: str, operation: str = "Apply") -> list[str]:
        assert self.live is not None
        return sorted(
            path
            for entry in self.live["metadata"].get("managedFields", ())
            if (entry["manager"], entry["operation"]) == (manager, operation)
            for path in FieldSet.from_fields_v1(entry["fieldsV1"])
        )


@pytest.fixture
def server(thing: Schema) -> Server:
    return Server(thing)


def test_a_create_owns_all_its_fields(server: Server) -> None:
    created = server.write(thing_with({"replicas": 1, "containers": [{"name": "c"}]}, labels={"a": "b"}), "curl")
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "curl",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {
                    "f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}}},
                    "f:replicas": {},
                },
            },
        }
    ]


def test_changing_a_field_takes_over_its_ownership(server: Server) -> None:
    server.write(thing_with({"replicas": 1, "paused": True}), "one")
    server.write(thing_with({"replicas": 2, "paused": True}), "two")
    assert server.owned_by("one", "Update") == [".spec.paused"]
    assert server.owned_by("two", "Update") == [".spec.replicas"]


def test_a_removed_field_has_no_owner(server: Server) -> None:
    server.write(thing_with({"replicas": 1}), "one")
    server.write(thing_with({"paused": True}), "two")
    assert ".spec.replicas" not in server.owned_by("one", "Update")
    assert server.owned_by("two", "Update") == [".spec.paused"]


def test_a_write_that_changes_nothing_keeps_every_time(server: Server) -> None:
    before = server.write(thing_with({"replicas": 1}), "one")
    after = server.write(thing_with({"replicas": 1}), "two", now=NOW)
    assert after == before


def test_the_same_manager_adds_to_its_entry(server: Server) -> None:
    server.write(thing_with({"replicas": 1}), "one")
    server.write(thing_with({"replicas": 1, "paused": True}), "one", now=NOW)
    assert server.live is not None
    (entry,) = server.live["metadata"]["managedFields"]
    assert entry["time"] == "2026-01-02T00:00:00Z"
    assert server.owned_by("one", "Update") == [".spec.paused", ".spec.replicas"]


def test_a_subresource_has_its_own_entry(server: Server) -> None:
    server.write(thing_with({"replicas": 1}), "one")
    assert server.live is not None
    with_status = {**server.live, "status": {"replicas": 1}}
    server.write(with_status, "one", subresource="status", ignored=FieldSet.of_paths("spec", "metadata"))
    entries = server.live["metadata"]["managedFields"]
    assert [(entry.get("subresource"), sorted(entry["fieldsV1"])) for entry in entries] == [
        (None, ["f:spec"]),
        ("status", ["f:status"]),
    ]


def test_a_write_through_a_subresource_does_not_set_managed_fields(server: Server) -> None:
    created = server.write(thing_with({"replicas": 1}), "one")
    (entry,) = created["metadata"]["managedFields"]
    through_status: Any = {"subresource": "status", "ignored": FieldSet.of_paths("spec", "metadata")}
    for sent in ([], [{}], [{**entry, "manager": "forged"}]):
        obj = thing_with({"replicas": 1}, managedFields=sent)
        written = server.write({**obj, "status": {"replicas": 1}}, "two", **through_status)
        assert [each["manager"] for each in written["metadata"]["managedFields"]] == ["one", "two"]


def test_fields_that_a_write_cannot_change_are_not_owned(server: Server) -> None:
    server.write({**thing_with({"replicas": 1}), "status": {"replicas": 1}}, "one", ignored=FieldSet.of_paths("status"))
    assert not any(path.startswith(".status") for path in server.owned_by("one", "Update"))


def test_an_empty_list_removes_all_managed_fields(server: Server) -> None:
    server.write(thing_with({"replicas": 1}), "one")
    forgotten = server.write(thing_with({"replicas": 1}, managedFields=[]), "two")
    assert "managedFields" not in forgotten["metadata"]


def test_at_most_ten_updaters_have_their_own_entry(server: Server) -> None:
    for index in range(12):
        labels = {f"l{each}": "x" for each in range(index + 1)}
        server.write(thing_with({}, labels=labels), f"m{index:02}", now=EARLIER.replace(hour=index))
    assert server.live is not None
    managers = [entry["manager"] for entry in server.live["metadata"]["managedFields"]]
    assert len(managers) == 10
    assert "ancient-changes" in managers
    assert "m11" in managers


def test_applying_a_missing_object_creates_it(server: Server) -> None:
    created = server.apply(thing_with({"replicas": 1, "containers": [{"name": "c", "image": "i"}]}), "kubectl")
    assert created["spec"] == {"replicas": 1, "containers": [{"name": "c", "image": "i"}]}
    (entry,) = created["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("kubectl", "Apply")
    assert entry["fieldsV1"] == {
        "f:spec": {
            "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}}},
            "f:replicas": {},
        },
    }


def test_changing_a_field_of_another_manager_is_a_conflict(server: Server) -> None:
    server.write(thing_with({"replicas": 1}), "curl")
    with pytest.raises(Conflict) as refused:
        server.apply(thing_with({"replicas": 2}), "me")
    assert str(refused.value) == 'Apply failed with 1 conflict: conflict with "curl" using v1: .spec.replicas'
    (cause,) = refused.value.causes
    assert (cause.reason, cause.message, cause.field) == (
        "FieldManagerConflict",
        'conflict with "curl" using v1',
        ".spec.replicas",
    )


def test_many_conflicts_are_counted_and_the_first_are_listed(server: Server) -> None:
    server.apply(thing_with({}, labels={str(each): "1" for each in range(5000)}), "one")
    with pytest.raises(Conflict) as refused:
        server.apply(thing_with({}, labels={str(each): "2" for each in range(5000)}), "me")
    first, *listed, last = str(refused.value).split("\n")
    assert first == 'Apply failed with 5000 conflicts: conflicts with "one":'
    assert listed[0] == "- .metadata.labels.0"
    assert last == "and 4000 more"
    assert len(listed) == len(refused.value.causes) == 1000


def test_conflicts_are_listed_by_manager(server: Server) -> None:
    server.apply(thing_with({"containers": [{"name": "c", "image": "1", "command": ["x"]}]}), "one")
    server.write({**(server.live or {}), "metadata": {"name": "a", "labels": {"l": "1"}}}, "two", subresource="sub")
    config = thing_with({"containers": [{"name": "c", "image": "2", "command": ["y"]}]}, labels={"l": "2"})
    with pytest.raises(Conflict) as refused:
        server.apply(config, "me")
    assert str(refused.value) == "\n".join(
        [
            'Apply failed with 3 conflicts: conflicts with "one":',
            '- .spec.containers[name="c"].command',
            '- .spec.containers[name="c"].image',
            'conflicts with "two" with subresource "sub" using v1:',
            "- .metadata.labels.l",
        ]
    )


def test_force_takes_over_the_field(server: Server) -> None:
    server.write(thing_with({"replicas": 1, "paused": True}), "curl")
    after = server.apply(thing_with({"replicas": 2}), "me", force=True)
    assert after["spec"] == {"replicas": 2, "paused": True}
    assert server.owned_by("me") == [".spec.replicas"]
    assert ".spec.replicas" not in server.owned_by("curl", "Update")


def test_the_same_value_is_owned_by_both(server: Server) -> None:
    server.apply(thing_with({"replicas": 1}), "one")
    server.apply(thing_with({"replicas": 1}), "two")
    assert server.owned_by("one") == server.owned_by("two") == [".spec.replicas"]
    server.apply(thing_with({}), "one")
    assert server.live is not None
    assert server.live["spec"] == {"replicas": 1}
    server.apply(thing_with({}), "two")
    assert server.live["spec"] == {}


def test_a_field_no_longer_applied_is_removed(server: Server) -> None:
    server.apply(thing_with({"replicas": 1, "containers": [{"name": "a"}, {"name": "b"}]}, labels={"x": "1"}), "me")
    after = server.apply(thing_with({"containers": [{"name": "b"}]}), "me")
    assert after["spec"] == {"containers": [{"name": "b"}]}
    assert "labels" not in after["metadata"]


def test_an_apply_that_only_removes_a_field_updates_the_time(server: Server) -> None:
    server.apply(thing_with({"replicas": 1, "paused": True}), "me", now=EARLIER)
    after = server.apply(thing_with({"replicas": 1}), "me", now=NOW)
    (entry,) = after["metadata"]["managedFields"]
    assert entry["time"] == "2026-01-02T00:00:00Z"


def test_a_map_that_becomes_empty_is_removed(server: Server) -> None:
    server.write(thing_with({}, labels={"x": "1"}), "other")
    server.apply(thing_with({}, labels={"x": "2"}), "me", force=True)
    after = server.apply(thing_with({}), "me")
    assert "labels" not in after["metadata"]
    assert server.owned_by("other", "Update") == [".metadata.labels"]


def test_an_item_no_longer_applied_is_removed_with_its_defaults(server: Server, thing: Schema) -> None:
    applied = server.apply(thing_with({"containers": [{"name": "a", "ports": [{"containerPort": 1}]}]}), "me")
    thing.default(applied)
    after = server.apply(thing_with({"containers": [{"name": "b"}]}), "me")
    assert [each["name"] for each in after["spec"]["containers"]] == ["b"]


def test_defaults_in_applied_items_are_kept(server: Server, thing: Schema) -> None:
    applied = server.apply(
        thing_with({"containers": [{"name": "a", "ports": [{"containerPort": 1}]}], "paused": True}), "me"
    )
    thing.default(applied)
    after = server.apply(thing_with({"containers": [{"name": "a", "ports": [{"containerPort": 1}]}]}), "me")
    assert after["spec"] == {
        "containers": [{"name": "a", "ports": [{"containerPort": 1, "protocol": "TCP"}]}],
        "replicas": 1,
    }


def test_an_item_with_a_field_of_another_manager_is_kept(server: Server) -> None:
    server.apply(thing_with({"containers": [{"name": "a", "image": "i"}]}), "one")
    server.apply(thing_with({"containers": [{"name": "a", "command": ["x"]}]}), "two")
    after = server.apply(thing_with({}), "one")
    assert after["spec"]["containers"] == [{"name": "a", "command": ["x"]}]


def test_applying_the_same_again_changes_nothing(server: Server) -> None:
    config = thing_with({"replicas": 1, "containers": [{"name": "a", "image": "i"}], "nodeSelector": {"a": "b"}})
    before = server.apply(config, "me", now=EARLIER)
    assert server.apply(config, "me", now=NOW) == before


def test_atomic_values_are_replaced_as_a_whole(server: Server) -> None:
    server.apply(thing_with({"nodeSelector": {"a": "1", "b": "2"}}), "me")
    after = server.apply(thing_with({"nodeSelector": {"b": "2"}}), "me")
    assert after["spec"]["nodeSelector"] == {"b": "2"}
    assert server.owned_by("me") == [".spec.nodeSelector"]


def test_sets_are_owned_by_value(server: Server) -> None:
    server.write(thing_with({}, finalizers=["theirs"]), "other")
    server.apply(thing_with({}, finalizers=["mine"]), "me")
    assert server.owned_by("me") == ['.metadata.finalizers[="mine"]', ".spec"]
    after = server.apply(thing_with({}), "me")
    assert after["metadata"]["finalizers"] == ["theirs"]


def test_new_items_keep_the_applied_order(server: Server) -> None:
    server.write(thing_with({"containers": [{"name": "x"}, {"name": "b"}]}), "other")
    after = server.apply(thing_with({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}), "me")
    assert [each["name"] for each in after["spec"]["containers"]] == ["x", "a", "b", "c"]


def test_an_object_without_owners_gets_a_before_first_apply_entry(server: Server) -> None:
    server.live = thing_with({"replicas": 1})
    with pytest.raises(Conflict, match=r'conflict with "before-first-apply" using v1: .spec.replicas'):
        server.apply(thing_with({"replicas": 2}), "me")


def test_kubectl_takes_over_from_client_side_apply(server: Server) -> None:
    applied = thing_with({"replicas": 1})
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(applied)}
    server.write(thing_with({"replicas": 1}, annotations=annotation), "kubectl-client-side-apply")
    with pytest.raises(Conflict):
        server.apply(thing_with({"replicas": 2}), "me")
    after = server.apply(thing_with({"replicas": 2}), "kubectl")
    assert after["spec"]["replicas"] == 2
    kept = json.loads(after["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    assert kept["spec"] == {"replicas": 2}


def test_a_configuration_cannot_have_managed_fields_or_another_version(server: Server) -> None:
    with pytest.raises(BadRequest, match=r"metadata.managedFields must be nil"):
        server.apply(thing_with({}, managedFields=[]), "me")
    with pytest.raises(BadRequest, match="Specified patch version: v2, expected: v1"):
        server.apply({**thing_with({}), "apiVersion": "v2"}, "me")


def test_fields_unknown_to_the_schema_are_merged_one_by_one() -> None:
    schema = Schema.from_crd({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    server = Server(schema)
    server.apply(thing_with({"a": {"b": 1, "list": [{"n": 1}]}}), "one")
    after = server.apply(thing_with({"a": {"c": 2}}), "two")
    assert after["spec"] == {"a": {"b": 1, "list": [{"n": 1}], "c": 2}}
    assert server.owned_by("one") == [".spec", ".spec.a", ".spec.a.b", ".spec.a.list"]


def test_applying_an_empty_list_removes_nothing(server: Server) -> None:
    server.write(thing_with({}, finalizers=["theirs"]), "other")
    after = server.apply(thing_with({}, finalizers=[]), "me")
    assert after["metadata"]["finalizers"] == ["theirs"]


def test_true_and_one_are_different() -> None:
    server = Server(Schema.from_crd({"type": "object", "x-kubernetes-preserve-unknown-fields": True}))
    server.apply(thing_with({"flag": True}), "one")
    with pytest.raises(Conflict):
        server.apply(thing_with({"flag": 1}), "two")


def test_apply_changes_neither_the_live_object_nor_the_configuration(server: Server) -> None:
    live = server.write(thing_with({"replicas": 1, "containers": [{"name": "a"}]}), "curl")
    config = thing_with({"containers": [{"name": "a", "image": "i"}]})
    before = json.dumps([live, config])
    server.apply(config, "me")
    assert json.dumps([live, config]) == before

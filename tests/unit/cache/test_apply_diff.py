"""Whether an apply would change anything, decided from the live object."""

import copy
from typing import Any

import pytest

from kubewright.cache._apply_diff import would_change

MANAGER = "webserver.my.domain"


def desired() -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "labels": {"app": "webserver"},
            "ownerReferences": [{"apiVersion": "my.domain/v1", "kind": "WebServer", "name": "web", "uid": "u1"}],
        },
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "webserver"}},
            "template": {
                "spec": {
                    "containers": [
                        {"name": "webserver", "image": "nginx:1.23.1", "ports": [{"containerPort": 80}]},
                        {"name": "sidecar", "image": "busybox", "args": ["sleep", "3600"]},
                    ],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                }
            },
        },
    }


def live() -> dict[str, Any]:
    """Return the stored object, with the server's defaults and a status of other writers."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "d1",
            "resourceVersion": "7",
            "labels": {"app": "webserver", "team": "a"},
            "annotations": {"deployment.kubernetes.io/revision": "1"},
            "ownerReferences": [{"apiVersion": "my.domain/v1", "kind": "WebServer", "name": "web", "uid": "u1"}],
            "finalizers": ["somebody/else"],
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {}, "subresource": "status"},
                {
                    "manager": MANAGER,
                    "operation": "Apply",
                    "apiVersion": "apps/v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:metadata": {
                            "f:labels": {"f:app": {}},
                            "f:ownerReferences": {'k:{"uid":"u1"}': {}},
                        },
                        "f:spec": {
                            "f:replicas": {},
                            "f:selector": {},
                            "f:template": {
                                "f:spec": {
                                    "f:containers": {
                                        'k:{"name":"webserver"}': {
                                            ".": {},
                                            "f:name": {},
                                            "f:image": {},
                                            "f:ports": {
                                                'k:{"containerPort":80,"protocol":"TCP"}': {
                                                    ".": {},
                                                    "f:containerPort": {},
                                                }
                                            },
                                        },
                                        'k:{"name":"sidecar"}': {
                                            ".": {},
                                            "f:name": {},
                                            "f:image": {},
                                            "f:args": {},
                                        },
                                    },
                                    "f:volumes": {'k:{"name":"tmp"}': {".": {}, "f:name": {}, "f:emptyDir": {}}},
                                }
                            },
                        },
                    },
                },
            ],
        },
        "spec": {
            "replicas": 3,
            "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "webserver"}},
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "webserver",
                            "image": "nginx:1.23.1",
                            "imagePullPolicy": "IfNotPresent",
                            "ports": [{"containerPort": 80, "protocol": "TCP"}],
                        },
                        {"name": "sidecar", "image": "busybox", "args": ["sleep", "3600"]},
                        {"name": "injected", "image": "proxy"},
                    ],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                    "restartPolicy": "Always",
                }
            },
        },
        "status": {"readyReplicas": 3},
    }


def ours(obj: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = obj["metadata"]["managedFields"][1]["fieldsV1"]
    return fields


def test_an_object_that_has_the_applied_values_under_our_ownership_would_not_change() -> None:
    assert not would_change(desired(), live(), MANAGER)


def test_the_comparison_does_not_modify_its_arguments() -> None:
    wanted, found = desired(), live()
    would_change(wanted, found, MANAGER)
    assert wanted == desired()
    assert found == live()


def test_another_value_would_change() -> None:
    found = live()
    found["spec"]["replicas"] = 4
    assert would_change(desired(), found, MANAGER)


def test_a_value_inside_the_item_of_a_list_would_change() -> None:
    found = live()
    found["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:1.23.0"
    assert would_change(desired(), found, MANAGER)


def test_a_field_that_is_missing_would_change() -> None:
    found = live()
    del found["metadata"]["labels"]["app"]
    assert would_change(desired(), found, MANAGER)


def test_an_equal_value_of_another_manager_would_become_ours() -> None:
    found = live()
    del ours(found)["f:spec"]["f:replicas"]
    assert would_change(desired(), found, MANAGER)


def test_a_field_that_is_no_longer_applied_would_be_removed() -> None:
    wanted = desired()
    del wanted["spec"]["replicas"]
    assert would_change(wanted, live(), MANAGER)


def test_a_label_that_is_no_longer_applied_would_be_removed() -> None:
    found = live()
    ours(found)["f:metadata"]["f:labels"]["f:team"] = {}
    assert would_change(desired(), found, MANAGER)


def test_an_item_that_is_no_longer_applied_would_be_removed() -> None:
    wanted = desired()
    wanted["spec"]["template"]["spec"]["containers"].pop()
    assert would_change(wanted, live(), MANAGER)


def test_a_new_item_would_be_added() -> None:
    wanted = desired()
    wanted["spec"]["template"]["spec"]["containers"].append({"name": "second", "image": "busybox"})
    assert would_change(wanted, live(), MANAGER)


def test_another_order_of_items_would_change() -> None:
    wanted = desired()
    wanted["spec"]["template"]["spec"]["containers"].reverse()
    assert would_change(wanted, live(), MANAGER)


def test_an_atomic_value_with_a_missing_part_would_change() -> None:
    found = live()
    found["spec"]["selector"]["matchLabels"]["extra"] = "x"
    assert would_change(desired(), found, MANAGER)


def test_an_atomic_list_is_compared_as_a_whole() -> None:
    found = live()
    found["spec"]["template"]["spec"]["containers"][1]["args"] = ["sleep", "3600", "now"]
    assert would_change(desired(), found, MANAGER)


@pytest.mark.parametrize(
    "change",
    [
        {"manager": "someone-else"},
        {"operation": "Update"},
        {"subresource": "status"},
        {"apiVersion": "apps/v1beta1"},
    ],
)
def test_fields_of_other_managers_or_operations_would_become_ours(change: dict[str, str]) -> None:
    found = live()
    found["metadata"]["managedFields"][1].update(change)
    assert would_change(desired(), found, MANAGER)


def test_an_object_without_managed_fields_would_change() -> None:
    found = live()
    del found["metadata"]["managedFields"]
    assert would_change(desired(), found, MANAGER)


def test_items_of_a_set_are_found_by_value() -> None:
    wanted = {"apiVersion": "v1", "kind": "Foo", "metadata": {"name": "a", "finalizers": ["a/b", "c/d"]}}
    found = {
        "metadata": {
            "finalizers": ["a/b", "other/one", "c/d"],
            "managedFields": [
                {
                    "manager": MANAGER,
                    "operation": "Apply",
                    "apiVersion": "v1",
                    "fieldsV1": {"f:metadata": {"f:finalizers": {'v:"a/b"': {}, 'v:"c/d"': {}}}},
                }
            ],
        }
    }
    assert not would_change(wanted, found, MANAGER)
    fewer = copy.deepcopy(wanted)
    fewer["metadata"]["finalizers"].pop()  # type: ignore[index]
    assert would_change(fewer, found, MANAGER)


def test_keys_that_the_server_defaulted_may_be_owned_too() -> None:
    found = live()
    port = ours(found)["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"webserver"}']["f:ports"]
    port['k:{"containerPort":80,"protocol":"TCP"}']["f:protocol"] = {}
    assert not would_change(desired(), found, MANAGER)

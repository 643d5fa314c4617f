"""Changes of CRDs that break users of a release."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.machinery.json import JSONObject
from kubewright_cli.manifests.crd_changes import breaking_changes

NAME = "ships.fleet.test"


def version(name: str, **fields: Any) -> JSONObject:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}}}
    return {"name": name, "served": True, "storage": True, "schema": schema, **fields}


def crd(*versions: JSONObject, scope: str = "Namespaced", plural: str = "ships", **names: Any) -> JSONObject:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.fleet.test"},
        "spec": {
            "group": "fleet.test",
            "scope": scope,
            "names": {"kind": "Ship", "plural": plural, **names},
            "versions": list(versions or [version("v1")]),
        },
    }


def found(released: JSONObject, *current: JSONObject) -> list[tuple[str, str, str]]:
    return [(each.version, each.path, each.change) for each in breaking_changes([released], current)]


V2 = version("v2", storage=False)
OLD = {"storage": False, "deprecated": True}

SCALE = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}


@pytest.mark.parametrize(
    ("released", "current", "expected"),
    [
        (crd(), crd(scope="Cluster"), ("", "scope", "changed from Namespaced to Cluster")),
        (crd(), crd(kind="Boat"), ("", "names.kind", "changed from Ship to Boat")),
        (crd(singular="ship"), crd(singular="boat"), ("", "names.singular", "changed from ship to boat")),
        (crd(shortNames=["sh", "s"]), crd(shortNames=["s"]), ("", "names.shortNames", "removed: sh")),
        (crd(categories=["all"]), crd(), ("", "names.categories", "removed: all")),
        (
            crd(),
            crd(plural="boats"),
            ("", "", "group or plural changed: kind Ship is now boats.fleet.test"),
        ),
        (crd(version("v1"), V2), crd(version("v1")), ("v2", "", "served version removed")),
        (crd(), crd(version("v1", served=False)), ("v1", "", "version is no longer served")),
        (crd(), crd(version("v2")), ("v1", "", "storage version removed")),
        (
            crd(version("v1", subresources={"status": {}})),
            crd(),
            ("v1", "", "subresource status removed"),
        ),
        (
            crd(),
            crd(version("v1", subresources={"status": {}})),
            ("v1", "", "subresource status added"),
        ),
        (crd(version("v1", subresources=SCALE)), crd(), ("v1", "", "subresource scale removed")),
        (
            crd(version("v1", selectableFields=[{"jsonPath": ".spec.size"}])),
            crd(),
            ("v1", "spec.size", "selectable field removed"),
        ),
    ],
    ids=lambda value: value[2] if isinstance(value, tuple) else "",
)
def test_a_change_that_breaks_users_is_reported(
    released: JSONObject, current: JSONObject, expected: tuple[str, str, str]
) -> None:
    changes = [each for each in found(released, current) if each[1] != "names.listKind"]
    assert (expected in changes, [each for each in changes if each != expected and each[1] != "names.singular"]) == (
        True,
        [],
    )


@pytest.mark.parametrize(
    ("released", "current"),
    [
        (crd(), crd(listKind="ShipList", singular="ship", shortNames=["sh"])),
        (crd(), crd(version("v1"), V2)),
        (crd(), crd(version("v1", storage=False, deprecated=True), version("v2"))),
        (crd(version("v1", **OLD), version("v2")), crd(version("v2"))),
        (crd(version("v1", served=False, storage=False), version("v2")), crd(version("v2"))),
        (crd(), crd(version("v1", subresources=SCALE, selectableFields=[{"jsonPath": ".spec.size"}]))),
    ],
)
def test_a_compatible_change_is_not_reported(released: JSONObject, current: JSONObject) -> None:
    assert found(released, current) == []


def test_a_removed_kind_is_reported_and_a_new_one_is_not() -> None:
    assert found(crd()) == [("", "", "kind Ship removed")]
    assert breaking_changes([], [crd()]) == []


def test_the_schema_of_each_served_version_is_compared() -> None:
    empty = {"openAPIV3Schema": {"type": "object"}}
    released = crd(version("v1"), V2, version("v0", served=False, storage=False))
    current = crd(version("v1"), {**V2, "schema": empty}, version("v0", served=False, storage=False, schema=empty))
    (change,) = breaking_changes([released], [current])
    assert str(change) == (
        "ships.fleet.test v2 size: field removed; the API server drops its value from stored objects and from users' "
        "files. Way out: keep the field and say in its description that it is deprecated, or remove it in a new "
        "version with a Conversion"
    )

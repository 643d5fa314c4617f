"""Manifests of a program and its settings, beyond the golden projects."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

from kubewright import Context, CustomResource, LeaderElection, Manager, Model, apis, controller, field
from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright.models import Object
from kubewright_cli.manifests import Settings, kustomize, render
from kubewright_cli.manifests.scope import CLUSTER_SCOPED


class Ship(CustomResource, group="fleet.test", version="v1"): ...


class Port(CustomResource, group="fleet.test", version="v1", namespaced=False): ...


class OtherShip(CustomResource, group="navy.test", version="v1", kind="Ship"): ...


class Issued(Model):
    serial: str = ""


class Certificate(CustomResource, group="certificates.test", version="v1"):
    """A third-party kind."""

    status: Issued = field(default_factory=Issued)


class Issuer(CustomResource, group="certificates.test", version="v1"):
    """Another one."""

    status: Issued = field(default_factory=Issued)


@controller(Ship)
async def sail(ctx: Context[Ship]) -> None: ...


@controller(Port)
async def moor(ctx: Context[Port]) -> None: ...


def objects(manager: Manager, *kinds: type[CustomResource], **settings: Any) -> dict[str, list[JSONObject]]:
    """By kind."""
    found: dict[str, list[JSONObject]] = {}
    for each in render(manager, kinds, Settings(name="fleet", manager="fleet", **settings)).objects():
        found.setdefault(each["kind"], []).append(each)
    return found


def flags(found: dict[str, list[JSONObject]]) -> list[str]:
    args: list[str] = found["Deployment"][0]["spec"]["template"]["spec"]["containers"][0]["args"]
    return args


def resources(role: JSONObject) -> list[str]:
    return [name for rule in role["rules"] for name in rule.get("resources", [])]


def names(documents: list[JSONObject]) -> list[str]:
    return [each["metadata"]["name"] for each in documents]


def test_every_cluster_scoped_built_in_kind_is_known() -> None:
    found: set[tuple[str, str]] = set()
    for module in pkgutil.walk_packages(apis.__path__, "kubewright.apis."):
        for each in vars(importlib.import_module(module.name)).values():
            if isinstance(each, type) and issubclass(each, Object) and hasattr(each, "__api__"):
                found |= set() if each.__api__.namespaced else {(each.__api__.group, each.__api__.plural)}
    assert found == CLUSTER_SCOPED


def test_a_manager_restricted_to_its_namespace_has_a_role_and_a_flag_for_it() -> None:
    found = objects(Manager([sail]), Ship, watch_namespaces="own")
    assert {each["metadata"]["namespace"] for each in found["Role"]} == {"fleet-system"}
    assert "fleet-manager-role" not in names(found["ClusterRole"])
    assert "--namespace=$(POD_NAMESPACE)" in flags(found)


def test_namespaces_of_the_program_are_not_repeated_as_flags() -> None:
    found = objects(Manager([sail], namespaces=["red", "blue"]), Ship)
    managers = [each for each in found["Role"] if each["metadata"]["name"] == "fleet-manager-role"]
    assert [each["metadata"]["namespace"] for each in managers] == ["blue", "red"]
    assert [each["metadata"]["namespace"] for each in found["RoleBinding"]] == ["blue", "fleet-system", "red"]
    assert {each["subjects"][0]["namespace"] for each in found["RoleBinding"]} == {"fleet-system"}
    assert not any(each.startswith("--namespace") for each in flags(found))


def test_a_cluster_scoped_kind_and_its_events_are_granted_by_a_cluster_role() -> None:
    found = objects(Manager([sail, moor]), Ship, Port, watch_namespaces=("red",))
    [cluster] = [each for each in found["ClusterRole"] if each["metadata"]["name"] == "fleet-manager-role"]
    [within] = [each for each in found["Role"] if each["metadata"]["name"] == "fleet-manager-role"]
    assert resources(cluster) == ["events", "ports"]
    assert resources(within) == ["events", "ships"]


def test_an_owned_third_party_kind_brings_no_permission_on_its_status_and_no_roles_for_people() -> None:
    @controller(Ship, owns=[Certificate], cached=[Issuer])
    async def secure(ctx: Context[Ship]) -> None: ...

    found = objects(Manager([secure]), Ship)
    granted = [name for each in found["ClusterRole"] + found["Role"] for name in resources(each)]
    assert {"certificates", "issuers"} <= set(granted)
    assert not [name for name in granted if name.endswith("/status")]
    assert [each["spec"]["names"]["kind"] for each in found["CustomResourceDefinition"]] == ["Ship"]
    assert not [name for name in names(found["ClusterRole"]) if "certificate" in name or "issuer" in name]


def test_the_election_role_is_in_the_namespace_of_the_lease() -> None:
    found = objects(Manager([sail], leader_election=LeaderElection(namespace="leases")), Ship)
    [election] = [each for each in found["Role"] if "election" in each["metadata"]["name"]]
    assert election["metadata"]["namespace"] == "leases"


def test_without_election_the_manager_gets_a_flag_and_no_role() -> None:
    found = objects(Manager([sail], leader_election=LeaderElection()), Ship, leader_election=False)
    assert "--leader-elect=false" in flags(found)
    assert "Role" not in found


def test_without_metrics_there_are_no_metrics_objects() -> None:
    found = objects(Manager([sail]), Ship, metrics="off")
    assert "Service" not in found
    assert not [name for name in names(found["ClusterRole"]) if "metrics" in name]
    assert "--metrics-bind-address=0" in flags(found)


def test_a_pod_has_more_time_to_stop_than_its_reconciles() -> None:
    found = objects(Manager([sail]), Ship)
    assert found["Deployment"][0]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 40


def test_equally_named_kinds_of_two_groups_have_different_roles() -> None:
    found = objects(Manager([sail]), Ship, OtherShip)
    helpers = [name for name in names(found["ClusterRole"]) if name.endswith("viewer-role")]
    assert helpers == ["fleet-fleet-test-ship-viewer-role", "fleet-navy-test-ship-viewer-role"]


DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("controller", {"newName": "controller", "newTag": "latest"}),
        ("example.com:5000/fleet", {"newName": "example.com:5000/fleet", "newTag": "latest"}),
        ("example.com:5000/fleet:1.0", {"newName": "example.com:5000/fleet", "newTag": "1.0"}),
        (f"example.com/fleet@{DIGEST}", {"newName": "example.com/fleet", "digest": DIGEST}),
        (
            f"example.com/fleet:1.0@{DIGEST}",
            {"newName": "example.com/fleet", "newTag": "1.0", "digest": DIGEST},
        ),
    ],
)
def test_kustomization_names_the_image_as_kustomize_writes_it(image: str, expected: dict[str, str]) -> None:
    manifests = render(Manager([sail]), [Ship], Settings(name="fleet", manager="fleet", image=image))
    written = yaml.load(kustomize.files(manifests, [])["config/manager/kustomization.yaml"])
    assert written["images"] == [{"name": "controller", **expected}]


def test_a_program_without_kinds_has_no_crd_folder() -> None:
    files = kustomize.files(render(Manager(), [], Settings(name="fleet", manager="fleet")), [])
    assert not [path for path in files if path.startswith(("config/crd", "config/samples"))]
    assert "../crd" not in yaml.load(files["config/default/kustomization.yaml"])["resources"]

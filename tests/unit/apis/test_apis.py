"""The built-in kinds as typed classes."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

import kubewright.apis
from kubewright.apis.autoscaling.v1 import Scale
from kubewright.apis.core.v1 import Namespace, Pod, Service, ServicePort, ServiceSpec
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.machinery.errors import DecodeError
from kubewright.models import APIResource, Object, codec


def modules() -> Iterator[str]:
    for package in pkgutil.iter_modules(kubewright.apis.__path__, "kubewright.apis."):
        found = importlib.import_module(package.name)
        yield from (module.name for module in pkgutil.iter_modules(found.__path__, f"{package.name}."))


MODULES = sorted(modules())


def kinds(module: str) -> list[type[Object]]:
    values = vars(importlib.import_module(module)).values()
    return [each for each in values if isinstance(each, type) and issubclass(each, Object) and each is not Object]


def loaded_by(code: str) -> set[str]:
    """Return the modules of Kubewright that are loaded after running `code` in a new interpreter."""
    program = f"{code}\nimport sys\nprint(*(each for each in sys.modules if each.startswith('kubewright')))"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.split()
    )


@pytest.mark.parametrize("module", MODULES)
def test_every_kind_can_be_decoded(module: str) -> None:
    """A decoder is made from all annotations of a kind: one that does not resolve fails here."""
    for kind in kinds(module):
        with_nothing = json.dumps({"kind": kind.__api__.kind, "metadata": {"name": "a"}, "spec": None, "status": None})
        try:
            found = codec.decode(kind, with_nothing.encode())
        except DecodeError as fault:
            assert "missing required field" in str(fault)  # noqa: PT017 - a kind may need more than a name
        else:
            assert found.metadata.name == "a"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_holds_the_kinds_of_its_group_version(module: str) -> None:
    _, _, package, version = module.split(".")
    for kind in kinds(module):
        api = kind.__api__
        assert (api.group.split(".")[0] or "core", api.version, api.kind) == (package, version, kind.__name__)


def test_a_kind_has_its_api_resource() -> None:
    assert Service.__api__ == APIResource(
        "",
        "v1",
        "Service",
        "services",
        "service",
        short_names=("svc",),
        categories=("all",),
        subresources=("proxy", "status"),
    )
    assert not Namespace.__api__.namespaced
    assert Scale.__api__.plural == ""  # served as a subresource of other kinds only


def test_names_with_initials_are_as_the_api_spells_them() -> None:
    service = Service(
        metadata=ObjectMeta(name="a"),
        spec=ServiceSpec(
            cluster_ip="None",
            cluster_ips=["None"],
            external_ips=["10.0.0.1"],
            ports=[ServicePort(port=80, node_port=30000, target_port="http")],
        ),
    )
    assert codec.to_dict(service)["spec"] == {
        "clusterIP": "None",
        "clusterIPs": ["None"],
        "externalIPs": ["10.0.0.1"],
        "ports": [{"port": 80, "nodePort": 30000, "targetPort": "http"}],
    }


def test_a_pod_of_a_cluster_comes_back_as_it_was() -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "u",
            "resourceVersion": "12",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r"}],
            "managedFields": [
                {
                    "manager": "kubelet",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-01-02T03:04:05Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:status": {"f:phase": {}}},
                    "subresource": "status",
                }
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "web",
                    "image": "nginx:1.23.1",
                    "resources": {"requests": {"cpu": "100m"}},
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 10},
                    "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                }
            ],
            "volumes": [{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}],
            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        },
    }
    assert codec.to_dict(codec.decode(Pod, json.dumps(document).encode())) == document


def test_importing_a_kind_loads_its_group_version_only() -> None:
    loaded = loaded_by("from kubewright.apis.coordination.v1 import Lease")
    assert {each for each in loaded if each.startswith("kubewright.apis.")} == {
        "kubewright.apis.coordination",
        "kubewright.apis.coordination.v1",
    }


def test_importing_a_group_loads_none_of_its_versions() -> None:
    assert "kubewright.apis.core.v1" not in loaded_by("import kubewright.apis.core")


def test_importing_kubewright_loads_nothing_else() -> None:
    assert loaded_by("import kubewright") == {"kubewright"}


def test_using_the_sdk_does_not_load_the_api_server() -> None:
    code = "import kubewright\nfor each in kubewright.__all__: getattr(kubewright, each)"
    loaded = loaded_by(code)
    assert "kubewright.manager" in loaded
    assert not {
        each
        for each in loaded
        if each.startswith(("kubewright_controlplane.apiserver", "kubewright_controlplane.schema"))
    }


def test_the_decorator_can_be_imported_from_the_root_whatever_was_imported_before() -> None:
    for before in ("", "import kubewright.controllers\n", "from kubewright.manager import Manager\n"):
        loaded_by(
            f"{before}from kubewright import controller\nfrom kubewright.apis.core.v1 import Pod\n"
            "async def reconcile(ctx): ...\nassert controller(Pod)(reconcile).name == 'pod'"
        )

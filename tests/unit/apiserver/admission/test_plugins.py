"""Admission plugins, with the messages of kube-apiserver 1.36."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubewright.machinery.errors import ConfigError
from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.server import APIServer
from unit.apiserver.harness import ADMIN, API, CONFIG_MAPS, MERGE

CORE = "/api/v1/namespaces/default"
PODS = f"{CORE}/pods"
CLAIMS = f"{CORE}/persistentvolumeclaims"


def pod(name: str = "p", resources: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "nginx:1", "resources": resources or {}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def claim(name: str, **spec: Any) -> dict[str, Any]:
    base = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": {**base, **spec}}


async def test_creates_in_a_missing_namespace_are_rejected(api: API) -> None:
    body = {"metadata": {"name": "c"}}
    status = await api.rejected(404, "POST", "/api/v1/namespaces/nons/configmaps", body)
    assert status["message"] == 'namespaces "nons" not found'


async def test_creates_in_a_terminating_namespace_are_rejected(api: API) -> None:
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    await api.ok("DELETE", "/api/v1/namespaces/n")
    status = await api.rejected(403, "POST", "/api/v1/namespaces/n/configmaps", {"metadata": {"name": "c"}})
    assert status["message"] == (
        'configmaps "c" is forbidden: unable to create new content in namespace n because it is being terminated'
    )
    assert status["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace n is being terminated",
            "field": "metadata.namespace",
        }
    ]


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_system_namespaces_cannot_be_deleted(api: API, name: str) -> None:
    status = await api.rejected(403, "DELETE", f"/api/v1/namespaces/{name}")
    assert status["message"] == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


async def test_a_pod_requires_its_service_account(api: API) -> None:
    status = await api.rejected(403, "POST", PODS, pod(serviceAccountName="nope"))
    assert status["message"] == (
        'pods "p" is forbidden: error looking up service account default/nope: serviceaccount "nope" not found'
    )


async def test_a_token_is_mounted_unless_disabled(api: API) -> None:
    account = {"metadata": {"name": "quiet"}, "automountServiceAccountToken": False}
    await api.ok("POST", f"{CORE}/serviceaccounts", {**account, "imagePullSecrets": [{"name": "reg"}]})
    created = await api.ok("POST", PODS, pod("a", serviceAccountName="quiet"))
    assert "volumes" not in created["spec"]
    assert created["spec"]["imagePullSecrets"] == [{"name": "reg"}]
    wanted = await api.ok("POST", PODS, pod("b", serviceAccountName="quiet", automountServiceAccountToken=True))
    assert len(wanted["spec"]["volumes"]) == 1


async def test_a_plugin_can_be_disabled(clock: VirtualClock) -> None:
    options = ServerOptions(clock=clock, tokens={"admin": ADMIN}, disabled_admission=frozenset({"ServiceAccount"}))
    server = APIServer(options)
    await server.start()
    created = await API(server, clock).ok("POST", PODS, pod())
    assert "serviceAccountName" not in created["spec"]
    await server.close()


async def test_a_priority_comes_from_its_class(api: API) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.ok("POST", classes, {"metadata": {"name": "high"}, "value": 1000})
    assert (await api.ok("POST", PODS, pod("a", priorityClassName="high")))["spec"]["priority"] == 1000
    status = await api.rejected(403, "POST", PODS, pod("b", priorityClassName="none"))
    assert status["message"] == 'pods "b" is forbidden: no PriorityClass with name none was found'
    status = await api.rejected(403, "POST", PODS, pod("b", priority=7))
    assert "the integer value of priority (7) must not be provided in pod spec" in status["message"]
    await api.ok("POST", classes, {"metadata": {"name": "mine"}, "value": 5, "globalDefault": True})
    assert (await api.ok("POST", PODS, pod("c")))["spec"]["priorityClassName"] == "mine"


async def test_limit_range_defaults_are_set_and_limits_enforced(api: API) -> None:
    limit = {"type": "Container", "default": {"cpu": "1"}, "min": {"cpu": "100m"}, "max": {"cpu": "2"}}
    await api.ok("POST", f"{CORE}/limitranges", {"metadata": {"name": "lr"}, "spec": {"limits": [limit]}})
    created = await api.ok("POST", PODS, pod("a"))
    assert created["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    assert created["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    )
    status = await api.rejected(403, "POST", PODS, pod("b", {"limits": {"cpu": "3"}}))
    assert status["message"] == 'pods "b" is forbidden: maximum cpu usage per Container is 2, but limit is 3'
    status = await api.rejected(403, "POST", PODS, pod("b", {"requests": {"cpu": "50m"}}))
    assert "minimum cpu usage per Container is 100m, but request is 50m" in status["message"]


async def test_a_quota_counts_the_stored_objects(api: API) -> None:
    hard = {"pods": "1", "requests.cpu": "2", "configmaps": "1"}
    await api.ok("POST", f"{CORE}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    status = await api.rejected(403, "POST", PODS, pod("a"))
    assert status["message"] == 'pods "a" is forbidden: failed quota: q: must specify requests.cpu for: c'
    await api.ok("POST", PODS, pod("a", {"requests": {"cpu": "1"}}))
    status = await api.rejected(403, "POST", PODS, pod("b", {"requests": {"cpu": "500m"}}))
    assert status["message"] == (
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    used = (await api.ok("GET", f"{CORE}/resourcequotas/q"))["status"]["used"]
    assert (used["pods"], used["requests.cpu"]) == ("1", "1")
    await api.ok("DELETE", f"{PODS}/a")
    await api.ok("POST", PODS, pod("b", {"requests": {"cpu": "500m"}}))
    await api.config_map("one")
    await api.rejected(403, "POST", CONFIG_MAPS, {"metadata": {"name": "two"}})


async def test_the_usage_of_a_quota_follows_each_change(api: API) -> None:
    async def used() -> dict[str, str]:
        found: dict[str, str] = (await api.ok("GET", f"{CORE}/resourcequotas/q"))["status"]["used"]
        return found

    await api.config_map("a")
    hard = {"count/configmaps": "3", "requests.storage": "5Gi", "count/things.example.com": "1"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    await api.ok("POST", f"{CORE}/resourcequotas", quota)
    assert await used() == {"count/configmaps": "1", "requests.storage": "0", "count/things.example.com": "0"}
    await api.config_map("b")
    storage = {"requests": {"storage": "2Gi"}}
    for name in "ab":
        await api.ok("POST", CLAIMS, claim(name, resources=storage))
    await api.rejected(403, "POST", CLAIMS, claim("c", resources=storage))
    assert await used() == {"count/configmaps": "2", "requests.storage": "4Gi", "count/things.example.com": "0"}
    await api.ok("DELETE", f"{CORE}/configmaps/a")
    quota["spec"] = {"hard": {"configmaps": "1", "count/others.example.com": "1"}}
    await api.ok("PUT", f"{CORE}/resourcequotas/q", quota)
    assert await used() == {"configmaps": "1", "count/others.example.com": "0"}
    await api.rejected(403, "POST", f"{CORE}/configmaps", {"metadata": {"name": "c"}})
    await api.ok("DELETE", f"{CORE}/resourcequotas/q")
    await api.config_map("c")
    await api.ok("POST", f"{CORE}/resourcequotas", quota)
    assert await used() == {"configmaps": "2", "count/others.example.com": "0"}


async def test_a_quota_over_many_objects_counts_them_before_it_admits_more(api: API) -> None:
    for number in range(600):
        await api.config_map(f"c{number}")
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "600"}}}
    await api.ok("POST", f"{CORE}/resourcequotas", quota)
    status = await api.rejected(403, "POST", CONFIG_MAPS, {"metadata": {"name": "x"}})
    assert status["message"].endswith("status unknown for quota: q, resources: configmaps")
    await api.ok("DELETE", f"{CORE}/configmaps/c1")  # counted or not, it must not count later
    await api.ok("DELETE", f"{CORE}/configmaps/c599")
    await asyncio.sleep(1)
    assert (await api.ok("GET", f"{CORE}/resourcequotas/q"))["status"]["used"] == {"configmaps": "598"}
    await api.config_map("x")
    await api.config_map("y")
    status = await api.rejected(403, "POST", CONFIG_MAPS, {"metadata": {"name": "z"}})
    assert "used: configmaps=600, limited: configmaps=600" in status["message"]


async def test_others_are_served_while_many_quotas_are_written(api: API) -> None:
    for number in range(600):
        quota = {"metadata": {"name": f"q{number}"}, "spec": {"hard": {"configmaps": "100"}}}
        await api.ok("POST", f"{CORE}/resourcequotas", quota)
    await asyncio.sleep(1)

    async def used() -> object:
        return (await api.ok("GET", f"{CORE}/resourcequotas/q599"))["status"]["used"]["configmaps"]

    await api.config_map("a")
    for _ in range(10):
        assert await used() == "0"
        await asyncio.sleep(0)
    await asyncio.sleep(1)
    assert await used() == "1"


async def test_a_quota_or_limit_range_with_very_many_resources_is_refused(api: API) -> None:
    amounts = {f"example.com/r{number}": "1" for number in range(4097)}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {f"requests.{name}": "1" for name in amounts}}}
    status = await api.rejected(422, "POST", f"{CORE}/resourcequotas", quota)
    assert "spec.hard: Too many: 4097: must have at most 4096 items" in status["message"]
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Pod", "max": amounts}]}}
    status = await api.rejected(422, "POST", f"{CORE}/limitranges", limits)
    assert "spec.limits[0].max: Too many: 4097: must have at most 4096 items" in status["message"]


async def test_the_defaults_and_errors_of_limit_ranges_are_bounded(api: API) -> None:
    amounts = {f"example.com/r{number}": "1" for number in range(4000)}
    containers = [{"name": f"c{number}", "image": "i"} for number in range(10)]
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "default": amounts}]}}
    await api.ok("POST", f"{CORE}/limitranges", limits)
    status = await api.rejected(403, "POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers}})
    assert status["message"].endswith("the defaults of a LimitRange are more than 20000 values")
    limits["spec"] = {"limits": [{"type": "Pod", "max": amounts}]}
    await api.ok("PUT", f"{CORE}/limitranges/l", limits)
    status = await api.rejected(403, "POST", PODS, pod("p"))
    assert status["message"].count("No limit is specified") == 1000


async def test_a_claim_without_a_class_gets_the_default_one(api: API) -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage_class = {"metadata": {"name": "std", "annotations": annotations}, "provisioner": "x"}
    await api.ok("POST", "/apis/storage.k8s.io/v1/storageclasses", storage_class)
    assert (await api.ok("POST", CLAIMS, claim("a")))["spec"]["storageClassName"] == "std"
    assert (await api.ok("POST", CLAIMS, claim("b", storageClassName="")))["spec"]["storageClassName"] == ""


async def test_a_claim_grows_only_if_its_class_allows_it(api: API) -> None:
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    await api.ok("POST", classes, {"metadata": {"name": "fixed"}, "provisioner": "x"})
    await api.ok("POST", classes, {"metadata": {"name": "grows"}, "provisioner": "x", "allowVolumeExpansion": True})
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    for name, code in (("fixed", 403), ("grows", 200)):
        await api.ok("POST", CLAIMS, claim(name, storageClassName=name))
        assert (await api("PATCH", f"{CLAIMS}/{name}", larger, content_type=MERGE)).status == 422
        await api.ok("PATCH", f"{CLAIMS}/{name}/status", bound, content_type=MERGE)
        assert (await api("PATCH", f"{CLAIMS}/{name}", larger, content_type=MERGE)).status == code
    smaller = {"spec": {"resources": {"requests": {"storage": "500Mi"}}}}
    status = await api.rejected(422, "PATCH", f"{CLAIMS}/grows", smaller, content_type=MERGE)
    assert "field can not be less than status.capacity" in status["message"]


async def test_a_claim_in_use_is_kept_until_its_pod_is_gone(api: API) -> None:
    await api.ok("POST", CLAIMS, claim("data"))
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    await api.ok("POST", PODS, pod("user", volumes=[volume]))
    target = {"kind": "Node", "name": "n"}
    await api.ok("POST", f"{PODS}/user/binding", {"metadata": {"name": "user"}, "target": target})
    deleted = await api.ok("DELETE", f"{CLAIMS}/data")
    assert deleted["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    await api.ok("GET", f"{CLAIMS}/data")
    await api.ok("DELETE", f"{PODS}/user?gracePeriodSeconds=0")
    await api.rejected(404, "GET", f"{CLAIMS}/data")


async def test_an_attributes_class_in_use_is_kept_until_its_claim_is_gone(api: API) -> None:
    classes = "/apis/storage.k8s.io/v1/volumeattributesclasses"
    await api.ok(
        "POST", classes, {"metadata": {"name": "gold"}, "driverName": "x.example.com", "parameters": {"a": "b"}}
    )
    await api.ok("POST", CLAIMS, claim("data", volumeAttributesClassName="gold"))
    deleted = await api.ok("DELETE", f"{classes}/gold")
    assert deleted["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
    await api.ok("PATCH", f"{CLAIMS}/data", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    await api.ok("GET", f"{classes}/gold")
    await api.ok("DELETE", f"{CLAIMS}/data")
    await api.rejected(404, "GET", f"{classes}/gold")


def test_unknown_and_unsupported_plugins_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        ServerOptions(disabled_admission=frozenset({"Bogus"}), enabled_admission=frozenset({"EventRateLimit"}))
    message = str(caught.value)
    assert 'enabled_admission: "EventRateLimit" is not supported by the embedded API server' in message
    assert 'disabled_admission: there is no admission plugin "Bogus"' in message

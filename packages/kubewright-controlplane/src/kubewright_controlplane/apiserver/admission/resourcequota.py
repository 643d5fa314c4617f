"""ResourceQuota: limits the total usage of a namespace.

Usage is counted from the stored objects at each create, so it cannot drift. `status.used` follows each change.
Supported are object counts, the requests and limits of Pods, the requests of claims, also for a storage class, and all
scopes. Follows k8s.io/kubernetes pkg/quota and apiserver's plugin/resourcequota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.admission.limitranger import pod_total
from kubewright_controlplane.apiserver.admission.plugin import Plugin, rejection
from kubewright_controlplane.apiserver.kinds.core.pod import qos_class
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event

Usage = dict[str, Quantity]

_COUNTED: Final = (
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
)  # fmt: skip
_OF_CLASS: Final = "storageclass.storage.k8s.io"
_ONE: Final = Quantity.from_int(1)
_DURING: Final = "DuringSchedulingIgnoredDuringExecution"
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_SCOPES: Final[dict[str, Callable[[JSONObject], bool]]] = {
    "BestEffort": lambda pod: qos_class(pod["spec"]) == "BestEffort",
    "NotBestEffort": lambda pod: qos_class(pod["spec"]) != "BestEffort",
    "Terminating": lambda pod: pod["spec"].get("activeDeadlineSeconds") is not None,
    "NotTerminating": lambda pod: pod["spec"].get("activeDeadlineSeconds") is None,
    "CrossNamespacePodAffinity": lambda pod: _names_namespaces(pod["spec"].get("affinity") or {}),
}
"""The scopes that a Pod is in or not. The others are selected by a value."""


class ResourceQuota(Plugin):
    name = "ResourceQuota"

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources
        self._observed: set[str] = set()
        self._observe(_COUNTED)

    def validate(self, attributes: Attributes) -> None:
        if attributes.operation != "CREATE" or attributes.subresource or not attributes.namespace:
            return
        assert attributes.object is not None
        for quota in self._quotas(attributes.namespace):
            self._check(quota, attributes, attributes.object)

    def _check(self, quota: JSONObject, attributes: Attributes, obj: JSONObject) -> None:
        qualified = attributes.resource.qualified
        hard = {name: Quantity.of(value) for name, value in (quota["spec"].get("hard") or {}).items()}
        asked = {name: value for name, value in _usage(quota, qualified, obj).items() if name in hard}
        name = quota["metadata"]["name"]
        if qualified == "pods" and _in_scope(quota, qualified, obj):
            unsaid = sorted(each for each in hard if each not in asked and _is_compute(each))
            if unsaid:
                raise rejection(attributes, f"failed quota: {name}: must specify {','.join(unsaid)}")
        if not asked:
            return
        used = self._used(quota, hard)
        over = sorted(each for each, value in asked.items() if used[each] + value > hard[each])
        if over:

            def shown(amounts: Usage) -> str:
                return ",".join(f"{each}={amounts[each]}" for each in over)

            why = f"exceeded quota: {name}, requested: {shown(asked)}, used: {shown(used)}, limited: {shown(hard)}"
            raise rejection(attributes, why)

    def _used(self, quota: JSONObject, hard: Iterable[str]) -> Usage:
        used: Usage = {name: Quantity(0) for name in hard}
        namespace = quota["metadata"]["namespace"]
        for qualified in filter(self._is_served, _resources_of(used)):
            for obj in self._resources.registry(qualified).read_all(namespace):
                for name, value in _usage(quota, qualified, obj).items():
                    if name in used:
                        used[name] = used[name] + value
        return used

    def _is_served(self, qualified: str) -> bool:
        return any(resource.qualified == qualified for resource in self._resources)

    def _quotas(self, namespace: str) -> list[JSONObject]:
        registry = self._resources.registry("resourcequotas")
        return list(registry.read_all(namespace)) if registry.entries(namespace) else []

    def _observe(self, resources: Iterable[str]) -> None:
        """Update the status of quotas after changes of these resources from now on."""
        for resource in set(resources) - self._observed:
            self._observed.add(resource)
            self._resources.observe(resource, self._on_commit)

    def _on_commit(self, event: Event) -> None:
        """Update `status.used` after a change."""
        if event.resource == "resourcequotas":
            self._observe(_resources_of(self._resources.decode(event.entry.data)["spec"].get("hard") or {}))
        if self._resources.find("", "v1", "resourcequotas") is None:
            return
        registry = self._resources.registry("resourcequotas")
        for quota in self._quotas(event.entry.namespace):
            hard = quota["spec"].get("hard") or {}
            used = {name: str(value) for name, value in self._used(quota, hard).items()}
            status = {"hard": hard, "used": used}
            if quota.get("status") != status and not quota["metadata"].get("deletionTimestamp"):
                target = registry.open(quota["metadata"]["name"], quota["metadata"]["namespace"], "status")
                registry.replace(target, {**target.draft(), "status": status})


def _resources_of(hard: Iterable[str]) -> set[str]:
    """Return the resources whose objects count for these limits."""
    found: set[str] = set()
    for name in hard:
        counted = name.removeprefix("count/").partition(".")
        if name.startswith("count/"):
            found.add(name.removeprefix("count/"))
        elif counted[0] in _COUNTED:
            found.add(counted[0])
        else:
            of_claims = name.endswith(("requests.storage", f"{_OF_CLASS}/persistentvolumeclaims"))
            found.add("persistentvolumeclaims" if of_claims else "pods")
    return found


def _usage(quota: JSONObject, qualified: str, obj: JSONObject) -> Usage:
    """Return the usage of one object for a quota."""
    if not _in_scope(quota, qualified, obj):
        return {}
    usage: Usage = {f"count/{qualified}": _ONE, qualified: _ONE}
    if qualified == "pods":
        if (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return {}
        total = pod_total(obj)
        for field in ("requests", "limits"):
            usage |= {f"{field}.{name}": Quantity.of(value) for name, value in total[field].items()}
        usage |= {name: Quantity.of(value) for name, value in total["requests"].items() if name in _COMPUTE}
    elif qualified == "services":
        kind, ports = obj["spec"].get("type"), len(obj["spec"].get("ports") or ())
        if kind in ("NodePort", "LoadBalancer"):
            usage["services.nodeports"] = Quantity.from_int(ports)
        if kind == "LoadBalancer":
            usage["services.loadbalancers"] = _ONE
    elif qualified == "persistentvolumeclaims":
        usage |= _usage_of_claim(obj["spec"])
    return usage


def _usage_of_claim(spec: JSONObject) -> Usage:
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    usage: Usage = {} if storage is None else {"requests.storage": Quantity.of(storage)}
    if storage_class := spec.get("storageClassName"):
        of_class = {"persistentvolumeclaims": _ONE, **usage}
        usage |= {f"{storage_class}.{_OF_CLASS}/{name}": amount for name, amount in of_class.items()}
    return usage


def _in_scope(quota: JSONObject, qualified: str, obj: JSONObject) -> bool:
    """Return whether an object is in all scopes of a quota. Only Pods and claims can be in a scope."""
    spec: JSONObject = quota["spec"]
    requirements: list[JSONObject] = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    scopes = ({"scopeName": each, "operator": "Exists"} for each in spec.get("scopes") or ())
    return all(_matches(each, qualified, obj) for each in (*scopes, *requirements))


def _matches(requirement: JSONObject, qualified: str, obj: JSONObject) -> bool:
    scope: str = requirement["scopeName"]
    if qualified == "persistentvolumeclaims" and scope == "VolumeAttributesClass":
        return _selects(requirement, _attributes_classes(obj))
    if qualified != "pods":
        return False
    if scope == "PriorityClass":
        name = obj["spec"].get("priorityClassName")
        return _selects(requirement, {name} if name else set())
    return scope in _SCOPES and _SCOPES[scope](obj)


def _selects(requirement: JSONObject, names: set[str]) -> bool:
    values = set(requirement.get("values") or ())
    match requirement["operator"]:
        case "In":
            return bool(names & values)
        case "NotIn":
            return not names or bool(names - values)
        case "Exists":
            return bool(names)
        case _:
            return not names


def _attributes_classes(claim: JSONObject) -> set[str]:
    """Return the names of the VolumeAttributesClasses that a claim has, or will have."""
    status: JSONObject = claim.get("status") or {}
    found = (
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return {each for each in found if each}


def _names_namespaces(affinity: JSONObject) -> bool:
    """Return whether Pod affinity looks at other namespaces."""
    for kind in ("podAffinity", "podAntiAffinity"):
        rules: JSONObject = affinity.get(kind) or {}
        preferred = (each.get("podAffinityTerm") or {} for each in rules.get(f"preferred{_DURING}") or ())
        for term in (*(rules.get(f"required{_DURING}") or ()), *preferred):
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False


def _is_compute(name: str) -> bool:
    return name.removeprefix("requests.").removeprefix("limits.") in _COMPUTE

"""ResourceQuota: limits the total usage of a namespace.

An account for each quota follows the commits, so a create costs the same whatever the number of objects.
`status.used` is what the account says.
Supported are object counts, the requests and limits of Pods, the requests of claims, also for a storage class, and all
scopes. Follows k8s.io/kubernetes pkg/quota and apiserver's plugin/resourcequota.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.admission.limitranger import pod_total
from kubewright_controlplane.apiserver.admission.plugin import Plugin, is_resize, rejection
from kubewright_controlplane.apiserver.kinds.core.qos import qos_class
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.objects import decode_json
from kubewright_controlplane.apiserver.registry.options import WriteCall, WriteOptions
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Entry, Event

Usage = dict[str, Quantity]

_COUNTED: Final = (
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
)  # fmt: skip
_MEASURED: Final = frozenset({"persistentvolumeclaims", "pods", "services"})
"""The resources of whose objects more counts than their number."""
_OF_CLASS: Final = "storageclass.storage.k8s.io"
_ONE: Final = Quantity.from_int(1)
_DURING: Final = "DuringSchedulingIgnoredDuringExecution"
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_REQUIRED: Final = frozenset(f"{part}{name}" for part in ("", "requests.", "limits.") for name in ("cpu", "memory"))
"""What each container must state if a quota limits it."""
_SCOPES: Final[dict[str, Callable[[JSONObject], bool]]] = {
    "BestEffort": lambda pod: qos_class(pod["spec"]) == "BestEffort",
    "NotBestEffort": lambda pod: qos_class(pod["spec"]) != "BestEffort",
    "Terminating": lambda pod: pod["spec"].get("activeDeadlineSeconds") is not None,
    "NotTerminating": lambda pod: pod["spec"].get("activeDeadlineSeconds") is None,
    "CrossNamespacePodAffinity": lambda pod: _names_namespaces(pod["spec"].get("affinity") or {}),
}
"""The scopes that a Pod is in or not. The others are selected by a value."""


class _Account:
    """What the stored objects of a namespace use of one quota."""

    def __init__(self, quota: JSONObject) -> None:
        self.quota = quota
        self.name: str = quota["metadata"]["name"]
        self.spec: JSONObject = quota["spec"]
        self.hard: JSONObject = self.spec.get("hard") or {}
        self.resources = _resources_of(self.hard)
        self.used: Usage = {name: Quantity(0) for name in self.hard}
        self._parts: dict[tuple[str, str], Usage] = {}
        """The usage of each object, by resource and key."""

    def put(self, qualified: str, entry: Entry) -> None:
        """Count an object that was created or has changed."""
        obj: JSONObject = decode_json(entry.data) if qualified in _MEASURED else {}
        self.remove(qualified, entry)
        part = {name: value for name, value in _usage(self.quota, qualified, obj).items() if name in self.hard}
        if part:
            self._parts[qualified, entry.key] = part
            for name, value in part.items():
                self.used[name] = self.used[name] + value

    def remove(self, qualified: str, entry: Entry) -> None:
        """Count an object no longer, if it was counted."""
        for name, value in self._parts.pop((qualified, entry.key), {}).items():
            self.used[name] = self.used[name] - value

    def status(self) -> JSONObject:
        return {"hard": self.hard, "used": {name: str(value) for name, value in self.used.items()}}


class ResourceQuota(Plugin):
    name = "ResourceQuota"

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources
        self._accounts: dict[str, dict[str, _Account]] = {}
        """By the namespace and name of their quota."""
        self._observed: set[str] = set()
        self._observe()

    def validate(self, attributes: Attributes) -> None:
        is_create = attributes.operation == "CREATE" and not attributes.subresource
        if not (is_create or is_resize(attributes)) or not attributes.namespace:
            return
        assert attributes.object is not None
        for account in self._accounts_of(attributes.namespace):
            _check(account, attributes, attributes.object)

    def _accounts_of(self, namespace: str) -> list[_Account]:
        accounts = self._accounts.get(namespace)
        return [] if accounts is None else sorted(accounts.values(), key=lambda each: each.name)

    def _observe(self) -> None:
        """Observe the resources that count for a quota, and no others."""
        accounts = (each for accounts in self._accounts.values() for each in accounts.values())
        wanted = set(_COUNTED).union(*(each.resources for each in accounts))
        begun, ended = wanted - self._observed, self._observed - wanted
        self._observed = wanted
        for resource in sorted(begun):
            self._resources.observe(resource, self._on_commit)
        for resource in ended:
            self._resources.store.unobserve(resource, self._on_commit)

    def _on_commit(self, event: Event) -> None:
        """Update the accounts after a change, and `status.used`."""
        if event.resource == "resourcequotas":
            self._open_account(event)
        for account in self._accounts_of(event.entry.namespace):
            if event.resource in account.resources:
                if event.type == "DELETED":
                    account.remove(event.resource, event.entry)
                else:
                    account.put(event.resource, event.entry)
            self._write_status(account, event)

    def _open_account(self, event: Event) -> None:
        """Open or close the account of a quota that has changed."""
        namespace, name = event.entry.namespace, event.entry.name
        accounts = self._accounts.setdefault(namespace, {})
        if event.type == "DELETED":
            accounts.pop(name, None)
            if not accounts:
                del self._accounts[namespace]
            self._observe()
            return
        quota = decode_json(event.entry.data)
        if name in accounts and accounts[name].spec == quota["spec"]:
            accounts[name].quota = quota
            return
        account = _Account(quota)
        for resource in account.resources:
            for entry in self._resources.store.scan(resource, namespace=namespace):
                account.put(resource, entry)
        accounts[name] = account
        self._observe()

    def _write_status(self, account: _Account, event: Event) -> None:
        """Write the status if it has changed.

        On a real cluster, the API server counts new objects, and the controller manager everything else.
        """
        quota, status = account.quota, account.status()
        if quota.get("status") == status or quota["metadata"].get("deletionTimestamp"):
            return
        registry = self._resources.find("", "v1", "resourcequotas")
        name, namespace = account.name, quota["metadata"]["namespace"]
        if registry is not None and registry.has(name, namespace):
            target = registry.open(name, namespace, "status")
            is_new_object = event.type == "ADDED" and event.resource in account.resources
            manager = "kube-apiserver" if is_new_object else "kube-controller-manager"
            call = WriteCall(WriteOptions(field_manager=manager))
            registry.replace(target, {**target.draft(), "status": status}, call)


def _check(account: _Account, attributes: Attributes, obj: JSONObject) -> None:
    """Raise Forbidden if a new object exceeds a quota, or the growth of one that exists."""
    qualified, quota = attributes.resource.qualified, account.quota
    hard = {name: Quantity.of(value) for name, value in account.hard.items()}
    asked = {name: value for name, value in _usage(quota, qualified, obj).items() if name in hard}
    if attributes.old_object is not None:
        before = _usage(quota, qualified, attributes.old_object)
        grown = {name: value - before.get(name, Quantity(0)) for name, value in asked.items()}
        asked = {name: value for name, value in grown.items() if value > Quantity(0)}
    if qualified == "pods" and _in_scope(quota, qualified, obj):
        unsaid = _unsaid(hard, obj["spec"])
        if unsaid:
            raise rejection(attributes, f"failed quota: {account.name}: must specify {unsaid}")
    used = account.used
    over = sorted(each for each, value in asked.items() if used[each] + value > hard[each])
    if over:

        def shown(amounts: Usage) -> str:
            return ",".join(f"{each}={amounts[each]}" for each in over)

        limits = f"requested: {shown(asked)}, used: {shown(used)}, limited: {shown(hard)}"
        raise rejection(attributes, f"exceeded quota: {account.name}, {limits}")


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


def _unsaid(hard: Collection[str], spec: JSONObject) -> str:
    """Return which requests and limits of CPU and memory a quota requires of each container, but a Pod lacks."""
    if spec.get("resources"):
        return ""
    missing: dict[str, set[str]] = {}
    for container in (*spec.get("containers", ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        for name in _REQUIRED.intersection(hard):
            part, _, resource = name.rpartition(".")
            if resource not in (resources.get(part or "requests") or {}):
                missing.setdefault(name, set()).add(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(missing.items()))

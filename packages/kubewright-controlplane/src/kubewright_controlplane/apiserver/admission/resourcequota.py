"""ResourceQuota: limits the total usage of a namespace.

An account for each quota follows the commits, so a create costs the same whatever the number of objects.
`status.used` is what the account says. It is written with the commit; with many quotas, or many objects to count
for a new one, step by step. Until the objects are counted, creates are refused as on a real server.
Supported are object counts, the requests and limits of Pods, the requests of claims, also for a storage class, and all
scopes. Follows k8s.io/kubernetes pkg/quota and apiserver's plugin/resourcequota.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final

from kubewright._runtime.log import get_logger
from kubewright.machinery.errors import APIError
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

_log = get_logger(__name__)

Usage = dict[str, Quantity]

_COUNTED: Final = (
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
)  # fmt: skip
_MEASURED: Final = frozenset({"persistentvolumeclaims", "pods", "services"})
"""The resources of whose objects more counts than their number."""
_OF_CLASS: Final = "storageclass.storage.k8s.io"
_ONE: Final = Quantity.from_int(1)
_CONTROLLERS: Final = "kube-controller-manager"
_COUNTED_AT_ONCE: Final = 500
"""The number of objects that are counted before others are served."""
_WRITTEN_AT_ONCE: Final = 32
"""The number of statuses that are written before others are served."""
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
        self.hard: Usage = {name: Quantity.of(value) for name, value in (self.spec.get("hard") or {}).items()}
        self.resources = _resources_of(self.hard)
        self.used: Usage = dict.fromkeys(self.hard, Quantity(0))
        self.uncounted: list[tuple[str, str]] = []
        """Objects that are not counted yet, by resource and key."""
        self._shown = dict.fromkeys(self.hard, "0")
        """The texts of `used`."""
        self._parts: dict[tuple[str, str], Usage] = {}
        """The usage of each object, by resource and key."""

    def put(self, qualified: str, key: str, obj: JSONObject, usage: Usage) -> None:
        """Count an object that was created or has changed."""
        part = self.asked(qualified, obj, usage)
        before = self._parts.pop((qualified, key), {})
        if part:
            self._parts[qualified, key] = part
        if part != before:
            self._add(part, 1)
            self._add(before, -1)

    def remove(self, qualified: str, key: str) -> None:
        """Count an object no longer, if it was counted."""
        self._add(self._parts.pop((qualified, key), {}), -1)

    def asked(self, qualified: str, obj: JSONObject, usage: Usage) -> Usage:
        """Return the part of an object's usage that this quota limits."""
        if not _in_scope(self.spec, qualified, obj):
            return {}
        return {name: value for name, value in usage.items() if name in self.hard}

    def status(self) -> JSONObject:
        return {"hard": self.spec.get("hard") or {}, "used": dict(self._shown)}

    def _add(self, part: Usage, sign: int) -> None:
        for name, value in part.items():
            self.used[name] = self.used[name] + value if sign > 0 else self.used[name] - value
            self._shown[name] = str(self.used[name])


class ResourceQuota(Plugin):
    name = "ResourceQuota"

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources
        self._accounts: dict[str, dict[str, _Account]] = {}
        """By the namespace and name of their quota."""
        self._observed: Counter[str] = Counter()
        """How many accounts count each resource. Those that any quota may limit are observed from the beginning."""
        self._counting: dict[tuple[str, str], _Account] = {}
        """Accounts with objects that are not counted yet, by namespace and name."""
        self._unwritten: dict[tuple[str, str], str] = {}
        """Quotas whose status may have to be written, by namespace and name, and its field manager."""
        self._is_busy = False
        self._observe(_COUNTED)

    def validate(self, attributes: Attributes) -> None:
        is_create = attributes.operation == "CREATE" and not attributes.subresource
        if not (is_create or is_resize(attributes)) or not attributes.namespace:
            return
        assert attributes.object is not None
        accounts = self._accounts.get(attributes.namespace)
        if not accounts:
            return
        qualified = attributes.resource.qualified
        usage = _usage(qualified, attributes.object)
        before = {} if attributes.old_object is None else _usage(qualified, attributes.old_object)
        for _, account in sorted(accounts.items()):
            if qualified in account.resources:
                _check(account, attributes, usage, before)

    def _observe(self, resources: Iterable[str]) -> None:
        for resource in sorted(resources):
            self._observed[resource] += 1
            if self._observed[resource] == 1:
                self._resources.observe(resource, self._on_commit)

    def _unobserve(self, resources: Iterable[str]) -> None:
        for resource in resources:
            self._observed[resource] -= 1
            if not self._observed[resource]:
                self._resources.store.unobserve(resource, self._on_commit)

    def _on_commit(self, event: Event) -> None:
        """Update the accounts after a change, and `status.used`."""
        namespace, qualified = event.entry.namespace, event.resource
        if qualified == "resourcequotas":
            self._open_account(event)
        if event.type != "MODIFIED" or qualified in _MEASURED:
            self._count(event)
        if qualified == "resourcequotas" and event.entry.name in self._accounts.get(namespace, ()):
            self._unwritten.setdefault((namespace, event.entry.name), _CONTROLLERS)
        self._write_statuses()

    def _count(self, event: Event) -> None:
        """Update the accounts of a namespace."""
        namespace, qualified = event.entry.namespace, event.resource
        concerned = [each for each in self._accounts.get(namespace, {}).values() if qualified in each.resources]
        if not concerned:
            return
        # On a real cluster, the API server counts new objects, and the controller manager everything else.
        manager = "kube-apiserver" if event.type == "ADDED" else _CONTROLLERS
        obj = _measured(qualified, event.entry)
        usage = _usage(qualified, obj)
        for account in concerned:
            if event.type == "DELETED":
                account.remove(qualified, event.entry.key)
            else:
                account.put(qualified, event.entry.key, obj, usage)
            self._unwritten[namespace, account.name] = manager

    def _open_account(self, event: Event) -> None:
        """Open or close the account of a quota that has changed."""
        namespace, name = event.entry.namespace, event.entry.name
        accounts = self._accounts.setdefault(namespace, {})
        before = accounts.get(name)
        if event.type == "DELETED":
            self._close(namespace, name)
            return
        quota = decode_json(event.entry.data)
        if before is not None and before.spec == quota["spec"]:
            before.quota = quota
            return
        account = accounts[name] = _Account(quota)
        for resource in account.resources:
            entries = self._resources.store.scan(resource, namespace=namespace)
            account.uncounted += [(resource, entry.key) for entry in entries]
        self._counting[namespace, name] = account
        self._count_some()
        self._observe(account.resources)
        if before is not None:
            self._unobserve(before.resources)

    def _close(self, namespace: str, name: str) -> None:
        account = self._accounts[namespace].pop(name, None)
        if not self._accounts[namespace]:
            del self._accounts[namespace]
        self._counting.pop((namespace, name), None)
        self._unwritten.pop((namespace, name), None)
        if account is not None:
            self._unobserve(account.resources)

    def _count_some(self) -> None:
        """Count the objects of a new quota: so many that others are not kept waiting."""
        left = _COUNTED_AT_ONCE
        while left > 0 and self._counting:
            name, account = next(iter(self._counting.items()))
            left -= 1
            while left > 0 and account.uncounted:
                left -= 1
                qualified, key = account.uncounted.pop()
                entry = self._resources.store.get(qualified, key)
                if entry is not None:
                    obj = _measured(qualified, entry)
                    account.put(qualified, key, obj, _usage(qualified, obj))
            if not account.uncounted:
                del self._counting[name]
                self._unwritten.setdefault(name, _CONTROLLERS)

    def _write_statuses(self) -> None:
        """Write statuses that have changed: so many that others are not kept waiting. The others follow."""
        if self._is_busy:  # the commit of a status that is written here, or others are served first
            return
        self._is_busy = True
        try:
            for _ in range(min(_WRITTEN_AT_ONCE, len(self._unwritten))):
                name = next(iter(self._unwritten))
                self._write_status(*name, self._unwritten.pop(name))
        finally:
            self._is_busy = bool(self._unwritten or self._counting)
            if self._is_busy:
                asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        self._is_busy = False
        self._count_some()
        self._write_statuses()

    def _write_status(self, namespace: str, name: str, manager: str) -> None:
        account = self._accounts[namespace][name]
        quota, status = account.quota, account.status()
        is_known = not account.uncounted
        if not is_known or quota.get("status") == status or quota["metadata"].get("deletionTimestamp"):
            return
        registry = self._resources.find("", "v1", "resourcequotas")
        if registry is not None and registry.has(name, namespace):
            target = registry.open(name, namespace, "status")
            call = WriteCall(WriteOptions(field_manager=manager))
            try:
                registry.replace(target, {**target.draft(), "status": status}, call)
            except APIError as error:
                _log.warning("Quota status not written", quota=f"{namespace}/{name}", error=str(error))


def _check(account: _Account, attributes: Attributes, usage: Usage, before: Usage) -> None:
    """Raise Forbidden if a new object exceeds a quota, or the growth of one that exists."""
    qualified, obj = attributes.resource.qualified, attributes.object
    assert obj is not None
    asked = account.asked(qualified, obj, usage)
    if attributes.old_object is not None:
        known = account.asked(qualified, attributes.old_object, before)
        grown = {name: value - known.get(name, Quantity(0)) for name, value in asked.items()}
        asked = {name: value for name, value in grown.items() if value > Quantity(0)}
    if qualified == "pods" and _in_scope(account.spec, qualified, obj):
        unsaid = _unsaid(account.hard, obj["spec"])
        if unsaid:
            raise rejection(attributes, f"failed quota: {account.name}: must specify {unsaid}")
    if asked and account.uncounted:
        names = ",".join(sorted(asked))
        raise rejection(attributes, f"status unknown for quota: {account.name}, resources: {names}")
    used, hard = account.used, account.hard
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


def _measured(qualified: str, entry: Entry) -> JSONObject:
    """Return a stored object; an empty one if nothing counts but its number."""
    return decode_json(entry.data) if qualified in _MEASURED else {}


def _usage(qualified: str, obj: JSONObject) -> Usage:
    """Return the usage of one object, in all its names."""
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


def _in_scope(spec: JSONObject, qualified: str, obj: JSONObject) -> bool:
    """Return whether an object is in all scopes of a quota. Only Pods and claims can be in a scope."""
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

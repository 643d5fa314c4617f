"""The objects that steps use, and the removal of what steps leave behind."""

from __future__ import annotations

from typing import Any, Final

from hostile.invariants import Key, Listed, key_of, listed_resources
from hostile.kinds import NAMESPACE, TENANT, VAULT
from hostile.server import TENANT_USER
from hostile.target import SECRET, Broken, Target
from kubewright.machinery.json import JSONObject

_RBAC: Final = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{TENANT}"
_POD: Final = {"containers": [{"name": "a", "image": "a"}], "nodeName": "a"}
_TREASURE: Final = {"name": "treasure", "labels": {"a": SECRET}, "annotations": {"a": SECRET}}


def _objects() -> list[tuple[str, JSONObject]]:
    found: list[tuple[str, JSONObject]] = []
    for name in (NAMESPACE, TENANT, VAULT):
        found.append(("/api/v1/namespaces", {"metadata": {"name": name}}))
        found.append((f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}}))
    vault = f"/api/v1/namespaces/{VAULT}"
    found.append((f"{vault}/secrets", {"metadata": _TREASURE, "stringData": {"a": SECRET}}))
    found.append((f"{vault}/configmaps", {"metadata": _TREASURE, "data": {"a": SECRET}}))
    found.append((f"{vault}/pods", {"metadata": _TREASURE, "spec": _POD}))
    found.append((f"/api/v1/namespaces/{NAMESPACE}/pods", {"metadata": {"name": "running"}, "spec": _POD}))
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    found.append((f"{_RBAC}/roles", {"metadata": {"name": "all"}, "rules": rules}))
    subject = {"kind": "User", "name": TENANT_USER, "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "all", "apiGroup": "rbac.authorization.k8s.io"}
    found.append((f"{_RBAC}/rolebindings", {"metadata": {"name": "all"}, "subjects": [subject], "roleRef": role}))
    return found


class World:
    """The objects of a new server, and those that steps use."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._kept: set[tuple[str, Key]] = set()
        self._treasures: list[Any] = []

    async def create(self) -> None:
        """Create what steps use and is missing."""
        for path, document in _objects():
            await self._target.ask("POST", path, document, status=(201, 409))
        if not self._kept:
            for resource in await listed_resources(self._target):
                items = (await self._target.get(resource.path)).json["items"]
                self._kept |= {(resource.path, key_of(item)) for item in items}
            self._treasures = await self._read_treasures()

    async def check(self) -> None:
        """Raise Broken if the vault has changed, to which no step of an administrator writes."""
        found = await self._read_treasures()
        if found != self._treasures:
            raise Broken(f"the vault has changed: {found}")

    async def _read_treasures(self) -> list[Any]:
        vault = f"/api/v1/namespaces/{VAULT}"
        found: list[Any] = []
        for plural in ("secrets", "configmaps"):
            items = (await self._target.get(f"{vault}/{plural}")).json["items"]
            found.append([(item["metadata"]["name"], item["metadata"]["resourceVersion"]) for item in items])
        return found

    async def clean(self) -> None:
        """Delete all objects of steps. Raises Broken if one remains."""
        remaining: list[str] = []
        for _ in range(3):
            remaining = await self._delete_all()
            if not remaining:
                await self.create()
                return
        raise Broken(f"objects cannot be deleted: {remaining[:20]}")

    async def _delete_all(self) -> list[str]:
        remaining: list[str] = []
        for resource in sorted(await listed_resources(self._target), key=_order):
            answer = await self._target.ask("GET", resource.path)
            for item in answer.json["items"] if answer.status == 200 else ():
                if (resource.path, key_of(item)) not in self._kept and "delete" in resource.verbs:
                    remaining.append(resource.of(item))
                    await self._delete(resource, item)
        return remaining

    async def _delete(self, resource: Listed, item: JSONObject) -> None:
        path = resource.of(item)
        await self._target.ask("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")
        if resource.path.endswith("/namespaces"):
            await self._target.ask(
                "PUT",
                f"{path}/finalize",
                item | {"spec": {"finalizers": []}, "metadata": {"name": item["metadata"]["name"]}},
            )
        if item["metadata"].get("finalizers"):
            answer = await self._target.ask("GET", path)
            if answer.status == 200:
                changed = answer.json
                changed["metadata"].pop("finalizers", None)
                await self._target.ask("PUT", path, changed)


def _order(resource: Listed) -> tuple[int, str]:
    """Return a key to sort by: what concerns other writes comes first, and what contains other objects last."""
    if "admissionregistration" in resource.path:
        return 0, resource.path
    name = resource.path.rpartition("/")[2]
    return {"customresourcedefinitions": 2, "namespaces": 3}.get(name, 1), resource.path

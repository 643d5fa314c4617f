"""ClusterRoles that gather the rules of others: done here, as each ClusterRole is committed.

On a real cluster the controller manager does it (`clusterrole-aggregation-controller`); a server without controllers
would have `admin`, `edit` and `view` that allow nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.apiserver.storage.events import Event

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_RESOURCE: Final = "clusterroles.rbac.authorization.k8s.io"


class Aggregation:
    """Keeps the rules of ClusterRoles with an `aggregationRule` up to date."""

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources
        self._selectors: dict[str, list[Selector]] = {}
        resources.observe(_RESOURCE, self._follow)

    def _follow(self, event: Event) -> None:
        name = event.entry.name
        self._selectors.pop(name, None)
        if event.type != "DELETED":
            role = self._resources.decode(event.entry.data)
            given = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
            if given:
                self._selectors[name] = [Selector.from_dict(each) for each in given]
                self._gather(name)
        was = event.previous.labels if event.previous else {}
        for other, selectors in list(self._selectors.items()):
            chosen = any(each.matches(labels) for each in selectors for labels in (event.entry.labels, was))
            if other != name and chosen:
                self._gather(other)

    def _gather(self, name: str) -> None:
        registry = self._resources.find("rbac.authorization.k8s.io", "v1", "clusterroles")
        if registry is None:  # roles kept from an earlier run come before the kind is served, and are complete
            return
        role = registry.read(name)
        if role is None:
            return
        rules = self._rules(name)
        if rules != (role.get("rules") or []):
            registry.modify(name, lambda obj: obj.update(rules=rules))

    def _rules(self, name: str) -> list[JSONObject]:
        """The rules of all that the role's selectors choose, by name, each once."""
        found: list[JSONObject] = []
        entries = self._resources.registry(_RESOURCE).entries()
        for selector in self._selectors[name]:
            for entry in entries:
                if entry.name != name and selector.matches(entry.labels):
                    rules = self._resources.decode(entry.data).get("rules") or ()
                    found += [rule for rule in rules if rule not in found]
        return found

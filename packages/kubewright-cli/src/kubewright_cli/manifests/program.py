"""Facts about a deployment that come from the program: kinds, rules, and the time to stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubewright.cache._store import each_of
from kubewright.machinery.json import JSONObject
from kubewright.machinery.time import seconds
from kubewright.manager import LeaderElection, Manager
from kubewright.models import APIResource, CustomResource, PolicyRule, custom_resource_definitions
from kubewright.webhooks import Conversion, Webhook
from kubewright_cli.manifests.scope import CLUSTER_SCOPED

WEBHOOK_PORT: Final = 9443
"""The port of webhooks in kubebuilder's projects."""
_TO_SHUT_DOWN: Final = 10
"""Seconds after the graceful timeout for caches, servers and the Lease."""


@dataclass(frozen=True, slots=True)
class Program:
    """A Manager, and the kinds of its project."""

    manager: Manager
    crds: tuple[JSONObject, ...]
    """By name. All versions of a kind are one CRD."""
    kinds: tuple[APIResource, ...]
    """One version of each kind, by name."""
    classes: tuple[type[CustomResource], ...] = ()
    """The project's own kinds, in every version."""

    @classmethod
    def of(cls, manager: Manager, kinds: Iterable[type[CustomResource]]) -> Program:
        """Raises ModelError for classes that are not versions of one kind."""
        kinds = list(kinds)
        one_version = {(kind.__api__.group, kind.__api__.kind): kind.__api__ for kind in kinds}
        ordered = tuple(one_version[key] for key in sorted(one_version))
        return cls(manager, tuple(custom_resource_definitions(kinds)), ordered, tuple(kinds))

    def class_of(self, crd: JSONObject) -> type[CustomResource]:
        """Return the class that the program reads objects of a CRD by: its controller's, else that of the storage
        version.
        """
        spec = crd["spec"]
        versions = [
            each
            for each in self.classes
            if (each.__api__.group, each.__api__.kind) == (spec["group"], spec["names"]["kind"])
        ]
        controlled = {each.kind for each in self.manager.controllers}
        return next(
            (each for each in versions if each in controlled),
            next(each for each in versions if each.__served_as__.storage),
        )

    def conversion_of(self, cls: type[CustomResource]) -> Conversion[Any] | None:
        """Return the program's conversion between the versions of a kind, if it has one."""
        conversions = (each for each in self.manager.webhooks if isinstance(each, Conversion))
        return next((each for each in conversions if cls in each.kinds), None)

    def reads_stored_version(self, crd: JSONObject) -> bool:
        """Return whether the objects of a CRD reach the program as they are stored."""
        stored: str = next(each["name"] for each in crd["spec"]["versions"] if each["storage"])
        return self.class_of(crd).__api__.version == stored

    def has_controller(self, cls: type[CustomResource]) -> bool:
        """Return whether a controller of the program reconciles objects of this class."""
        return any(each.kind is cls for each in self.manager.controllers)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that the program names; none if it watches all."""
        return tuple(each for each in each_of(self.manager.options.namespaces) if each)

    @property
    def webhooks(self) -> tuple[Webhook, ...]:
        """The webhooks that the program serves; none if its Manager turns the server off."""
        return () if self.manager.options.webhook_port == -1 else self.manager.webhooks

    @property
    def webhook_port(self) -> int:
        """The port of the webhook server in a cluster."""
        return self.manager.options.webhook_port or WEBHOOK_PORT

    @property
    def lease_namespace(self) -> str:
        """The namespace of the Lease, if the program names one; empty for the manager's own."""
        election = self.manager.options.leader_election
        return election.namespace if election is not None else ""

    @property
    def lease_duration(self) -> float:
        """Seconds after which the Lease of a leader that does not renew it expires."""
        return seconds((self.manager.options.leader_election or LeaderElection()).lease_duration)

    @property
    def termination_grace_period(self) -> int:
        """Seconds until a stopping Pod is killed: more than the graceful timeout of its reconciles."""
        return ceil(self.manager.options.graceful_timeout) + _TO_SHUT_DOWN

    def rules(self) -> list[PolicyRule]:
        """Return the rules of the manager's role. Those for a certificate that the manager makes have a role of their
        own.
        """
        return replace(self.manager.options, webhook_certificate=None).rbac_rules()

    def rules_by_scope(self) -> tuple[list[PolicyRule], list[PolicyRule]]:
        """Return the manager's rules for namespaced resources, and those for cluster-scoped resources."""
        within: list[PolicyRule] = []
        cluster: list[PolicyRule] = []
        everywhere = CLUSTER_SCOPED | {(api.group, api.plural) for api in self._declared() if not api.namespaced}
        for rule in self.rules():
            for group in rule.api_groups or [""]:
                for resource in rule.resources:
                    is_cluster = (group, resource.partition("/")[0]) in everywhere
                    one = msgspec.structs.replace(rule, api_groups=[group], resources=[resource], non_resource_urls=[])
                    (cluster if is_cluster else within).append(one)
            if rule.non_resource_urls:
                cluster.append(PolicyRule(non_resource_urls=rule.non_resource_urls, verbs=rule.verbs))
        if any(not each.kind.__api__.namespaced for each in self.manager.controllers):
            cluster += [rule for rule in within if rule.resources == ["events"]]  # about cluster-scoped objects
        return within, cluster

    def _declared(self) -> Sequence[APIResource]:
        return [kind.__api__ for each in self.manager.controllers for kind in (*each.cached_kinds, *each.writes)]

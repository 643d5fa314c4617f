"""What the running program says of its deployment: kinds, rules, and how long it takes to stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import msgspec

from kubewright.cache._selection import each_of
from kubewright.machinery.json import JSONObject
from kubewright.manager import Manager
from kubewright.manager._leader import LeaderElection
from kubewright.models import APIResource, CustomResource, PolicyRule, custom_resource_definitions
from kubewright_cli.manifests.scope import CLUSTER_SCOPED

_TO_SHUT_DOWN: Final = 10
"""Seconds after the graceful timeout for caches, servers and the Lease."""


@dataclass(frozen=True, slots=True)
class Program:
    """A Manager, and the kinds that are its project's own."""

    manager: Manager
    crds: tuple[JSONObject, ...]
    """By name; a kind's versions are one."""
    kinds: tuple[APIResource, ...]
    """One version of each kind, by name."""

    @classmethod
    def of(cls, manager: Manager, kinds: Iterable[type[CustomResource]]) -> Program:
        """Raises ModelError for kinds whose versions do not go together."""
        kinds = list(kinds)
        one_version = {(kind.__api__.group, kind.__api__.kind): kind.__api__ for kind in kinds}
        ordered = tuple(one_version[key] for key in sorted(one_version))
        return cls(manager, tuple(custom_resource_definitions(kinds)), ordered)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Those that the program names itself; none when it works in all."""
        return tuple(each for each in each_of(self.manager.namespace) if each)

    @property
    def lease_namespace(self) -> str:
        """The namespace that the program names for its Lease; empty for its own."""
        election = self.manager.leader_election
        return election.namespace if isinstance(election, LeaderElection) else ""

    @property
    def termination_grace_period(self) -> int:
        """Seconds until a Pod that was asked to stop is killed: more than its reconciles may take to end."""
        return ceil(self.manager.graceful_timeout.total_seconds()) + _TO_SHUT_DOWN

    def rules_by_scope(self) -> tuple[list[PolicyRule], list[PolicyRule]]:
        """The manager's rules for what belongs to a namespace, and those for what belongs to none."""
        within: list[PolicyRule] = []
        cluster: list[PolicyRule] = []
        everywhere = CLUSTER_SCOPED | {(api.group, api.plural) for api in self._declared() if not api.namespaced}
        for rule in self.manager.rbac_rules():
            for group in rule.api_groups or [""]:
                for resource in rule.resources:
                    is_cluster = (group, resource.partition("/")[0]) in everywhere
                    one = msgspec.structs.replace(rule, api_groups=[group], resources=[resource], non_resource_urls=[])
                    (cluster if is_cluster else within).append(one)
            if rule.non_resource_urls:
                cluster.append(PolicyRule(non_resource_urls=rule.non_resource_urls, verbs=rule.verbs))
        if any(not each.kind.__api__.namespaced for each in self.manager.controllers):
            cluster += [rule for rule in within if rule.resources == ["events"]]  # of what is in no namespace
        return within, cluster

    def _declared(self) -> Sequence[APIResource]:
        return [kind.__api__ for each in self.manager.controllers for kind in (*each.cached_kinds, *each.writes)]

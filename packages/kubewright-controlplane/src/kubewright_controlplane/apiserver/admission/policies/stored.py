"""The stored policies of one kind with their bindings, and those that concern a write.

A policy is compiled once, after its commit. A write that no policy concerns costs one dictionary lookup.

Follows k8s.io/apiserver pkg/admission/plugin/policy/generic. A real API server notices a change of a policy about a
second later; this one at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from kubewright.cel.code import Meter
from kubewright.machinery.errors import APIError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.admission.matching import Candidates, Criteria, is_policy
from kubewright_controlplane.apiserver.admission.policies.params import collect_params, param_registry
from kubewright_controlplane.apiserver.admission.policies.policy import Binding, Policy, PolicyError
from kubewright_controlplane.apiserver.admission.versions import namespace_of
from kubewright_controlplane.apiserver.registry.model import Attributes, Resource
from kubewright_controlplane.apiserver.registry.registry import Registry
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event

P = TypeVar("P", bound=Policy)

_GROUP: Final = "admissionregistration.k8s.io"


@dataclass(frozen=True, slots=True)
class Invocation(Generic[P]):
    """A policy to evaluate for a write, as one of its bindings asks, with one parameter."""

    policy: P
    binding: Binding
    param: JSONObject | None
    resource: Resource
    """The resource of the write, in the version that the policy matches."""
    meter: Meter
    """Shared by all invocations of the policy for the write."""


@dataclass(frozen=True, slots=True)
class Misconfiguration(Generic[P]):
    """A policy that concerns a write, but cannot be evaluated."""

    policy: P
    binding: Binding | None
    """The binding at error; None if it is the policy."""
    error: str


@dataclass(frozen=True, slots=True)
class _Bound(Generic[P]):
    policy: P
    bindings: Candidates[Binding]


class StoredPolicies(Generic[P]):
    """The policies of one kind that have bindings."""

    def __init__(
        self, resources: ResourceSet, plural: str, compile: Callable[[JSONObject], P], time_limit: float
    ) -> None:
        """`plural` is that of the policies: `validatingadmissionpolicies`. `time_limit` is for one policy and write."""
        self._time_limit = time_limit
        self._resources = resources
        self._compile = compile
        self._policies: dict[str, P] = {}
        self._bindings: dict[str, Binding] = {}
        self._candidates = Candidates[_Bound[P]](resources, is_policy)
        resources.observe(f"{plural}.{_GROUP}", self._on_policy)
        resources.observe(f"{plural.removesuffix('ies')}ybindings.{_GROUP}", self._on_binding)

    def _on_policy(self, event: Event) -> None:
        self._policies.pop(event.entry.name, None)
        if event.type != "DELETED":
            policy = self._compile(self._resources.decode(event.entry.data))
            self._policies[policy.name] = policy
        self._bind()

    def _on_binding(self, event: Event) -> None:
        self._bindings.pop(event.entry.name, None)
        if event.type != "DELETED":
            binding = Binding(self._resources.decode(event.entry.data))
            self._bindings[binding.name] = binding
        self._bind()

    def _bind(self) -> None:
        found: dict[str, list[Binding]] = {}
        for _, binding in sorted(self._bindings.items()):
            found.setdefault(binding.policy, []).append(binding)
        bound: list[tuple[Criteria, _Bound[P]]] = []
        for name, bindings in sorted(found.items()):
            if policy := self._policies.get(name):
                candidates = Candidates[Binding](self._resources, is_policy)
                candidates.set((each.criteria, each) for each in bindings)
                bound.append((policy.criteria, _Bound(policy, candidates)))
        self._candidates.set(bound)

    def concern(self, attributes: Attributes) -> bool:
        """Return whether any policy may concern a write: False is certain, whatever the object."""
        return bool(self._candidates.of(attributes))

    def invocations(self, attributes: Attributes) -> Iterator[Invocation[P] | Misconfiguration[P]]:
        """Yield the policies that concern a write, for each binding and parameter, in the order of their names."""
        for candidate in self._candidates.of(attributes):
            policy = candidate.item.policy
            try:
                matched = candidate.match(attributes, self._resources)
                params = self._param_registry(policy) if matched is not None else None
            except (APIError, PolicyError) as error:
                yield Misconfiguration(policy, None, f"failed to configure policy: {error}")
                continue
            if matched is None:
                continue
            meter = Meter(self._time_limit)
            for bound in candidate.item.bindings.of(attributes):
                binding = bound.item
                try:
                    if bound.match(attributes, self._resources) is None:
                        continue
                    found = _params(params, binding, attributes)
                except (APIError, PolicyError) as error:
                    yield Misconfiguration(policy, binding, f"failed to configure binding: {error}")
                    continue
                yield from (Invocation(policy, binding, param, matched, meter) for param in found)

    def _param_registry(self, policy: P) -> Registry | None:
        return None if policy.param_kind is None else param_registry(policy.param_kind, self._resources)


def _params(registry: Registry | None, binding: Binding, attributes: Attributes) -> list[JSONObject] | list[None]:
    if registry is None or binding.param_ref is None:
        return [None]
    return collect_params(registry, binding.param_ref, namespace_of(attributes))


def write_namespace(attributes: Attributes, resources: ResourceSet) -> JSONObject | None:
    """Return the value of `namespaceObject`: the Namespace of a write; None for objects of the cluster.

    Raises NotFound if it does not exist.
    """
    if not attributes.namespace or attributes.resource.qualified == "namespaces":
        return None
    namespaces = resources.registry("namespaces")
    stored = resources.decode(namespaces.entry(attributes.namespace).data)
    metadata = {key: value for key, value in stored["metadata"].items() if key in _NAMESPACE_METADATA}
    return {"metadata": metadata, "spec": stored.get("spec") or {}, "status": stored.get("status") or {}}


_NAMESPACE_METADATA: Final = frozenset(
    {
        "name", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
    }
)  # fmt: skip

"""Which writes a webhook or a policy concerns: rules, match policy, and selectors of namespaces and objects.

The parts that depend on the resource alone are computed once for each operation on it (`Candidates`). A write that
nothing concerns costs one dictionary lookup.

Follows k8s.io/apiserver pkg/admission/plugin/webhook/{generic,predicates} and pkg/admission/plugin/policy/matching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from kubewright.machinery.errors import InternalError
from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.apiserver.admission.versions import namespace_of, shown_object, shown_old_object
from kubewright_controlplane.apiserver.registry.model import Attributes, Operation, Resource
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

T = TypeVar("T")

_NAMESPACES: Final = "namespaces"
_GROUP: Final = "admissionregistration.k8s.io"
_EXEMPT: Final = frozenset(
    {
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    }
)
_EVERYTHING: Final = Selector()


@dataclass(frozen=True, slots=True)
class _Target:
    """An operation on a resource, as rules see it."""

    operation: Operation
    resource: Resource
    subresource: str


@dataclass(frozen=True, slots=True)
class _Hit:
    """A rule that matches: for the resource in one of its versions, and for these names (None: for all)."""

    resource: Resource
    names: frozenset[str] | None

    def covers(self, name: str) -> bool:
        return self.names is None or name in self.names


class Rule:
    """A RuleWithOperations, or a NamedRuleWithOperations."""

    def __init__(self, spec: JSONObject) -> None:
        self._operations = frozenset(spec.get("operations") or ())
        self._groups = frozenset(spec.get("apiGroups") or ())
        self._versions = frozenset(spec.get("apiVersions") or ())
        self._resources: frozenset[str] = frozenset(spec.get("resources") or ())
        self._scope = spec.get("scope") or "*"
        self.names = frozenset(spec.get("resourceNames") or ()) or None

    def matches(self, target: _Target) -> bool:
        """Return whether the rule matches, whatever the name of the object."""
        resource = target.resource
        return (
            _has(self._operations, target.operation)
            and _has(self._groups, resource.group)
            and _has(self._versions, resource.version)
            and self._matches_resource(resource.plural, target.subresource)
            and self._matches_scope(resource)
        )

    def _matches_resource(self, plural: str, subresource: str) -> bool:
        if not subresource:
            spellings = (plural, "*", f"{plural}/*", "*/*")
        else:
            spellings = (f"{plural}/{subresource}", f"*/{subresource}", f"{plural}/*", "*/*")
        return any(each in self._resources for each in spellings)

    def _matches_scope(self, resource: Resource) -> bool:
        return self._scope == "*" or (self._scope == "Namespaced") == resource.namespaced


def _has(allowed: frozenset[str], value: str) -> bool:
    return value in allowed or "*" in allowed


class Criteria:
    """What a webhook, or the `matchConstraints` or `matchResources` of a policy or binding, match."""

    def __init__(
        self,
        rules: Iterable[JSONObject],
        spec: JSONObject,
        *,
        excluded: Iterable[JSONObject] = (),
        without_rules: bool = False,
    ) -> None:
        """`spec` has `matchPolicy`, `namespaceSelector` and `objectSelector`.

        `without_rules` is the meaning of an empty list of rules: True if it matches everything (a binding's).
        """
        self._rules = [Rule(each) for each in rules]
        self._excluded = [Rule(each) for each in excluded]
        self._everything = without_rules and not self._rules
        self._equivalent = spec.get("matchPolicy", "Equivalent") != "Exact"
        self._namespaces = _selector(spec.get("namespaceSelector"))
        self._objects = _selector(spec.get("objectSelector"))

    @classmethod
    def of_webhook(cls, webhook: JSONObject) -> Criteria:
        """Return the criteria of an entry of `webhooks`."""
        return cls(webhook.get("rules") or (), webhook)

    @classmethod
    def of_policy(cls, match: JSONObject | None) -> Criteria:
        """Return the criteria of `matchConstraints` or `matchResources`. An absent one matches everything."""
        match = match or {}
        rules, excluded = match.get("resourceRules") or (), match.get("excludeResourceRules") or ()
        return cls(rules, match, excluded=excluded, without_rules=True)

    def hits(self, target: _Target, equivalents: Sequence[Resource]) -> _Hits | None:
        """Return what the rules say about an operation; None if they can't match it."""
        hits = _Hits(
            self._hits(self._rules, target, equivalents) if not self._everything else (_Hit(target.resource, None),),
            self._hits(self._excluded, target, equivalents),
        )
        return hits if hits.included and not any(each.names is None for each in hits.excluded) else None

    def _hits(self, rules: Sequence[Rule], target: _Target, equivalents: Sequence[Resource]) -> tuple[_Hit, ...]:
        found = [_Hit(target.resource, rule.names) for rule in rules if rule.matches(target)]
        if self._equivalent:
            others = [_Target(target.operation, each, target.subresource) for each in equivalents]
            found += [_Hit(other.resource, rule.names) for rule in rules for other in others if rule.matches(other)]
        return tuple(found)

    def match(self, hits: _Hits, attributes: Attributes, resources: ResourceSet) -> Resource | None:
        """Return the version of the resource in which the write matches; None if it does not match.

        Raises NotFound if the namespace, whose labels matter, does not exist.
        """
        if not self._matches_objects(attributes):
            return None
        matched = hits.resource("" if attributes.in_collection else attributes.name)
        if matched is None or not self._matches_namespace(attributes, resources):
            return None
        return matched

    def _matches_namespace(self, attributes: Attributes, resources: ResourceSet) -> bool:
        if self._namespaces.empty:
            return True
        namespace = namespace_of(attributes)
        if not namespace and attributes.resource.plural != _NAMESPACES:
            return True  # other objects of the cluster have no namespace, and are never left out
        return self._namespaces.matches(_namespace_labels(namespace, attributes, resources))

    def _matches_objects(self, attributes: Attributes) -> bool:
        if self._objects.empty:
            return True
        shown = (shown_object(attributes), shown_old_object(attributes))
        return any(self._objects.matches(_labels(each)) for each in shown if _has_metadata(each))


@dataclass(frozen=True, slots=True)
class _Hits:
    """The rules that match an operation on a resource, in order, apart from the names of objects."""

    included: tuple[_Hit, ...]
    excluded: tuple[_Hit, ...]

    def resource(self, name: str) -> Resource | None:
        if any(each.covers(name) for each in self.excluded):
            return None
        return next((each.resource for each in self.included if each.covers(name)), None)


_Key: TypeAlias = tuple[Operation, Resource, str]


@dataclass(frozen=True, slots=True)
class Candidate(Generic[T]):
    """A webhook or policy whose rules can match an operation. The object, its name and its namespace decide."""

    item: T
    _criteria: Criteria
    _hits: _Hits

    def match(self, attributes: Attributes, resources: ResourceSet) -> Resource | None:
        """Return the version of the resource in which the write matches; None if it does not match.

        Raises NotFound if a selector needs the labels of a namespace that does not exist.
        """
        return self._criteria.match(self._hits, attributes, resources)


class Candidates(Generic[T]):
    """Webhooks or policies with their criteria, in order, and which of them can match which operation.

    hooks = Candidates[Webhook](resources)
    hooks.set((webhook.criteria, webhook) for webhook in ...)   # whenever configurations change
    for candidate in hooks.of(attributes):
        version = candidate.match(attributes, resources)
    """

    def __init__(self, resources: ResourceSet, exempt: Callable[[Resource], bool] | None = None) -> None:
        """`exempt` returns whether none of them may concern a resource; by default `is_exempt`."""
        self._resources = resources
        self._exempt = exempt or is_exempt
        self._items: tuple[tuple[Criteria, T], ...] = ()
        self._known: dict[_Key, tuple[Candidate[T], ...]] = {}
        self._generation = -1

    def set(self, items: Iterable[tuple[Criteria, T]]) -> None:
        """Replace all webhooks or policies."""
        self._items = tuple(items)
        self._known.clear()

    def of(self, attributes: Attributes) -> tuple[Candidate[T], ...]:
        """Return those whose rules can match the operation, in order. Usually there are none."""
        if not self._items:
            return ()
        if self._generation != self._resources.generation:
            self._known.clear()
            self._generation = self._resources.generation
        key = (attributes.operation, attributes.resource, attributes.subresource)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._find(_Target(*key))
        return found

    def _find(self, target: _Target) -> tuple[Candidate[T], ...]:
        if self._exempt(target.resource):
            return ()
        others = equivalents(target.resource, target.subresource, self._resources)
        found = [(item, criteria, criteria.hits(target, others)) for criteria, item in self._items]
        return tuple(Candidate(item, criteria, hits) for item, criteria, hits in found if hits is not None)


def is_exempt(resource: Resource) -> bool:
    """Return whether no webhook may concern a resource: those that configure webhooks and policies."""
    return resource.group == _GROUP and resource.plural in _EXEMPT


def is_policy(resource: Resource) -> bool:
    """Return whether no policy may concern a resource: policies and their bindings."""
    return is_exempt(resource) and "policy" in resource.singular


def equivalents(resource: Resource, subresource: str, resources: ResourceSet) -> list[Resource]:
    """Return the other versions and groups in which the objects of a resource, or their subresource, are served."""
    if not resource.storage:
        return []
    return [
        each
        for each in resources
        if each.storage == resource.storage
        and each.gvr != resource.gvr
        and (not subresource or subresource in each.subresources)
    ]


def _namespace_labels(name: str, attributes: Attributes, resources: ResourceSet) -> Mapping[str, str]:
    """Return the labels of the namespace: those in the request, if it creates or updates the Namespace itself."""
    if (
        attributes.resource.plural == _NAMESPACES
        and not attributes.subresource
        and attributes.operation in ("CREATE", "UPDATE")
    ):
        return _labels(attributes.object)
    return resources.registry(_NAMESPACES).entry(name).labels


def _labels(obj: JSONObject | None) -> Mapping[str, Any]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def _has_metadata(obj: JSONObject | None) -> bool:
    return obj is not None and "metadata" in obj


def _selector(spec: JSONObject | None) -> Selector:
    if spec is None:
        return _EVERYTHING
    try:
        return Selector.from_dict(spec)
    except ValueError as error:  # validation rejects such a configuration; this one was stored by an older server
        raise InternalError(f"invalid selector: {error}") from error

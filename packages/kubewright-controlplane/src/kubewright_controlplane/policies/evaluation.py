"""What a policy says about a write, without a server.

The policy, its bindings, the parameters and the Namespace are objects of an API server in memory, whose admission
evaluates the policy. Nothing else of the server takes part: no other admission, no validation, no permissions except
what `authorizer` returns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from kubewright.machinery.errors import APIError, ConfigError
from kubewright.machinery.gvk import GroupVersionKind, GroupVersionResource
from kubewright.machinery.json import JSONObject, copied
from kubewright_controlplane.apiserver.admission.policies.mutating import MutatingAdmissionPolicies
from kubewright_controlplane.apiserver.admission.policies.validating import (
    Evaluation as BoundEvaluation,
)
from kubewright_controlplane.apiserver.admission.policies.validating import (
    Failure,
    ValidatingAdmissionPolicies,
    conclude,
)
from kubewright_controlplane.apiserver.authorization.authorizer import build_authorizer
from kubewright_controlplane.apiserver.registry.model import Attributes, Operation, Resource, Subresource, View
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.server import APIServer
from kubewright_controlplane.apiserver.user import UserInfo

_FAILURES: Final = "validation.policy.admission.k8s.io/validation_failure"
_PERMISSIONS: Final = "permissions-of-the-user"


@dataclass(frozen=True, slots=True)
class Write:
    """A write that a policy is asked about."""

    operation: Operation
    resource: GroupVersionResource
    object: JSONObject | None = None
    """The new state; None for a delete. Defaults are set, as a server does before it asks policies."""
    old_object: JSONObject | None = None
    """The old state, on an update and a delete."""
    subresource: str = ""
    name: str = ""
    namespace: JSONObject | None = None
    """The Namespace of the object; None for objects of the cluster."""
    user: UserInfo = field(default_factory=lambda: UserInfo("test", ("system:authenticated",)))
    permissions: Sequence[JSONObject] = ()
    """The rules of a ClusterRole, which `authorizer` knows of the user."""
    dry_run: bool = False
    options: JSONObject = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a policy says about a write."""

    matched: bool
    """Whether the policy, one of its bindings and the match conditions concern the write."""
    error: APIError | None
    """Why the write is denied; None if it is allowed."""
    object: JSONObject | None
    """The new state, changed by a mutating policy."""
    messages: list[str]
    """Of all validations that failed, whatever the binding does about them; of mutations that failed."""
    warnings: list[str]
    audit_annotations: dict[str, str]
    """By the key in the policy. Those of failures that a binding audits have the API server's key."""


def evaluate(
    policy: JSONObject,
    bindings: Iterable[JSONObject],
    write: Write,
    *,
    params: Iterable[JSONObject] = (),
    definitions: Iterable[JSONObject] = (),
) -> Evaluation:
    """Evaluate a ValidatingAdmissionPolicy or MutatingAdmissionPolicy with its bindings for one write.

    `params` are all objects that exist of the policy's `paramKind`. `definitions` are the CustomResourceDefinitions of
    the kinds that are not built in.

    Raises ConfigError if the resource is not known, and Invalid for an invalid policy, binding, parameter or
    definition.
    """
    resources = APIServer().resources
    for each in definitions:
        resources.registry("customresourcedefinitions.apiextensions.k8s.io").create(copied(each))
    _create_namespaces(resources, write, params := list(params))
    for each in params:
        _registry_of(resources, each).create(copied(each), each["metadata"].get("namespace", ""))
    for document in (policy, *bindings):
        _registry_of(resources, document).create(copied(document))
    _grant(resources, write)
    attributes = _attributes(write, resources)
    if policy["kind"] == "MutatingAdmissionPolicy":
        return _mutated(attributes, resources)
    return _validated(attributes, resources, policy["metadata"]["name"])


def _validated(attributes: Attributes, resources: ResourceSet, name: str) -> Evaluation:
    policies = ValidatingAdmissionPolicies(resources, build_authorizer(resources), math.inf)
    found = [each for each in policies.evaluations(attributes) if each.meets_conditions]
    return Evaluation(
        matched=bool(found),
        error=conclude(found, attributes),
        object=attributes.object,
        messages=[failure.message for each in found for failure in each.failures],
        warnings=attributes.warnings,
        audit_annotations=_annotations(found, name),
    )


def _annotations(evaluations: Iterable[BoundEvaluation], name: str) -> dict[str, str]:
    """Return the audit annotations of a policy. Distinct values of several bindings and parameters are joined."""
    values: dict[str, list[str]] = {}
    failures: list[JSONObject] = []
    for each in evaluations:
        for key, value in each.annotations.items():
            known = values.setdefault(key.removeprefix(f"{name}/"), [])
            known += [value] if value not in known else []
        failures += [_audited(each, failure) for failure in each.failures if _is_audited(each, failure)]
    if failures:
        values[_FAILURES] = [msgspec.json.encode(failures).decode()]
    return {key: ", ".join(each) for key, each in values.items()}


def _is_audited(evaluation: BoundEvaluation, failure: Failure) -> bool:
    return evaluation.binding is not None and "Audit" in evaluation.binding.actions and not failure.denies


def _audited(evaluation: BoundEvaluation, failure: Failure) -> JSONObject:
    assert evaluation.binding is not None
    return {
        "message": failure.message,
        "policy": evaluation.policy.name,
        "binding": evaluation.binding.name,
        "expressionIndex": failure.index,
        "validationActions": list(evaluation.binding.actions),
    }


def _mutated(attributes: Attributes, resources: ResourceSet) -> Evaluation:
    policies = MutatingAdmissionPolicies(resources, build_authorizer(resources), math.inf)
    matched, error = policies.matches(attributes), None
    invoked: set[object] = set()
    try:
        if policies.admit(attributes, invoked, again=False):
            policies.admit(attributes, invoked, again=True)
    except APIError as raised:
        error = raised
    causes = error.status.details.causes if error is not None and error.status.details is not None else ()
    return Evaluation(
        matched=matched,
        error=error,
        object=attributes.object,
        messages=[each.message for each in causes] or ([str(error)] if error is not None else []),
        warnings=attributes.warnings,
        audit_annotations={},
    )


def _registry_of(resources: ResourceSet, document: JSONObject) -> Any:
    kind = GroupVersionKind.parse(document["apiVersion"], document["kind"])
    resource = resources.of_kind(kind)
    found = resources.find(resource.group, resource.version, resource.plural) if resource is not None else None
    if found is None:
        raise ConfigError(f"{kind} is not known; add its CustomResourceDefinition to the definitions")
    return found


def _create_namespaces(resources: ResourceSet, write: Write, params: Sequence[JSONObject]) -> None:
    """Create the Namespaces of the write and of the parameters."""
    given = [write.namespace] if write.namespace is not None else []
    names = {each["metadata"].get("namespace", "") for each in params} - {
        "",
        *(each["metadata"]["name"] for each in given),
    }
    registry = resources.registry("namespaces")
    for each in (*given, *({"metadata": {"name": name}} for name in sorted(names))):
        registry.create({**copied(each), "apiVersion": "v1", "kind": "Namespace"})


def _grant(resources: ResourceSet, write: Write) -> None:
    if not write.permissions:
        return
    group, metadata = "rbac.authorization.k8s.io", {"name": _PERMISSIONS}
    head = {"apiVersion": f"{group}/v1", "metadata": metadata}
    role = {**head, "kind": "ClusterRole", "rules": [copied(each) for each in write.permissions]}
    subject = {"kind": "User", "apiGroup": group, "name": write.user.name}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": _PERMISSIONS}
    binding = {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    for document in (role, binding):
        _registry_of(resources, copied(document)).create(copied(document))


def _attributes(write: Write, resources: ResourceSet) -> Attributes:
    gvr = write.resource
    registry = resources.find(gvr.group, gvr.version, gvr.resource)
    if registry is None:
        raise ConfigError(f"{gvr} is not known; add its CustomResourceDefinition to the definitions")
    resource = _shown_as_sent(registry.resource, write.subresource)
    own_kind = registry.resource.gvk
    namespace = write.namespace["metadata"]["name"] if write.namespace is not None else ""
    return Attributes(
        operation=write.operation,
        resource=resource,
        namespace=namespace if resource.namespaced or resource.qualified == "namespaces" else "",
        name=write.name,
        object=_as_stored(write.object, own_kind, registry.resource),
        old_object=_as_stored(write.old_object, own_kind, registry.resource),
        subresource=write.subresource,
        user=write.user,
        dry_run=write.dry_run,
        options=write.options,
    )


def _shown_as_sent(resource: Resource, subresource: str) -> Resource:
    """Return a resource whose subresource has the objects that are sent, such as a Scale, instead of a view."""
    below = resource.subresources.get(subresource)
    if not isinstance(below, View) or below.kind is None:
        return resource
    return replace(resource, subresources={**resource.subresources, subresource: Subresource(below.kind, below.verbs)})


def _as_stored(obj: JSONObject | None, kind: GroupVersionKind, resource: Resource) -> JSONObject | None:
    """Return an object without unknown fields and with defaults, as a server has it when it asks policies."""
    if obj is None:
        return None
    stored: JSONObject = copied(obj)
    if (stored.get("apiVersion"), stored.get("kind")) != (kind.api_version, kind.kind):
        return stored  # of a subresource
    resource.schema.prune(stored)
    resource.schema.default(stored)
    resource.strategy.default(stored)
    return stored

"""MutatingAdmissionPolicies: expressions that change objects before they are validated.

Policies run in the order of their names. If one changed the object, all mutating plugins run once more, and with them
the policies whose reinvocation policy is IfNeeded.

Follows k8s.io/apiserver pkg/admission/plugin/policy/mutating.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from kubewright.machinery.errors import (
    DecodeError,
    Forbidden,
    InternalError,
    Invalid,
    ServiceUnavailable,
    StatusCause,
    StatusDetails,
)
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.admission.plugin import Plugin, rejection
from kubewright_controlplane.apiserver.admission.policies.evaluation import BUDGET, Compiled, Inputs, OutOfBudget
from kubewright_controlplane.apiserver.admission.policies.patches import applied, patched
from kubewright_controlplane.apiserver.admission.policies.policy import MutatingPolicy, PolicyFault
from kubewright_controlplane.apiserver.admission.policies.stored import (
    Invocation,
    Misconfiguration,
    StoredPolicies,
    write_namespace,
)
from kubewright_controlplane.apiserver.admission.versions import VersionedAttributes
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer
from kubewright_controlplane.apiserver.registry import metadata as meta
from kubewright_controlplane.apiserver.registry.model import Attributes, Reinvocation, View
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.schema.cel.syntax import CompileError
from kubewright_controlplane.schema.node import Node
from kubewright_controlplane.schema.structural.default import copied
from kubewright_controlplane.schema.structural.schema import Schema


class MutatingAdmissionPolicies(Plugin):
    """Evaluates the stored MutatingAdmissionPolicies."""

    name = "MutatingAdmissionPolicy"

    def __init__(self, resources: ResourceSet, authorizer: Authorizer) -> None:
        self._resources = resources
        self._authorizer = authorizer
        self._policies = StoredPolicies(resources, "mutatingadmissionpolicies", MutatingPolicy)

    def admit(self, attributes: Attributes) -> None:
        if attributes.object is None or not self._policies.concern(attributes):
            return
        errors: list[tuple[str, str]] = []
        for each in list(self._policies.invocations(attributes)):
            if isinstance(each, Misconfiguration):
                if each.policy.fails:
                    errors.append((_misconfigured(each), "Forbidden"))
            elif not _is_passed_over(each, attributes):
                title = f"policy '{each.policy.name}' with binding '{each.binding.name}'"
                errors += [(f"{title} denied request: {why}", "Invalid") for why in self._mutate(each, attributes)]
        if errors:
            raise _denied(attributes, errors)

    def _mutate(self, invocation: Invocation[MutatingPolicy], attributes: Attributes) -> list[str]:
        """Change the object as a policy asks. Returns the faults that reject the write."""
        policy, faults = invocation.policy, list[str]()
        try:
            if not policy.meets_conditions(self._inputs(invocation, attributes)):
                return []
        except PolicyFault as fault:
            return [str(fault)]
        state = attributes.reinvocation = attributes.reinvocation or Reinvocation()
        for patch_type, expression in policy.mutations:
            try:
                self._apply(patch_type, expression, self._inputs(invocation, attributes), attributes)
            except (PolicyFault, OutOfBudget) as fault:
                faults.append(str(fault))
            else:
                state.is_needed = True
        if policy.is_reinvoked:
            state.invoked.add(_key(invocation))
        return faults if policy.fails else []

    def _inputs(self, invocation: Invocation[MutatingPolicy], attributes: Attributes) -> Inputs:
        write = VersionedAttributes(attributes, invocation.resource)
        namespace = write_namespace(attributes, self._resources)
        policy, meter = invocation.policy, invocation.meter
        return Inputs(write, self._authorizer, namespace, invocation.param, policy.variables, meter)

    def _apply(self, patch_type: str, expression: Compiled, inputs: Inputs, attributes: Attributes) -> None:
        if isinstance(expression, CompileError):
            raise PolicyFault(str(expression))
        (result,), _ = inputs.evaluate([expression], BUDGET)
        if result.error:
            raise PolicyFault(result.error)
        shown = inputs.write.object
        assert shown is not None  # a write without an object is not mutated
        if patch_type == "JSONPatch":
            changed = patched(shown, result.value)
        else:
            kind = inputs.write.kind
            changed = applied(shown, result.value, kind, self._schema(inputs.write))
        if changed is not shown:
            _replace_object(attributes, changed, inputs.write)

    def _schema(self, write: VersionedAttributes) -> Node:
        """Return the schema of the documents that are sent. Raises ServiceUnavailable if there is none."""
        if write.kind == write.resource.gvk:
            return write.resource.schema.root
        try:
            return _builtin_schema(write.kind).root
        except KeyError:
            why = "There can be a delay between when CustomResourceDefinitions are created and when they are available."
            raise ServiceUnavailable(f"Resource kind {write.kind} not found. {why}") from None


@lru_cache(maxsize=16)  # the few kinds of subresources
def _builtin_schema(kind: GroupVersionKind) -> Schema:
    return Schema.from_openapi(catalog.schema_ref(kind), catalog.components())


def _is_passed_over(invocation: Invocation[MutatingPolicy], attributes: Attributes) -> bool:
    """Return whether this is the second round, and the policy takes no part in it."""
    state = attributes.reinvocation
    return state is not None and state.is_running and _key(invocation) not in state.invoked


def _key(invocation: Invocation[MutatingPolicy]) -> object:
    metadata: JSONObject = (invocation.param or {}).get("metadata") or {}
    return invocation.policy.name, invocation.binding.name, metadata.get("namespace"), metadata.get("name")


def _replace_object(attributes: Attributes, changed: JSONObject, write: VersionedAttributes) -> None:
    """Replace the object of a write by a changed one, in the version and kind that the policy matches.

    The parts that the request cannot change remain. Raises Invalid if the policy changed the identity of the object.
    """
    resource, before = attributes.resource, attributes.object or {}
    write.replace_object(_strict(changed, write))
    obj = attributes.object
    assert obj is not None
    below = resource.subresources.get(attributes.subresource) if attributes.subresource else None
    if isinstance(below, View) and below.kind is None:
        obj = attributes.object = below.write(obj, attributes.old_object or before, attributes)
    elif resource.has_status and below is None:
        obj.pop("status", None)
        obj |= {"status": before["status"]} if "status" in before else {}
    metadata = obj["metadata"] = dict(obj.get("metadata") or {})
    meta.match_namespace(resource, metadata, attributes.namespace)
    if attributes.old_object is not None:
        old_metadata = attributes.old_object["metadata"]
        if faults := meta.validate_update(metadata, old_metadata):
            raise Invalid.of(resource.kind, resource.group, attributes.name, faults)
        meta.keep_from_old(metadata, old_metadata)


def _strict(changed: JSONObject, write: VersionedAttributes) -> JSONObject:
    """Return a changed document without unknown fields. Raises InternalError for those of a built-in kind."""
    resource = write.resource
    if write.kind != resource.gvk:
        return changed
    changed = copied(changed)
    try:
        unknown = resource.schema.prune(changed)
    except DecodeError as error:
        raise InternalError(f"Internal error occurred: {error}") from error
    if unknown and not resource.custom:
        faults = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise InternalError(f"Internal error occurred: strict decoding error: {faults}")
    return changed


def _misconfigured(error: Misconfiguration[MutatingPolicy]) -> str:
    if error.binding is None:
        return f'policy "{error.policy.name}" denied request: {error.error}'
    return f"policy '{error.policy.name}' with binding '{error.binding.name}' denied request: {error.error}"


def _denied(attributes: Attributes, errors: list[tuple[str, str]]) -> Forbidden:
    message, reason = errors[0]
    details = rejection(attributes, message).status.details or StatusDetails()
    causes = tuple(StatusCause(message=text) for text, _ in errors)
    return Forbidden(message, details=replace(details, causes=causes), reason=reason)

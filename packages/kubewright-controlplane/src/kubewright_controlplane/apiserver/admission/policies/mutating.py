"""MutatingAdmissionPolicies: expressions that change objects before they are validated.

Policies run in the order of their names. If one changed the object, all mutating plugins run again, and with them
the policies whose reinvocation policy is IfNeeded.

Follows k8s.io/apiserver pkg/admission/plugin/policy/mutating.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from kubewright.cel.syntax import CompileError
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
from kubewright.machinery.json import JSONObject, copied
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.admission.expressions import TIME_LIMIT
from kubewright_controlplane.apiserver.admission.plugin import rejection
from kubewright_controlplane.apiserver.admission.policies.evaluation import BUDGET, Compiled, Inputs, OutOfBudget
from kubewright_controlplane.apiserver.admission.policies.patches import applied, patched
from kubewright_controlplane.apiserver.admission.policies.policy import MutatingPolicy, PolicyError
from kubewright_controlplane.apiserver.admission.policies.stored import (
    Invocation,
    Misconfiguration,
    StoredPolicies,
    write_namespace,
)
from kubewright_controlplane.apiserver.admission.review import Stage
from kubewright_controlplane.apiserver.admission.versions import VersionedAttributes
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer
from kubewright_controlplane.apiserver.registry import metadata as meta
from kubewright_controlplane.apiserver.registry.conversions import ConversionNeeded, settle
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.schema.node import Node
from kubewright_controlplane.schema.structural.schema import Schema


class MutatingAdmissionPolicies:
    """Evaluates the stored MutatingAdmissionPolicies."""

    name: Final = "MutatingAdmissionPolicy"

    def __init__(self, resources: ResourceSet, authorizer: Authorizer, time_limit: float = TIME_LIMIT) -> None:
        """`time_limit` is for one policy and write, in seconds of processor time."""
        self._resources = resources
        self._authorizer = authorizer
        self._policies = StoredPolicies(resources, "mutatingadmissionpolicies", MutatingPolicy, time_limit)

    def begin(self, attributes: Attributes) -> Stage | None:
        """Return the evaluation of the policies for a write; None if no policy can concern it."""
        if attributes.object is None or not self._policies.concern(attributes):
            return None
        return _Mutation(self, attributes)

    def matches(self, attributes: Attributes) -> bool:
        """Return whether a policy would change the object, or could not be evaluated."""
        return any(self._matches(each, attributes) for each in self._policies.invocations(attributes))

    def _matches(
        self, each: Invocation[MutatingPolicy] | Misconfiguration[MutatingPolicy], attributes: Attributes
    ) -> bool:
        try:
            return isinstance(each, Misconfiguration) or each.policy.meets_conditions(self._inputs(each, attributes))
        except PolicyError:
            return True

    def admit(self, attributes: Attributes, invoked: set[object], *, again: bool) -> bool:
        """Let each policy change the object. Returns whether one did.

        `invoked` collects the policies that take part in a second round (`again`). Raises Forbidden if a policy
        fails and must not, and ConversionNeeded if a policy matches a version that only a webhook makes.
        """
        turns = self.turns(attributes, invoked, again=again)
        while True:
            try:
                next(turns)
            except StopIteration as end:
                return bool(end.value)

    def turns(self, attributes: Attributes, invoked: set[object], *, again: bool) -> Generator[None, None, bool]:
        """Do what `admit` does, and yield after each policy."""
        errors: list[tuple[str, str]] = []
        changed = False
        for each in list(self._policies.invocations(attributes)):
            if isinstance(each, Misconfiguration):
                if each.policy.fails:
                    errors.append((_misconfigured(each), "Forbidden"))
            elif not again or _key(each) in invoked:
                mutation = self._mutate(each, attributes)
                with each.meter.paused():
                    yield
                if mutation is None:
                    continue
                changed = changed or mutation.is_applied
                title = f"policy '{each.policy.name}' with binding '{each.binding.name}'"
                errors += [(f"{title} denied request: {why}", "Invalid") for why in mutation.errors]
                if each.policy.is_reinvoked:
                    invoked.add(_key(each))
        if errors:
            raise _denied(attributes, errors)
        return changed

    def _mutate(self, invocation: Invocation[MutatingPolicy], attributes: Attributes) -> _Effect | None:
        """Change the object as a policy asks. Returns None if the conditions of the policy are not met."""
        policy, errors = invocation.policy, list[str]()
        is_applied = False
        try:
            if not policy.meets_conditions(self._inputs(invocation, attributes)):
                return None
        except PolicyError as error:
            return _Effect(False, [str(error)])
        for patch_type, expression in policy.mutations:
            try:
                self._apply(patch_type, expression, self._inputs(invocation, attributes), attributes)
            except (PolicyError, OutOfBudget) as error:
                errors.append(str(error))
            else:
                is_applied = True
        return _Effect(is_applied, errors if policy.fails else [])

    def _inputs(self, invocation: Invocation[MutatingPolicy], attributes: Attributes) -> Inputs:
        write = VersionedAttributes(attributes, invocation.resource)
        namespace = write_namespace(attributes, self._resources)
        policy, meter = invocation.policy, invocation.meter
        return Inputs(write, self._authorizer, namespace, invocation.param, policy.variables, meter)

    def _apply(self, patch_type: str, expression: Compiled, inputs: Inputs, attributes: Attributes) -> None:
        if isinstance(expression, CompileError):
            raise PolicyError(str(expression))
        (result,), _ = inputs.evaluate([expression], BUDGET)
        if result.error:
            raise PolicyError(result.error)
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


@dataclass(frozen=True, slots=True)
class _Effect:
    """What a policy did to an object."""

    is_applied: bool
    """Whether one of its mutations was applied, even if it changed nothing."""
    errors: list[str]


class _Mutation(Stage):
    """The two rounds of the policies for one write."""

    def __init__(self, policies: MutatingAdmissionPolicies, attributes: Attributes) -> None:
        self._policies = policies
        self._attributes = attributes
        self._invoked: set[object] = set()

    async def admit(self, *, again: bool) -> bool:
        before = self._attributes.object

        def step() -> tuple[bool, set[object]]:
            self._attributes.object, invoked = before, set(self._invoked)
            return self._policies.admit(self._attributes, invoked, again=again), invoked

        invoked = set(self._invoked)
        try:
            changed = await _others_between(self._policies.turns(self._attributes, invoked, again=again))
        except ConversionNeeded:
            changed, invoked = await settle(step)
        self._invoked = invoked
        return changed


async def _others_between(turns: Generator[None, None, bool]) -> bool:
    """Return the result of turns, each of which may take long: others get theirs between them."""
    is_first = True
    while True:
        try:
            next(turns)
        except StopIteration as end:
            return bool(end.value)
        if not is_first:
            await asyncio.sleep(0)
        is_first = False


@lru_cache(maxsize=16)  # the few kinds of subresources
def _builtin_schema(kind: GroupVersionKind) -> Schema:
    return Schema.from_openapi(catalog.schema_ref(kind), catalog.components())


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
    if resource.has_status and not attributes.subresource:
        obj.pop("status", None)
        obj |= {"status": before["status"]} if "status" in before else {}
    metadata = obj["metadata"] = dict(obj.get("metadata") or {})
    meta.match_namespace(resource, metadata, attributes.namespace)
    if attributes.old_object is not None:
        old_metadata = attributes.old_object["metadata"]
        if errors := meta.validate_update(metadata, old_metadata):
            raise Invalid.of(resource.kind, resource.group, attributes.name, errors)
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
        errors = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise InternalError(f"Internal error occurred: strict decoding error: {errors}")
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

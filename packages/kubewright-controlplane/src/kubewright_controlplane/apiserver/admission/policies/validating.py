"""ValidatingAdmissionPolicies: expressions that accept or reject writes.

Follows k8s.io/apiserver pkg/admission/plugin/policy/validating.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from kubewright._runtime.log import get_logger
from kubewright.machinery.errors import APIError, Forbidden, Invalid, RequestTooLarge, StatusCause, StatusDetails
from kubewright_controlplane.apiserver.admission.plugin import rejection
from kubewright_controlplane.apiserver.admission.policies.evaluation import BUDGET, Inputs, OutOfBudget, Result
from kubewright_controlplane.apiserver.admission.policies.policy import PolicyFault, ValidatingPolicy
from kubewright_controlplane.apiserver.admission.policies.stored import (
    Invocation,
    Misconfiguration,
    StoredPolicies,
    write_namespace,
)
from kubewright_controlplane.apiserver.admission.review import Stage
from kubewright_controlplane.apiserver.admission.versions import VersionedAttributes
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

LONGEST_MESSAGE: Final = 5 * 1024
"""The maximum number of bytes of a message that an expression returns."""
LONGEST_ANNOTATION: Final = 10 * 1024
"""The maximum number of bytes of the value of an audit annotation."""

_log: Final = get_logger(__name__)
_ERRORS: Final[dict[str, type[APIError]]] = {
    "Forbidden": Forbidden, "Invalid": Invalid, "RequestEntityTooLarge": RequestTooLarge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Failure:
    """A validation that failed, or that has no value."""

    message: str
    index: int = 0
    reason: str = "Invalid"
    denies: bool = False
    """Whether the failure rejects the write, whatever the actions of the binding."""


class ValidatingAdmissionPolicies:
    """Evaluates the stored ValidatingAdmissionPolicies."""

    name: Final = "ValidatingAdmissionPolicy"

    def __init__(self, resources: ResourceSet, authorizer: Authorizer) -> None:
        self._resources = resources
        self._authorizer = authorizer
        self._policies = StoredPolicies(resources, "validatingadmissionpolicies", ValidatingPolicy)

    def begin(self, attributes: Attributes) -> Stage | None:
        """Return the evaluation of the policies for a write; None if no policy can concern it."""
        return _Validation(self, attributes) if self._policies.concern(attributes) else None

    def validate(self, attributes: Attributes) -> None:
        """Raise the error of the first policy that denies the write. All policies are evaluated."""
        denials = list(self._denials(attributes))
        if denials:
            raise _denied(attributes, *denials[0])

    def _denials(self, attributes: Attributes) -> Iterator[tuple[str, _Failure]]:
        """Evaluate all policies that concern a write. Yields the failures that reject it, with the policy and binding
        as messages name them.
        """
        writes: dict[object, VersionedAttributes] = {}
        for each in self._policies.invocations(attributes):
            if isinstance(each, Misconfiguration):
                if each.policy.fails:
                    binding = f" with binding '{each.binding.name}'" if each.binding is not None else ""
                    yield f"'{each.policy.name}'{binding}", _Failure(each.error)
                continue
            write = writes.setdefault(each.resource.gvr, VersionedAttributes(attributes, each.resource))
            namespace = write_namespace(attributes, self._resources)
            inputs = Inputs(write, self._authorizer, namespace, each.param, each.policy.variables, each.meter)
            title = f"'{each.policy.name}' with binding '{each.binding.name}'"
            for failure in _failures(each.policy, inputs):
                if _acts(each, failure, title, attributes):
                    yield title, failure


@dataclass(frozen=True, slots=True)
class _Validation(Stage):
    policies: ValidatingAdmissionPolicies
    attributes: Attributes

    async def validate(self) -> None:
        self.policies.validate(self.attributes)


def _acts(invocation: Invocation[ValidatingPolicy], failure: _Failure, title: str, attributes: Attributes) -> bool:
    """Warn and log a failure, if the binding asks for it. Returns whether the failure rejects the write."""
    actions = invocation.binding.actions
    if "Warn" in actions and not failure.denies:
        attributes.warnings.append(f"Validation failed for ValidatingAdmissionPolicy {title}: {failure.message}")
    if "Audit" in actions and not failure.denies:
        _log.info(
            "Validation failed",
            policy=invocation.policy.name,
            binding=invocation.binding.name,
            expression=failure.index,
            message=failure.message,
        )
    return failure.denies or "Deny" in actions


def _failures(policy: ValidatingPolicy, inputs: Inputs) -> Iterable[_Failure]:
    """Return the failures of a policy for one parameter; errors only if its failure policy is Fail."""
    try:
        if not policy.meets_conditions(inputs):
            return []
        results, budget = inputs.evaluate(policy.expressions, BUDGET)
    except (OutOfBudget, PolicyFault) as error:
        return [_Failure(str(error))] if policy.fails else []
    failures = list(_validation_failures(policy, results, inputs, budget))
    try:
        annotations, _ = inputs.evaluate(policy.annotation_values, BUDGET, has_authorizer=False)
    except OutOfBudget as error:
        return [_Failure(str(error))] if policy.fails else []
    errors = [_Failure(each.error, denies=True) for each in annotations if each.error and policy.fails]
    _log_annotations(policy, annotations)
    return failures + errors


def _validation_failures(
    policy: ValidatingPolicy, results: list[Result], inputs: Inputs, budget: int
) -> Iterator[_Failure]:
    if all(each.value is True for each in results):
        return
    fault = ""
    messages = [Result()] * len(results)
    try:
        messages, _ = inputs.evaluate(policy.messages, budget, has_authorizer=False)
    except OutOfBudget as error:
        fault = f"failed messageExpression: {error}"
    for index, result in enumerate(results):
        if why := result.error or fault:
            if policy.fails:
                yield _Failure(why, index)
        elif result.value is not True:
            spec = policy.validations[index]
            message = _shown(messages[index]) or (spec.get("message") or "").strip()
            message = message or f"failed expression: {spec['expression'].strip()}"
            yield _Failure(message, index, spec.get("reason") or "Invalid")


def _shown(result: Result) -> str:
    """Return the value of a message expression; empty if it does not fit into one line of a response."""
    text = result.value.strip() if isinstance(result.value, str) else ""
    return "" if len(text.encode()) > LONGEST_MESSAGE or "\n" in text else text


def _log_annotations(policy: ValidatingPolicy, results: list[Result]) -> None:
    for annotation, result in zip(policy.annotations, results, strict=True):
        text = result.value.strip() if isinstance(result.value, str) else ""
        if text:
            text = text.encode()[:LONGEST_ANNOTATION].decode(errors="ignore")
            _log.info("Audit annotation recorded", key=f"{policy.name}/{annotation['key']}", value=text)


def _denied(attributes: Attributes, title: str, failure: _Failure) -> APIError:
    why = f"ValidatingAdmissionPolicy {title} denied request: {failure.message}"
    status = rejection(attributes, why).status
    details = replace(status.details or StatusDetails(), causes=(StatusCause(message=why),))
    return _ERRORS.get(failure.reason, Invalid)(status.message, details=details, reason=failure.reason)

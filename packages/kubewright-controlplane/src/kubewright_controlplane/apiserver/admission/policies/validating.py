"""ValidatingAdmissionPolicies: expressions that accept or reject writes.

Follows k8s.io/apiserver pkg/admission/plugin/policy/validating.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from kubewright._runtime.log import get_logger
from kubewright.machinery.errors import APIError, Forbidden, Invalid, RequestTooLarge, StatusCause, StatusDetails
from kubewright_controlplane.apiserver.admission.expressions import TIME_LIMIT
from kubewright_controlplane.apiserver.admission.plugin import rejection
from kubewright_controlplane.apiserver.admission.policies.evaluation import BUDGET, Inputs, OutOfBudget, Result
from kubewright_controlplane.apiserver.admission.policies.policy import Binding, PolicyError, ValidatingPolicy
from kubewright_controlplane.apiserver.admission.policies.stored import (
    Misconfiguration,
    StoredPolicies,
    write_namespace,
)
from kubewright_controlplane.apiserver.admission.review import Stage
from kubewright_controlplane.apiserver.admission.versions import VersionedAttributes
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer
from kubewright_controlplane.apiserver.registry.conversions import ConversionNeeded, settle
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
class Failure:
    """A validation that failed, or that has no value."""

    message: str
    index: int = 0
    reason: str = "Invalid"
    denies: bool = False
    """Whether the failure rejects the write, whatever the actions of the binding."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a policy says about a write, as one of its bindings asks, with one parameter."""

    policy: ValidatingPolicy
    binding: Binding | None
    """None if the policy cannot be evaluated, whatever the binding."""
    meets_conditions: bool = True
    failures: Sequence[Failure] = ()
    """Errors are included only if the failure policy is Fail."""
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    """Audit annotations, by their whole key."""

    @property
    def title(self) -> str:
        """The policy and the binding, as messages name them."""
        binding = f" with binding '{self.binding.name}'" if self.binding is not None else ""
        return f"'{self.policy.name}'{binding}"


class ValidatingAdmissionPolicies:
    """Evaluates the stored ValidatingAdmissionPolicies."""

    name: Final = "ValidatingAdmissionPolicy"

    def __init__(self, resources: ResourceSet, authorizer: Authorizer, time_limit: float = TIME_LIMIT) -> None:
        """`time_limit` is for one policy and write, in seconds of processor time."""
        self._resources = resources
        self._authorizer = authorizer
        self._policies = StoredPolicies(resources, "validatingadmissionpolicies", ValidatingPolicy, time_limit)

    def begin(self, attributes: Attributes) -> Stage | None:
        """Return the evaluation of the policies for a write; None if no policy can concern it."""
        return _Validation(self, attributes) if self._policies.concern(attributes) else None

    async def validate(self, attributes: Attributes) -> None:
        """Raise the error of the first policy that denies the write. All policies are evaluated."""
        evaluations: list[Evaluation] = []
        try:
            for each in self.evaluations(attributes):
                if evaluations:
                    await asyncio.sleep(0)  # each policy may take long: others get their turn
                evaluations.append(each)
        except ConversionNeeded:
            evaluations = await settle(lambda: list(self.evaluations(attributes)))
        if error := conclude(evaluations, attributes):
            raise error

    def evaluations(self, attributes: Attributes) -> Iterator[Evaluation]:
        """Evaluate all policies that concern a write, in a step that `settle` runs."""
        writes: dict[object, VersionedAttributes] = {}
        for each in self._policies.invocations(attributes):
            if isinstance(each, Misconfiguration):
                failures = [Failure(each.error, denies=True)] if each.policy.fails else []
                yield Evaluation(each.policy, each.binding, failures=failures)
                continue
            write = writes.setdefault(each.resource.gvr, VersionedAttributes(attributes, each.resource))
            namespace = write_namespace(attributes, self._resources)
            inputs = Inputs(write, self._authorizer, namespace, each.param, each.policy.variables, each.meter)
            evaluation = _evaluation(each.policy, each.binding, inputs)
            with each.meter.paused():
                yield evaluation


@dataclass(frozen=True, slots=True)
class _Validation(Stage):
    policies: ValidatingAdmissionPolicies
    attributes: Attributes

    async def validate(self) -> None:
        await self.policies.validate(self.attributes)


def conclude(evaluations: Iterable[Evaluation], attributes: Attributes) -> APIError | None:
    """Warn and log as the bindings ask. Returns the error of the first policy that denies the write, if any."""
    denials = [
        (evaluation.title, failure)
        for evaluation in evaluations
        for failure in _recorded(evaluation)
        if _acts(evaluation, failure, attributes)
    ]
    return _denied(attributes, *denials[0]) if denials else None


def _recorded(evaluation: Evaluation) -> Sequence[Failure]:
    """Log the audit annotations of an evaluation, and return its failures."""
    for key, value in evaluation.annotations.items():
        _log.info("Audit annotation recorded", key=key, value=value)
    return evaluation.failures


def _acts(evaluation: Evaluation, failure: Failure, attributes: Attributes) -> bool:
    """Warn and log a failure, if the binding asks for it. Returns whether the failure rejects the write."""
    if failure.denies or evaluation.binding is None:
        return True
    actions = evaluation.binding.actions
    if "Warn" in actions:
        title = evaluation.title
        attributes.warnings.append(f"Validation failed for ValidatingAdmissionPolicy {title}: {failure.message}")
    if "Audit" in actions:
        _log.info(
            "Validation failed",
            policy=evaluation.policy.name,
            binding=evaluation.binding.name,
            expression=failure.index,
            message=failure.message,
        )
    return "Deny" in actions


def _evaluation(policy: ValidatingPolicy, binding: Binding, inputs: Inputs) -> Evaluation:
    """Evaluate a policy for one binding and parameter."""
    try:
        if not policy.meets_conditions(inputs):
            return Evaluation(policy, binding, meets_conditions=False)
        results, budget = inputs.evaluate(policy.expressions, BUDGET)
        failures = list(_validation_failures(policy, results, inputs, budget))
        annotations, _ = inputs.evaluate(policy.annotation_values, BUDGET, has_authorizer=False)
    except (OutOfBudget, PolicyError) as error:
        return Evaluation(policy, binding, failures=[Failure(str(error))] if policy.fails else [])
    failures += [Failure(each.error, denies=True) for each in annotations if each.error and policy.fails]
    return Evaluation(policy, binding, failures=failures, annotations=dict(_annotations(policy, annotations)))


def _validation_failures(
    policy: ValidatingPolicy, results: list[Result], inputs: Inputs, budget: int
) -> Iterator[Failure]:
    if all(each.value is True for each in results):
        return
    problem = ""
    messages = [Result()] * len(results)
    try:
        messages, _ = inputs.evaluate(policy.messages, budget, has_authorizer=False)
    except OutOfBudget as error:
        problem = f"failed messageExpression: {error}"
    for index, result in enumerate(results):
        if why := result.error or problem:
            if policy.fails:
                yield Failure(why, index)
        elif result.value is not True:
            spec = policy.validations[index]
            message = _shown(messages[index]) or (spec.get("message") or "").strip()
            message = message or f"failed expression: {spec['expression'].strip()}"
            yield Failure(message, index, spec.get("reason") or "Invalid")


def _shown(result: Result) -> str:
    """Return the value of a message expression; empty if it does not fit into one line of a response."""
    text = result.value.strip() if isinstance(result.value, str) else ""
    return "" if len(text.encode()) > LONGEST_MESSAGE or "\n" in text else text


def _annotations(policy: ValidatingPolicy, results: list[Result]) -> Iterator[tuple[str, str]]:
    """Yield the audit annotations that have a value."""
    for annotation, result in zip(policy.annotations, results, strict=True):
        text = result.value.strip() if isinstance(result.value, str) else ""
        if text:
            yield f"{policy.name}/{annotation['key']}", text.encode()[:LONGEST_ANNOTATION].decode(errors="ignore")


def _denied(attributes: Attributes, title: str, failure: Failure) -> APIError:
    why = f"ValidatingAdmissionPolicy {title} denied request: {failure.message}"
    status = rejection(attributes, why).status
    details = replace(status.details or StatusDetails(), causes=(StatusCause(message=why),))
    return _ERRORS.get(failure.reason, Invalid)(status.message, details=details, reason=failure.reason)

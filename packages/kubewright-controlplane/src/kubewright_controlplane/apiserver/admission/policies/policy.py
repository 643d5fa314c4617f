"""Stored policies and bindings, compiled.

Follows k8s.io/apiserver pkg/admission/plugin/policy/{validating,mutating}.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kubewright.cel.syntax import CompileError
from kubewright.cel.types import BOOL, JSON_PATCH, NULL, OBJECT, STRING, Type, list_of
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.admission.expressions import CONDITIONS_BUDGET
from kubewright_controlplane.apiserver.admission.matching import Criteria
from kubewright_controlplane.apiserver.admission.policies.evaluation import Compiled, Inputs, OutOfBudget
from kubewright_controlplane.schema.cel.composition import Composition


class PolicyError(Exception):
    """A policy cannot be evaluated for a write. Its failure policy decides what happens to the write."""


class Binding:
    """A binding of a policy: where the policy is enforced, and with which parameters."""

    def __init__(self, obj: JSONObject) -> None:
        spec = obj["spec"]
        self.name: str = obj["metadata"]["name"]
        self.policy: str = spec["policyName"]
        self.criteria = Criteria.of_policy(spec.get("matchResources"))
        self.param_ref: JSONObject | None = spec.get("paramRef")
        self.actions: tuple[str, ...] = tuple(spec.get("validationActions") or ())


class Policy:
    """What both kinds of policies have."""

    def __init__(self, obj: JSONObject) -> None:
        spec = obj["spec"]
        self.name: str = obj["metadata"]["name"]
        self.criteria = Criteria.of_policy(spec.get("matchConstraints"))
        self.fails: bool = spec.get("failurePolicy", "Fail") != "Ignore"
        """Whether an error of the policy rejects the write."""
        kind = spec.get("paramKind")
        self.param_kind = GroupVersionKind.parse(kind["apiVersion"], kind["kind"]) if kind else None
        self._composition = Composition(has_parameters=kind is not None)
        for variable in spec.get("variables") or ():
            with suppress(CompileError):  # the composition reports it where the variable is used
                self._composition.declare(variable["name"], variable["expression"])
        self._conditions = [self._compiled(each["expression"], BOOL) for each in spec.get("matchConditions") or ()]

    @property
    def variables(self) -> dict[str, Compiled]:
        return self._composition.variables

    def _compiled(self, source: str, *wanted: Type, **options: Any) -> Compiled:
        try:
            return self._composition.compile(source, *wanted, **options)
        except CompileError as error:
            return error

    def meets_conditions(self, inputs: Inputs) -> bool:
        """Return whether all match conditions are true.

        A condition that is false decides. Otherwise, if one has no value, raises PolicyError, or, if the failure
        policy is Ignore, returns False.
        """
        if not self._conditions:
            return True
        try:
            results, _ = inputs.evaluate(self._conditions, CONDITIONS_BUDGET)
        except OutOfBudget as error:
            errors = [str(error)]
        else:
            if any(each.value is False for each in results):
                return False
            errors = [each.error for each in results if each.error]
        if errors and self.fails:
            distinct = list(dict.fromkeys(errors))
            raise PolicyError(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")
        return not errors


class ValidatingPolicy(Policy):
    """A ValidatingAdmissionPolicy."""

    def __init__(self, obj: JSONObject) -> None:
        super().__init__(obj)
        spec = obj["spec"]
        self.validations: Sequence[JSONObject] = spec.get("validations") or ()
        self.annotations: Sequence[JSONObject] = spec.get("auditAnnotations") or ()
        self.expressions = [self._compiled(each["expression"], BOOL) for each in self.validations]
        self.messages = [
            self._compiled(source, STRING, has_authorizer=False) if (source := each.get("messageExpression")) else None
            for each in self.validations
        ]
        self.annotation_values = [self._compiled(each["valueExpression"], STRING, NULL) for each in self.annotations]


class MutatingPolicy(Policy):
    """A MutatingAdmissionPolicy."""

    def __init__(self, obj: JSONObject) -> None:
        super().__init__(obj)
        spec = obj["spec"]
        self.is_reinvoked: bool = spec.get("reinvocationPolicy") == "IfNeeded"
        """Whether the policy is evaluated again if the object changes after its first evaluation."""
        self.mutations = [self._mutation(each) for each in spec.get("mutations") or ()]
        """The patch type of each mutation, and its expression."""

    def _mutation(self, mutation: JSONObject) -> tuple[str, Compiled]:
        patch_type = mutation["patchType"]
        if patch_type == "JSONPatch":
            field, wanted = "jsonPatch", list_of(JSON_PATCH)
        else:
            field, wanted = "applyConfiguration", OBJECT
        return patch_type, self._compiled(mutation[field]["expression"], wanted, patches=True)

"""The errors of ValidatingAdmissionPolicies and MutatingAdmissionPolicies, and of their bindings.

They are found without a server, so that a policy can be checked before it is installed.

Follows k8s.io/kubernetes pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kubewright.cel.syntax import CompileError
from kubewright.cel.types import BOOL, JSON_PATCH, NULL, OBJECT, STRING, Type, list_of
from kubewright.machinery import names
from kubewright.machinery.cel_names import is_identifier
from kubewright.machinery.fields import OMITTED, FieldError, duplicate, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.admissionregistration.criteria import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    condition_errors,
    default_match,
    match_errors,
)
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.schema.cel.composition import Composition

_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_PATCH_TYPES: Final = ("ApplyConfiguration", "JSONPatch")
_MUTABLE: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_LONGEST_POLICY: Final = 32 * 1024
"""The characters of all expressions of a policy. A real API server has no such limit, but compiles faster."""
_MOST_ANNOTATIONS: Final = 20
_LONGEST_ANNOTATION: Final = 5 * 1024
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_NOT_FOUND_ACTIONS: Final = ("Deny", "Allow")


def default_policy(obj: JSONObject) -> None:
    """Set the defaults of a policy, in place."""
    spec: JSONObject = obj.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    match = spec.get("matchConstraints")
    if match is not None:
        default_match(match)


def validating_policy_errors(obj: JSONObject) -> list[FieldError]:
    """Return the errors of a ValidatingAdmissionPolicy with defaults."""
    spec: JSONObject = obj["spec"]
    if errors := _size_errors(spec):
        return errors
    variables: Sequence[JSONObject] = spec.get("variables") or ()
    composition = Composition(has_parameters=spec.get("paramKind") is not None, has_variables=bool(variables))
    errors = _match_errors(spec) + _condition_errors(spec)
    errors += _variable_errors(composition, variables)
    validations: Sequence[JSONObject] = spec.get("validations") or ()
    annotations: Sequence[JSONObject] = spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        why = "validations or auditAnnotations must contain at least one item"
        return [*errors, required("spec.validations", why), required("spec.auditAnnotations", why)]
    for index, validation in enumerate(validations):
        errors += _validation_errors(composition, f"spec.validations[{index}]", validation)
    name = obj["metadata"].get("name") or ""
    return errors + _annotation_errors(composition, name, annotations)


def mutating_policy_errors(obj: JSONObject) -> list[FieldError]:
    """Return the errors of a MutatingAdmissionPolicy with defaults."""
    spec: JSONObject = obj["spec"]
    if errors := _size_errors(spec):
        return errors
    composition = Composition(has_parameters=spec.get("paramKind") is not None)
    errors = _match_errors(spec)
    errors += _operation_errors("spec.matchConstraints", spec.get("matchConstraints"))
    errors += _condition_errors(spec)
    errors += _variable_errors(composition, spec.get("variables") or ())
    mutations: Sequence[JSONObject] = spec.get("mutations") or ()
    if not mutations:
        errors.append(required("spec.mutations", "mutations must contain at least one item"))
    for index, mutation in enumerate(mutations):
        errors += _mutation_errors(composition, f"spec.mutations[{index}]", mutation)
    return errors + checks.one_of("spec.reinvocationPolicy", spec.get("reinvocationPolicy"), REINVOCATION_POLICIES)


def validating_binding_errors(obj: JSONObject) -> list[FieldError]:
    """Return the errors of a ValidatingAdmissionPolicyBinding with defaults."""
    actions = (obj.get("spec") or {}).get("validationActions") or ()
    return _binding_errors(obj) + _action_errors("spec.validationActions", actions)


def mutating_binding_errors(obj: JSONObject) -> list[FieldError]:
    """Return the errors of a MutatingAdmissionPolicyBinding with defaults."""
    match = (obj.get("spec") or {}).get("matchResources")
    return _binding_errors(obj) + _operation_errors("spec.matchResources", match)


def _binding_errors(obj: JSONObject) -> list[FieldError]:
    spec: JSONObject = obj.get("spec") or {}
    errors = checks.required_name("spec.policyName", spec.get("policyName"), names.dns1123_subdomain)
    errors += _reference_errors("spec.paramRef", spec.get("paramRef"))
    return errors + match_errors("spec.matchResources", spec.get("matchResources"))


def _size_errors(spec: JSONObject) -> list[FieldError]:
    size = sum(map(len, _expressions(spec)))
    if size <= _LONGEST_POLICY:
        return []
    why = f"has expressions of {size} characters; at most {_LONGEST_POLICY} are compiled, so split the policy"
    return [invalid("spec", OMITTED, why)]


def _match_errors(spec: JSONObject) -> list[FieldError]:
    """Return the errors of the fields that both kinds of policies have, before their variables."""
    errors = checks.one_of("spec.failurePolicy", spec.get("failurePolicy"), FAILURE_POLICIES)
    errors += _parameter_kind_errors("spec.paramKind", spec.get("paramKind"))
    match = spec.get("matchConstraints")
    if match is None:
        errors.append(required("spec.matchConstraints"))
    else:
        errors += match_errors("spec.matchConstraints", match)
        if not match.get("resourceRules"):
            errors.append(required("spec.matchConstraints.resourceRules"))
    return errors


def _condition_errors(spec: JSONObject) -> list[FieldError]:
    # a condition cannot use the policy's variables
    composition = Composition(has_parameters=spec.get("paramKind") is not None, has_variables=False)
    return condition_errors("spec.matchConditions", spec.get("matchConditions") or (), composition.types)


def _expressions(spec: JSONObject) -> Iterator[str]:
    """Yield the source of each expression of a policy."""
    parts = [
        each
        for field in ("matchConditions", "variables", "validations", "auditAnnotations", "mutations")
        for each in spec.get(field) or ()
    ]
    parts += [patch for part in parts for field in ("jsonPatch", "applyConfiguration") if (patch := part.get(field))]
    for part in parts:
        yield from (part.get(field) or "" for field in ("expression", "messageExpression", "valueExpression"))


def _operation_errors(path: str, match: JSONObject | None) -> list[FieldError]:
    """Return an error for each operation that a mutating policy cannot match, since it has no object to change."""
    rules: Sequence[JSONObject] = (match or {}).get("resourceRules") or ()
    return [
        not_supported(f"{path}.resourceRules.operations", operation, _MUTABLE)
        for rule in rules
        for operation in rule.get("operations") or ()
        if operation not in _MUTABLE
    ]


def _parameter_kind_errors(path: str, kind: JSONObject | None) -> list[FieldError]:
    if kind is None:
        return []
    errors = _api_version_errors(f"{path}.apiVersion", kind.get("apiVersion") or "")
    name = kind.get("kind") or ""
    if not name:
        errors.append(required(f"{path}.kind"))
    elif texts := names.dns1035_label(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(texts)}"
        errors.append(invalid(f"{path}.kind", name, detail))
    return errors


def _api_version_errors(path: str, value: str) -> list[FieldError]:
    if not value:
        return [required(path)]
    if value.count("/") > 1:
        return [invalid(path, value, f"unexpected GroupVersion string: {value}")]
    group, _, version = value.rpartition("/")
    errors: list[FieldError] = []
    if group and (texts := names.dns1123_subdomain(group)):
        errors.append(invalid(path, group, ",".join(texts)))
    if not version:
        errors.append(invalid(path, value, "version must be specified"))
    elif texts := names.dns1035_label(version):
        errors.append(invalid(path, version, ",".join(texts)))
    return errors


def _variable_errors(composition: Composition, variables: Sequence[JSONObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        path = f"spec.variables[{index}]"
        name, source = variable.get("name") or "", variable.get("expression") or ""
        if not name.strip():
            errors.append(required(f"{path}.name", "name is not specified"))
        elif not is_identifier(name):
            errors.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
        if not source.strip():
            errors.append(required(f"{path}.expression", "expression is not specified"))
            continue
        try:
            composition.declare(name, source)
        except CompileError as error:
            errors.append(invalid(f"{path}.expression", source, str(error)))
    return errors


def _validation_errors(composition: Composition, path: str, validation: JSONObject) -> list[FieldError]:
    source, message = validation.get("expression") or "", validation.get("message") or ""
    errors: list[FieldError] = []
    if not source.strip():
        errors.append(required(f"{path}.expression", "expression is not specified"))
    else:
        errors += _compile_errors(composition, f"{path}.expression", source, BOOL)
    if expression := validation.get("messageExpression") or "":
        at = f"{path}.messageExpression"
        if not expression.strip():
            errors.append(invalid(at, expression, "must be non-empty if specified"))
        else:
            errors += _compile_errors(composition, at, expression, STRING, has_authorizer=False)
    if message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip() or "\r" in message.strip():
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        errors.append(not_supported(f"{path}.reason", reason, _REASONS))
    return errors


def _compile_errors(
    composition: Composition,
    path: str,
    source: str,
    wanted: Type,
    *,
    has_authorizer: bool = True,
    patches: bool = False,
) -> list[FieldError]:
    try:
        composition.compile(source, wanted, has_authorizer=has_authorizer, patches=patches)
    except CompileError as error:
        return [invalid(path, source, str(error))]
    return []


def _annotation_errors(composition: Composition, name: str, annotations: Sequence[JSONObject]) -> list[FieldError]:
    path = "spec.auditAnnotations"
    errors: list[FieldError] = []
    if len(annotations) > _MOST_ANNOTATIONS:
        shown = [{"Key": each.get("key"), "ValueExpression": each.get("valueExpression")} for each in annotations]
        errors.append(invalid(path, shown, f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"))
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        at = f"{path}[{index}]"
        key = annotation.get("key") or ""
        errors += checks.named(f"{at}.key", f"{name}/{key}", names.qualified_name)
        errors += _annotation_value_errors(composition, f"{at}.valueExpression", annotation)
        if key in seen:
            errors.append(duplicate(f"{at}.key", key))
        seen.add(key)
    return errors


def _annotation_value_errors(composition: Composition, path: str, annotation: JSONObject) -> list[FieldError]:
    source = annotation.get("valueExpression") or ""
    trimmed = source.strip()
    if not trimmed:
        return [required(path, "valueExpression is not specified")]
    if len(trimmed.encode()) > _LONGEST_ANNOTATION:
        return [required(path, f"must not exceed {_LONGEST_ANNOTATION} bytes in length")]
    try:
        composition.compile(trimmed, STRING, NULL)
    except CompileError as error:
        return [invalid(path, source, str(error))]
    return []


def _mutation_errors(composition: Composition, path: str, mutation: JSONObject) -> list[FieldError]:
    patch_type = mutation.get("patchType") or ""
    errors = checks.one_of(f"{path}.patchType", patch_type, _PATCH_TYPES)
    if errors:
        return errors
    own, other = ("jsonPatch", "applyConfiguration")
    wanted = list_of(JSON_PATCH)
    if patch_type == "ApplyConfiguration":
        own, other, wanted = other, own, OBJECT
    patch = mutation.get(own)
    if patch is None:
        errors.append(required(f"{path}.{own}", f"must be specified when patchType is {patch_type}"))
    else:
        at, source = f"{path}.{own}.expression", (patch.get("expression") or "").strip()
        errors += _compile_errors(composition, at, source, wanted, patches=True) if source else [required(at)]
    if mutation.get(other) is not None:
        detail = f"must not be specified when patchType is {patch_type}"
        errors.append(invalid(f"{path}.{other}", f"{{{other}}}", detail))
    return errors


def _action_errors(path: str, actions: Sequence[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    repeated = checks.repeated(actions)
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(not_supported(f"{path}[{index}]", action, _ACTIONS))
        if index in repeated:
            errors.append(duplicate(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        why = "repeating the same validation failure information in the API response and headers serves no purpose"
        errors.append(invalid(path, list(actions), f"must not contain both Deny and Warn ({why})"))
    if not actions:
        errors.append(required(path, "at least one validation action is required"))
    return errors


def _reference_errors(path: str, reference: JSONObject | None) -> list[FieldError]:
    if reference is None:
        return []
    name, selector = reference.get("name") or "", reference.get("selector")
    errors = checks.named(f"{path}.name", name, names.path_segment)
    exclusive = "name and selector are mutually exclusive"
    if name and selector is not None:
        errors.append(forbidden(f"{path}.name", exclusive))
    errors += checks.label_selector(f"{path}.selector", selector)
    if name and selector is not None:
        errors.append(forbidden(f"{path}.selector", exclusive))
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    return errors + checks.one_of(f"{path}.parameterNotFoundAction", action, _NOT_FOUND_ACTIONS)

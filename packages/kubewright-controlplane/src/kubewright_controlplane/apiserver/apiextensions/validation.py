"""Validation of CustomResourceDefinitions.

Follows k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubewright.machinery import names
from kubewright.machinery.fields import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright_controlplane.apiserver.apiextensions.versions import (
    shared_errors,
    shared_parts,
    shown,
    version_errors,
    version_name_errors,
)
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.webhooks.validation import client_config_errors, review_version_errors

_SCOPES: Final = ("Cluster", "Namespaced")


def validate(crd: JSONObject) -> list[FieldError]:
    """Return the errors of a definition, except those of its metadata."""
    spec: JSONObject = crd["spec"]
    errors = _name_errors(crd)
    errors += _group_errors(spec)
    errors += checks.one_of("spec.scope", spec.get("scope"), _SCOPES)
    versions: list[JSONObject] = spec.get("versions") or []
    shared = shared_parts(versions)
    errors += _versions_errors(spec, versions, shared)
    errors += _names_errors(spec.get("names") or {})
    errors += shared_errors(shared, versions)
    conversion: JSONObject = spec.get("conversion") or {}
    errors += _conversion_errors(conversion) + _selectable_errors(conversion, versions)
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid("spec.preserveUnknownFields", True, why))
    return errors + _stored_errors(crd, versions)


def validate_update(crd: JSONObject, old: JSONObject, *, established: bool) -> list[FieldError]:
    """Return the errors of a change. Names and scope cannot change once objects are stored under them."""
    new_spec, old_spec = crd["spec"], old["spec"]
    new_names, old_names = new_spec["names"], old_spec["names"]
    errors: list[FieldError] = []
    if established:
        errors += checks.immutable("spec.scope", new_spec.get("scope"), old_spec.get("scope"))
        errors += checks.immutable("spec.names.kind", new_names.get("kind"), old_names.get("kind"))
    errors += checks.immutable("spec.group", new_spec.get("group"), old_spec.get("group"))
    return errors + checks.immutable("spec.names.plural", new_names.get("plural"), old_names.get("plural"))


def _name_errors(crd: JSONObject) -> list[FieldError]:
    # an update cannot change the name, and reports what it does change separately
    if crd["metadata"].get("resourceVersion"):
        return []
    name, spec = crd["metadata"].get("name") or "", crd["spec"]
    plural, group = (spec.get("names") or {}).get("plural") or "", spec.get("group") or ""
    if name == f"{plural}.{group}":
        return []
    return [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _group_errors(spec: JSONObject) -> list[FieldError]:
    group = spec.get("group") or ""
    if not group:
        return [required("spec.group")]
    wrong = names.dns1123_subdomain(group)
    if wrong:
        return [invalid("spec.group", group, ",".join(wrong))]
    return [] if "." in group else [invalid("spec.group", group, "should be a domain with at least one dot")]


def _versions_errors(spec: JSONObject, versions: list[JSONObject], shared: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    if "schema" not in shared:
        for index, version in enumerate(versions):
            if not (version.get("schema") or {}).get("openAPIV3Schema"):
                errors.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    if spec.get("preserveUnknownFields") and any(_has_default(each.get("schema")) for each in versions):
        why = "must be false in order to use defaults in the schema"
        errors.append(invalid("spec.preserveUnknownFields", True, why))
    for index, version in enumerate(versions):
        errors += version_errors(f"spec.versions[{index}]", version, shared)
    path, value = "spec.versions", shown(versions, shared)
    if len({each.get("name") for each in versions}) < len(versions):
        errors.append(invalid(path, value, "must contain unique version names"))
    if sum(1 for each in versions if each.get("storage")) != 1:
        errors.append(invalid(path, value, "must have exactly one version marked as storage version"))
    if versions and versions[0].get("name"):  # `spec.version` is the name of the first version, as in v1beta1
        errors += version_name_errors("spec.version", versions[0])
    return errors


def _names_errors(given: JSONObject) -> list[FieldError]:
    path = "spec.names"
    errors = [
        required(f"{path}.{field}") for field in ("plural", "singular", "kind", "listKind") if not given.get(field)
    ]  # fmt: skip
    for field in ("plural", "singular"):
        errors += _label_errors(f"{path}.{field}", given.get(field) or "")
    for field in ("kind", "listKind"):
        name = given.get(field) or ""
        wrong = names.dns1035_label(name.lower()) if name else []
        if wrong:
            why = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            errors.append(invalid(f"{path}.{field}", name, why))
    for field in ("shortNames", "categories"):
        for index, name in enumerate(given.get(field) or ()):
            errors += _label_errors(f"{path}.{field}[{index}]", name)
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        errors.append(invalid(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same"))
    return errors


def _label_errors(path: str, name: str) -> list[FieldError]:
    wrong = names.dns1035_label(name) if name else []
    return [invalid(path, name, ",".join(wrong))] if wrong else []


def _conversion_errors(conversion: JSONObject) -> list[FieldError]:
    strategy = conversion.get("strategy") or ""
    if not strategy:
        return [required("spec.conversion.strategy")]
    if strategy not in ("None", "Webhook"):
        return [not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))]
    webhook: JSONObject = conversion.get("webhook") or {}
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy == "None":
        why = "should not be set when strategy is not set to Webhook"
        errors = [forbidden("spec.conversion.webhookClientConfig", why)] if config is not None else []
        return errors + ([forbidden("spec.conversion.conversionReviewVersions", why)] if versions else [])
    if config is None:
        errors = [required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")]
    else:
        errors = client_config_errors("spec.conversion.webhookClientConfig", config)
    return errors + _review_version_errors("spec.conversion.conversionReviewVersions", versions)


def _review_version_errors(path: str, versions: list[str]) -> list[FieldError]:
    return review_version_errors(path, versions) if versions else [required(path)]


def _selectable_errors(conversion: JSONObject, versions: list[JSONObject]) -> list[FieldError]:
    """Reject field selectors that differ between versions that a webhook converts: a real API server selects by the
    converted object, this one by the object as it was written.
    """
    if conversion.get("strategy") != "Webhook":
        return []
    first = (versions[0] if versions else {}).get("selectableFields") or []
    why = "must be the same in all versions with a conversion webhook on the embedded API server"
    return [
        forbidden(f"spec.versions[{index}].selectableFields", why)
        for index, each in enumerate(versions)
        if (each.get("selectableFields") or []) != first
    ]


def _stored_errors(crd: JSONObject, versions: list[JSONObject]) -> list[FieldError]:
    path, stored = "status.storedVersions", (crd.get("status") or {}).get("storedVersions") or []
    if not stored:
        return [invalid(path, None, "must have at least one stored version")]
    known = [each.get("name") for each in versions]
    errors = [
        invalid(path, stored, f"must have the storage version {each.get('name')}")
        for each in versions
        if each.get("storage") and each.get("name") not in stored
    ]
    return errors + [
        invalid(
            f"{path}[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
            f"until a storage migration ensures no data remains persisted in {name} and removes {name} "
            "from status.storedVersions",
        )
        for index, name in enumerate(stored)
        if name not in known
    ]


def _has_default(schema: Any) -> bool:
    """Return whether a schema contains a `default`."""
    if is_object(schema):
        return "default" in schema or any(map(_has_default, schema.values()))
    return is_array(schema) and any(map(_has_default, schema))

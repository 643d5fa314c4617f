"""What a CustomResourceDefinition may say.

Follows k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.apiserver.registry import checks
from kubewright.machinery import names
from kubewright.machinery.fields import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubewright.machinery.json import JSONObject
from kubewright.schema.check import check

_SCOPES: Final = ("Cluster", "Namespaced")
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MAX_SELECTABLE: Final = 8
_AT_ROOT_WITH_STATUS: Final = frozenset(
    {
        "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
        "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items",
        "properties", "externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
    }
)  # fmt: skip


def validate(crd: JSONObject) -> list[FieldError]:
    """Faults of a definition, but for those of its metadata."""
    spec: JSONObject = crd["spec"]
    faults = _name_faults(crd)
    faults += _group_faults(spec)
    faults += checks.one_of("spec.scope", spec.get("scope"), _SCOPES)
    versions: list[JSONObject] = spec.get("versions") or []
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            faults.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    for index, version in enumerate(versions):
        faults += _version_faults(f"spec.versions[{index}]", version)
    shown = [each.get("name") or "" for each in versions]
    if len(set(shown)) < len(shown):
        faults.append(invalid("spec.versions", versions, "must contain unique version names"))
    if sum(1 for each in versions if each.get("storage")) != 1:
        faults.append(invalid("spec.versions", versions, "must have exactly one version marked as storage version"))
    faults += _names_faults(spec.get("names") or {})
    faults += _conversion_faults(spec.get("conversion") or {})
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        faults.append(invalid("spec.preserveUnknownFields", True, why))
    return faults + _stored_faults(crd, versions)


def validate_update(crd: JSONObject, old: JSONObject, *, established: bool) -> list[FieldError]:
    """Faults of a change: what is stored under a definition's names and scope cannot follow a change of them."""
    new_spec, old_spec = crd["spec"], old["spec"]
    new_names, old_names = new_spec["names"], old_spec["names"]
    faults: list[FieldError] = []
    if established:
        faults += checks.immutable("spec.scope", new_spec.get("scope"), old_spec.get("scope"))
        faults += checks.immutable("spec.names.kind", new_names.get("kind"), old_names.get("kind"))
    faults += checks.immutable("spec.group", new_spec.get("group"), old_spec.get("group"))
    return faults + checks.immutable("spec.names.plural", new_names.get("plural"), old_names.get("plural"))


def _name_faults(crd: JSONObject) -> list[FieldError]:
    if crd["metadata"].get("resourceVersion"):  # an update cannot change the name; what it changes is told of itself
        return []
    name, spec = crd["metadata"].get("name") or "", crd["spec"]
    plural, group = (spec.get("names") or {}).get("plural") or "", spec.get("group") or ""
    if name == f"{plural}.{group}":
        return []
    return [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _group_faults(spec: JSONObject) -> list[FieldError]:
    group = spec.get("group") or ""
    if not group:
        return [required("spec.group")]
    wrong = names.dns1123_subdomain(group)
    if wrong:
        return [invalid("spec.group", group, ",".join(wrong))]
    return [] if "." in group else [invalid("spec.group", group, "should be a domain with at least one dot")]


def _version_faults(path: str, version: JSONObject) -> list[FieldError]:
    name = version.get("name") or ""
    wrong = names.dns1035_label(name)
    faults = [invalid(f"{path}.name", name, ",".join(wrong))] if wrong else []
    warning = version.get("deprecationWarning")
    if warning is not None:
        faults += [invalid(f"{path}.deprecationWarning", warning, why) for why in _warning_faults(version, warning)]
    subresources = version.get("subresources") or {}
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema:
        faults += _schema_faults(f"{path}.schema", schema, has_status="status" in subresources)
    faults += _scale_faults(f"{path}.subresources", subresources.get("scale"))
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        faults += _column_faults(f"{path}.additionalPrinterColumns[{index}]", column)
    selectable = version.get("selectableFields") or []
    if selectable and not schema:
        why = "may only be set when `version.schema.openAPIV3Schema` is not included"
        return [*faults, invalid(f"{path}.selectableFields", "", why)]
    return faults + _selectable_faults(f"{path}.selectableFields", selectable, schema or {})


def _warning_faults(version: JSONObject, warning: str) -> Iterator[str]:
    if not version.get("deprecated"):
        yield "can only be set for deprecated versions"
        return
    if len(warning) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    if not warning.isprintable():
        yield "must only contain printable UTF-8 characters"


def _schema_faults(path: str, schema: JSONObject, *, has_status: bool) -> list[FieldError]:
    faults: list[FieldError] = []
    if has_status:
        if schema.get("type") != "object":
            why = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            faults.append(invalid(f"{path}.openAPIV3Schema.type", schema.get("type") or "", why))
        elif any(field not in _AT_ROOT_WITH_STATUS for field in schema if schema[field]):
            listed = " ".join(sorted(_AT_ROOT_WITH_STATUS))
            why = f"only [{listed}] fields are allowed at the root of the schema if the status subresource is enabled"
            faults.append(invalid(f"{path}.openAPIV3Schema", schema, why))
    if schema.get("nullable"):
        faults.append(forbidden(f"{path}.openAPIV3Schema.nullable", "nullable cannot be true at the root"))
    structural = check(schema)
    return faults + [FieldError(each.reason, f"{path}.{each.field}", each.value, each.detail) for each in structural]


def _scale_faults(path: str, scale: JSONObject | None) -> list[FieldError]:
    if scale is None:
        return []
    faults: list[FieldError] = []
    for field, root in (("specReplicasPath", "spec"), ("statusReplicasPath", "status")):
        at, value = f"{path}.scale.{field}", scale.get(field) or ""
        if not value:
            faults.append(required(at))
        elif _simple_path_faults(at, value):
            faults += _simple_path_faults(at, value)
        elif not value.startswith(f".{root}."):
            faults.append(invalid(at, value, f"should be a json path under .{root}"))
    selector = scale.get("labelSelectorPath")
    if selector:
        at = f"{path}.scale.labelSelectorPath"
        wrong = _simple_path_faults(at, selector)
        faults += wrong
        if not wrong and not selector.startswith((".spec.", ".status.")):
            faults.append(invalid(at, selector, "should be a json path under either .spec or .status"))
    return faults


def _column_faults(path: str, column: JSONObject) -> list[FieldError]:
    faults = [] if column.get("name") else [required(f"{path}.name")]
    kind, style, json_path = (column.get(field) or "" for field in ("type", "format", "jsonPath"))
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        faults.append(required(f"{path}.type", types))
    elif kind not in _COLUMN_TYPES:
        faults.append(invalid(f"{path}.type", kind, types))
    if style and style not in _COLUMN_FORMATS:
        faults.append(invalid(f"{path}.format", style, f"must be one of {','.join(_COLUMN_FORMATS)}"))
    if not json_path:
        return [*faults, required(f"{path}.JSONPath")]
    return faults + _simple_path_faults(f"{path}.JSONPath", json_path)


def _simple_path_faults(path: str, value: str) -> list[FieldError]:
    return [] if value.startswith(".") else [invalid(path, value, "must be a simple json path starting with .")]


def _selectable_faults(path: str, fields: list[JSONObject], schema: JSONObject) -> list[FieldError]:
    faults: list[FieldError] = []
    seen: set[str] = set()
    for index, field in enumerate(fields):
        at, value = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not value:
            faults.append(required(at))
            continue
        found = _schema_at(schema, value)
        if found is None:
            faults.append(invalid(at, value, "is an invalid path: does not refer to a valid field"))
            continue
        if value.startswith(".metadata"):
            faults.append(invalid(at, value, "must not point to fields in metadata"))
        if found.get("type") not in ("string", "boolean", "integer"):
            why = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            faults.append(invalid(at, value, why))
        if value in seen:
            faults.append(duplicate(at, value))
        seen.add(value)
    return [*faults, too_many(path, len(seen), _MAX_SELECTABLE)] if len(seen) > _MAX_SELECTABLE else faults


def _schema_at(schema: JSONObject, path: str) -> JSONObject | None:
    if not path.startswith("."):
        return None
    found: JSONObject | None = schema
    for step in path[1:].split("."):
        found = ((found or {}).get("properties") or {}).get(step)
        if found is None:
            return None
    return found


def _names_faults(given: JSONObject) -> list[FieldError]:
    path = "spec.names"
    faults = [
        required(f"{path}.{field}") for field in ("plural", "singular", "kind", "listKind") if not given.get(field)
    ]  # fmt: skip
    for field in ("plural", "singular"):
        faults += _label_faults(f"{path}.{field}", given.get(field) or "")
    for field in ("kind", "listKind"):
        name = given.get(field) or ""
        wrong = names.dns1035_label(name.lower()) if name else []
        if wrong:
            why = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            faults.append(invalid(f"{path}.{field}", name, why))
    for field in ("shortNames", "categories"):
        for index, name in enumerate(given.get(field) or ()):
            faults += _label_faults(f"{path}.{field}[{index}]", name)
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        faults.append(invalid(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same"))
    return faults


def _label_faults(path: str, name: str) -> list[FieldError]:
    wrong = names.dns1035_label(name) if name else []
    return [invalid(path, name, ",".join(wrong))] if wrong else []


def _conversion_faults(conversion: JSONObject) -> list[FieldError]:
    strategy = conversion.get("strategy") or ""
    if not strategy:
        return [required("spec.conversion.strategy")]
    if strategy == "Webhook":
        why = "conversion webhooks are not supported yet by the embedded API server; use None, or a real API server"
        return [forbidden("spec.conversion.strategy", why)]
    if strategy != "None":
        return [not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))]
    if conversion.get("webhook"):
        why = "should not be set when strategy is not set to Webhook"
        return [forbidden("spec.conversion.webhookClientConfig", why)]
    return []


def _stored_faults(crd: JSONObject, versions: list[JSONObject]) -> list[FieldError]:
    path, stored = "status.storedVersions", (crd.get("status") or {}).get("storedVersions") or []
    if not stored:
        return [invalid(path, None, "must have at least one stored version")]
    known = [each.get("name") for each in versions]
    return [
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

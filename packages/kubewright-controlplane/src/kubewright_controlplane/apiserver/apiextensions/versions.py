"""Validation of the versions of a CustomResourceDefinition.

The API server validates what all versions have in common only once, and reports its errors at the v1beta1 field:
errors in the schema of the only version are at `spec.validation`, not at `spec.versions[0].schema`. For this reason a
real API server requires equal selectable fields in all versions if their schemas are equal, and so does this one.

Follows k8s.io/apiextensions-apiserver pkg/apis/apiextensions (v1/conversion.go and validation).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, invalid, required, too_many
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.schema.structural.check import check

_PARTS: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
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


def shared_parts(versions: Sequence[JSONObject]) -> Mapping[str, Any]:
    """Return the parts of versions that are equal in all of them."""
    first = versions[0] if versions else {}
    return {
        part: first[part]
        for part in _PARTS
        if first.get(part) and all(each.get(part) == first[part] for each in versions)
    }


def shown(versions: Sequence[JSONObject], shared: Mapping[str, Any]) -> list[JSONObject] | None:
    """Return versions as the API server shows them in an error: in its internal form, without the common parts."""
    return [
        {
            "Name": each.get("name") or "",
            "Served": each.get("served") or False,
            "Storage": each.get("storage") or False,
            "Deprecated": each.get("deprecated") or False,
            "DeprecationWarning": each.get("deprecationWarning"),
            **{f"{part[0].upper()}{part[1:]}": None if part in shared else each.get(part) for part in _PARTS},
        }
        for each in versions
    ] or None


def shared_errors(shared: Mapping[str, Any], versions: Sequence[JSONObject]) -> list[FieldError]:
    """Return the errors in the common parts."""
    has_status = any(_has_status(each) for each in versions)
    missing = "may only be set when validations.schema is included"
    return _part_errors("spec", "spec.validation", shared, has_status=has_status, missing=missing)


def version_errors(path: str, version: JSONObject, shared: Mapping[str, Any]) -> list[FieldError]:
    """Return the errors in the parts that belong to one version."""
    errors = version_name_errors(f"{path}.name", version)
    warning = version.get("deprecationWarning")
    if warning is not None:
        errors += [invalid(f"{path}.deprecationWarning", warning, why) for why in _warning_errors(version, warning)]
    own: dict[str, Any] = {part: version[part] for part in _PARTS if part in version and part not in shared}
    missing = "may only be set when `version.schema.openAPIV3Schema` is not included"
    return errors + _part_errors(path, f"{path}.schema", own, has_status=_has_status(version), missing=missing)


def version_name_errors(path: str, version: JSONObject) -> list[FieldError]:
    name = version.get("name") or ""
    wrong = names.dns1035_label(name)
    return [invalid(path, name, ",".join(wrong))] if wrong else []


def _part_errors(
    path: str, schema_path: str, parts: Mapping[str, Any], *, has_status: bool, missing: str
) -> list[FieldError]:
    errors: list[FieldError] = []
    schema = (parts.get("schema") or {}).get("openAPIV3Schema")
    if schema:
        errors += _schema_errors(schema_path, schema, has_status=has_status)
    errors += _scale_errors(f"{path}.subresources", (parts.get("subresources") or {}).get("scale"))
    for index, column in enumerate(parts.get("additionalPrinterColumns") or ()):
        errors += _column_errors(f"{path}.additionalPrinterColumns[{index}]", column)
    selectable = parts.get("selectableFields") or []
    if selectable and not schema:
        return [*errors, invalid(f"{path}.selectableFields", "", missing)]
    return errors + _selectable_errors(f"{path}.selectableFields", selectable, schema or {})


def _has_status(version: JSONObject) -> bool:
    return "status" in (version.get("subresources") or {})


def _warning_errors(version: JSONObject, warning: str) -> Iterator[str]:
    if not version.get("deprecated"):
        yield "can only be set for deprecated versions"
        return
    if len(warning) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    if not warning.isprintable():
        yield "must only contain printable UTF-8 characters"


def _schema_errors(path: str, schema: JSONObject, *, has_status: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if has_status:
        if schema.get("type") not in (None, "", "object"):
            why = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            errors.append(invalid(f"{path}.openAPIV3Schema.type", schema.get("type") or "", why))
        elif any(field not in _AT_ROOT_WITH_STATUS for field in schema if schema[field]):
            listed = " ".join(sorted(_AT_ROOT_WITH_STATUS))
            why = f"only [{listed}] fields are allowed at the root of the schema if the status subresource is enabled"
            errors.append(invalid(f"{path}.openAPIV3Schema", schema, why))
    structural = check(schema)
    return errors + [FieldError(each.reason, f"{path}.{each.field}", each.value, each.detail) for each in structural]


def _scale_errors(path: str, scale: JSONObject | None) -> list[FieldError]:
    if scale is None:
        return []
    errors: list[FieldError] = []
    for field, root in (("specReplicasPath", "spec"), ("statusReplicasPath", "status")):
        at, value = f"{path}.scale.{field}", scale.get(field) or ""
        if not value:
            errors.append(required(at))
        elif _simple_path_errors(at, value):
            errors += _simple_path_errors(at, value)
        elif not value.startswith(f".{root}."):
            errors.append(invalid(at, value, f"should be a json path under .{root}"))
    selector = scale.get("labelSelectorPath")
    if selector:
        at = f"{path}.scale.labelSelectorPath"
        wrong = _simple_path_errors(at, selector)
        errors += wrong
        if not wrong and not selector.startswith((".spec.", ".status.")):
            errors.append(invalid(at, selector, "should be a json path under either .spec or .status"))
    return errors


def _column_errors(path: str, column: JSONObject) -> list[FieldError]:
    errors = [] if column.get("name") else [required(f"{path}.name")]
    kind, style, json_path = (column.get(field) or "" for field in ("type", "format", "jsonPath"))
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        errors.append(required(f"{path}.type", types))
    elif kind not in _COLUMN_TYPES:
        errors.append(invalid(f"{path}.type", kind, types))
    if style and style not in _COLUMN_FORMATS:
        errors.append(invalid(f"{path}.format", style, f"must be one of {','.join(_COLUMN_FORMATS)}"))
    if not json_path:
        return [*errors, required(f"{path}.JSONPath")]
    return errors + _simple_path_errors(f"{path}.JSONPath", json_path)


def _simple_path_errors(path: str, value: str) -> list[FieldError]:
    return [] if value.startswith(".") else [invalid(path, value, "must be a simple json path starting with .")]


def _selectable_errors(path: str, fields: list[JSONObject], schema: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, field in enumerate(fields):
        at, value = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not value:
            errors.append(required(at))
            continue
        found = _schema_at(schema, value)
        if found is None:
            errors.append(invalid(at, value, "is an invalid path: does not refer to a valid field"))
            continue
        if value.startswith(".metadata"):
            errors.append(invalid(at, value, "must not point to fields in metadata"))
        if found.get("type") not in ("string", "boolean", "integer"):
            why = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            errors.append(invalid(at, value, why))
        if value in seen:
            errors.append(duplicate(at, value))
        seen.add(value)
    return [*errors, too_many(path, len(seen), _MAX_SELECTABLE)] if len(seen) > _MAX_SELECTABLE else errors


def _schema_at(schema: JSONObject, path: str) -> JSONObject | None:
    if not path.startswith("."):
        return None
    found: JSONObject | None = schema
    for step in path[1:].split("."):
        found = ((found or {}).get("properties") or {}).get(step)
        if found is None:
            return None
    return found

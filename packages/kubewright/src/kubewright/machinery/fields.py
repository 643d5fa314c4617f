"""Errors about one field of an object, with the API server's messages. Validators return them.

    return [fields.invalid("spec.replicas", 2, "must be odd")]

Follows k8s.io/apimachinery/pkg/util/validation/field.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

_WITHOUT_VALUE: Final = frozenset(
    {"FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong", "FieldValueTooShort", "InternalError"}
)

_TITLES: Final = {
    "FieldValueNotFound": "Not found",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooShort": "Too short",
    "FieldValueTooMany": "Too many",
    "FieldValueTooFew": "Too few",
    "FieldValueTypeInvalid": "Invalid value",
    "InternalError": "Internal error",
}

OMITTED: Final = object()
"""Stands for a value that messages do not show."""


class FieldError(msgspec.Struct, frozen=True):
    """One error: `field` is its path (`spec.ports[0].port`), `reason` the cause's reason in a Status."""

    reason: str
    field: str
    value: object = None
    detail: str = ""

    @property
    def body(self) -> str:
        """The message without the field, as in a Status cause: `Invalid value: 3: must be ...`."""
        text = _TITLES.get(self.reason, self.reason)
        if self.reason not in _WITHOUT_VALUE and self.value is not OMITTED:
            text += f": {_value_text(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def _value_text(value: object) -> str:
    import json

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, (dict, list)):  # Go's encoder is wary of HTML
        text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return text


def required(field: str, detail: str = "") -> FieldError:
    """Return the error of a field: a value is missing."""
    return FieldError("FieldValueRequired", field, "", detail)


def invalid(field: str, value: object, detail: str) -> FieldError:
    """Return the error of a field: a value breaks a rule; `detail` says which, as in "must be odd"."""
    return FieldError("FieldValueInvalid", field, value, detail)


def type_invalid(field: str, value: object, detail: str) -> FieldError:
    """Return the error of a field: a value has another type than the field."""
    return FieldError("FieldValueTypeInvalid", field, value, detail)


def not_supported(field: str, value: object, supported: Iterable[str]) -> FieldError:
    """Return the error of a field: a value is none of those that are supported."""
    detail = "supported values: " + ", ".join(f'"{each}"' for each in supported)
    return FieldError("FieldValueNotSupported", field, value, detail)


def duplicate(field: str, value: object) -> FieldError:
    """Return the error of a field: a value occurs twice where it must be unique."""
    return FieldError("FieldValueDuplicate", field, value)


def forbidden(field: str, detail: str) -> FieldError:
    """Return the error of a field: a field must not be set, or not be changed; `detail` says why."""
    return FieldError("FieldValueForbidden", field, None, detail)


def not_found(field: str, value: object) -> FieldError:
    """Return the error of a field: a value names something that does not exist."""
    return FieldError("FieldValueNotFound", field, value)


def too_long(field: str, limit: int) -> FieldError:
    """Return the error of a field: a text has more than `limit` bytes."""
    unit = "byte" if limit == 1 else "bytes"
    return FieldError("FieldValueTooLong", field, "", f"may not be more than {limit} {unit}")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """Return the error of a field: a list has `count` items, more than `limit`."""
    unit = "item" if limit == 1 else "items"
    return FieldError("FieldValueTooMany", field, count, f"must have at most {limit} {unit}")

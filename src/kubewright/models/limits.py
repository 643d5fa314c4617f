"""Whether a default keeps to the limits that stand beside it: the API server refuses a CRD in which it does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from kubewright.machinery.json import JSONObject

_TESTS: Final[dict[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "minimum": (lambda value, limit: value >= limit, "must be at least {}"),
    "maximum": (lambda value, limit: value <= limit, "must be at most {}"),
    "multipleOf": (lambda value, limit: value % limit == 0, "must be a multiple of {}"),
    "minLength": (lambda value, limit: len(value) >= limit, "must have at least {} characters"),
    "maxLength": (lambda value, limit: len(value) <= limit, "must have at most {} characters"),
    "pattern": (lambda value, limit: re.search(limit, value) is not None, 'must match "{}"'),
    "minItems": (lambda value, limit: len(value) >= limit, "must have at least {} items"),
    "maxItems": (lambda value, limit: len(value) <= limit, "must have at most {} items"),
    "minProperties": (lambda value, limit: len(value) >= limit, "must have at least {} entries"),
    "maxProperties": (lambda value, limit: len(value) <= limit, "must have at most {} entries"),
    "enum": (lambda value, limit: value in limit, "must be one of {}"),
}


def violations(schema: JSONObject, value: Any) -> list[str]:
    """What is wrong with `value`, which has the type that `schema` asks for."""
    faults = [
        text.format(schema[keyword])
        for keyword, (holds, text) in _TESTS.items()
        if keyword in schema and not holds(value, schema[keyword])
    ]
    if schema.get("exclusiveMinimum") and value == schema["minimum"]:
        faults.append(f"must be above {value}")
    if schema.get("exclusiveMaximum") and value == schema["maximum"]:
        faults.append(f"must be below {value}")
    return faults

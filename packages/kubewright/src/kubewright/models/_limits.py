"""Whether a default is of its type and keeps to the limits beside it: the API server refuses a CRD where it is not."""

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


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def violations(schema: JSONObject, value: Any) -> list[str]:
    """What is wrong with `value`, which is JSON."""
    wanted = schema.get("type")
    if wanted is not None and value.__class__ not in _TYPES[wanted]:
        return [f"must be of type {wanted}"]
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

"""Validation of kinds and their objects by the rules of an API server, in its words, without one.

The rules are in `kubewright_controlplane.schema`. An operator that does not validate loads none of it, and its image
does not contain it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeVar

from kubewright.machinery.errors import ConfigError, ModelError
from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import JSONObject, copied
from kubewright.models import codec
from kubewright.models._resource import Object
from kubewright.models._schema import root_schema

try:
    from kubewright_controlplane.schema.structural.check import check
    from kubewright_controlplane.schema.structural.schema import Schema
except ModuleNotFoundError as error:
    raise ConfigError(
        "validation needs the schema rules of an API server: pip install kubewright-controlplane (in tests and tools)"
    ) from error

T = TypeVar("T", bound=Object)


def validate(cls: type[T], obj: T | JSONObject, old: T | JSONObject | None) -> list[FieldError]:
    """See `CustomResource.validate`."""
    schema = _compiled(cls)
    return schema.validate(_stored(schema, obj), None if old is None else _stored(schema, old))


def check_schema(cls: type[Object], schema: JSONObject) -> None:
    """Raise ModelError for a kind whose schema an API server would reject, with the field and what is wrong with it."""
    if errors := check(schema, cls.__name__):
        listed = "; ".join(f"{_as_field(error.field)}: {error.body}{_hint(error.body)}" for error in errors)
        raise ModelError(f"an API server would reject the CRD: {listed}")


def _hint(message: str) -> str:
    """Name the field on the wire if a CEL rule uses its name in Python."""
    found = re.search(r"undefined field '(\w+_\w+)'", message)
    if found is None:
        return ""
    first, *rest = found[1].split("_")
    return f"\nRules use the names on the wire: {first}{''.join(each.title() for each in rest)}"


@cache
def _compiled(cls: type[Object]) -> Schema:
    schema = root_schema(cls)
    check_schema(cls, schema)
    return Schema.from_crd(schema)


def _stored(schema: Schema, obj: Object | JSONObject) -> JSONObject:
    """Return `obj` as an API server would store it: without unknown fields, with defaults."""
    document: Any = codec.to_dict(obj) if isinstance(obj, Object) else copied(obj)
    schema.prune(document)
    schema.default(document)
    stored: JSONObject = document
    return stored


def _as_field(path: str) -> str:
    """Convert a path in a schema to the field of the object: `Thing.spec.parts[].size.pattern`."""
    shorter = re.sub(r"\.properties\[([^\]]*)\]", r".\1", path)
    return shorter.replace(".items", "[]").replace(".additionalProperties", "[]")

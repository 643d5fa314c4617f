"""Kinds and their objects judged here by the rules of an API server, and in its words, without one.

What judges is the package `schema`, which an operator that does not ask loads nothing of. Patterns mean what RE2 says,
and are judged where it is installed (the extra `server`).
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

from kubewright.machinery.errors import ModelError
from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import JSONObject
from kubewright.models import codec
from kubewright.models._resource import Object
from kubewright.models._schema import root_schema
from kubewright_controlplane.schema.structural.check import check
from kubewright_controlplane.schema.structural.default import copied
from kubewright_controlplane.schema.structural.schema import Schema

T = TypeVar("T", bound=Object)


def validate(cls: type[T], obj: T | JSONObject, old: T | JSONObject | None) -> list[FieldError]:
    """What `CustomResource.validate` says."""
    schema = _compiled(cls)
    return schema.validate(_stored(schema, obj), None if old is None else _stored(schema, old))


def refuse_faulty(cls: type[Object], schema: JSONObject) -> None:
    """Raise ModelError for a kind whose schema an API server would refuse, with the field and what is wrong with it.

    A schema can have patterns: nothing is judged where RE2 is not installed.
    """
    if find_spec("kubewright_controlplane") is None:
        return
    if faults := check(schema, cls.__name__):
        listed = "; ".join(f"{_as_field(fault.field)}: {fault.body}" for fault in faults)
        raise ModelError(f"an API server would refuse the CRD: {listed}")


@cache
def _compiled(cls: type[Object]) -> Schema:
    return Schema.from_crd(root_schema(cls))


def _stored(schema: Schema, obj: Object | JSONObject) -> JSONObject:
    """`obj` as an API server would judge it: without unknown fields, with defaults."""
    document: Any = codec.to_dict(obj) if isinstance(obj, Object) else copied(obj)
    schema.prune(document)
    schema.default(document)
    stored: JSONObject = document
    return stored


def _as_field(path: str) -> str:
    """A place in a schema as the field of the object that it is about: `Thing.spec.parts[].size.pattern`."""
    shorter = re.sub(r"\.properties\[([^\]]*)\]", r".\1", path)
    return shorter.replace(".items", "[]").replace(".additionalProperties", "[]")

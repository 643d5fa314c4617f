"""What a schema asks of a value, compiled: types, bounds, patterns, formats, enumerations, choices of schemas.

Each schema becomes a check: a function of a value, its path and the list that faults go into. A good value costs its
comparisons and nothing else; paths become text only for faults. Messages are the API server's own.

Follows kube-openapi/pkg/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubewright.machinery import json as jsons
from kubewright.machinery.fields import not_supported, required, too_many, type_invalid
from kubewright.machinery.json import JSONObject, is_object
from kubewright_controlplane.schema import uniqueness
from kubewright_controlplane.schema.bounds import number_checks, text_bounds
from kubewright_controlplane.schema.faults import NOWHERE, Check, Faults, add_invalid
from kubewright_controlplane.schema.formats import check_for
from kubewright_controlplane.schema.junctors import all_of, any_of, none_of, one_of
from kubewright_controlplane.schema.path import Path, dotted

_TYPE_NAMES: Final[Mapping[type, str]] = {
    bool: "boolean", dict: "object", float: "number", int: "integer", list: "array", str: "string",
}  # fmt: skip
_CLASSES: Final[Mapping[str, tuple[type, ...]]] = {
    "array": (list,), "boolean": (bool,), "integer": (int,),
    "number": (float, int), "object": (dict,), "string": (str,),
}  # fmt: skip


def compile_check(spec: JSONObject) -> Check:
    """The check of one schema, with all below it."""
    return _combined([each for each in (_types(spec), *_junctors(spec), *_by_class(spec), _enum(spec)) if each])


def _combined(checks: list[Check]) -> Check:
    match checks:
        case []:
            return _accept
        case [only]:
            return only
        case _:

            def check(value: Any, path: Path, faults: Faults) -> None:
                for each in checks:
                    each(value, path, faults)

            return check


def _accept(value: Any, path: Path, faults: Faults) -> None:
    """The check of a schema that asks for nothing."""


def _types(spec: JSONObject) -> Check | None:
    names: list[str] = ["integer", "string"] if spec.get("x-kubernetes-int-or-string") else [spec.get("type", "")]
    if not names[0]:
        return None
    classes = {each for name in names for each in _CLASSES.get(name, ())}
    nullable, whole, wanted = bool(spec.get("nullable")), "integer" in names, ",".join(names)
    if "string" in names and len(names) == 1 and spec.get("format") and check_for(spec["format"]):
        classes.add(list)  # the API server's own leniency

    def check(value: Any, path: Path, faults: Faults) -> None:
        if value.__class__ in classes:
            return
        if value is None:
            if nullable:
                return
            found = "null"
        elif whole and value.__class__ is float and value.is_integer():
            return
        else:
            found = _TYPE_NAMES[value.__class__]
        place = dotted(path)
        faults.append(
            (path, type_invalid(place or NOWHERE, found, f'{place} in body must be of type {wanted}: "{found}"'))
        )

    return check


def _by_class(spec: JSONObject) -> list[Check]:
    """The checks that apply to values of one JSON type each, whatever type the schema asks for."""
    checks: list[Check] = []
    for accepted, found in (
        ((str,), _text_checks(spec)),
        ((int, float), number_checks(spec)),
        ((list,), _array_checks(spec)),
        ((dict,), _object_checks(spec)),
    ):
        if found:
            checks.append(_only_for(accepted, _combined(found)))
    return checks


def _only_for(accepted: tuple[type, ...], inner: Check) -> Check:
    def check(value: Any, path: Path, faults: Faults) -> None:
        if value.__class__ in accepted:
            inner(value, path, faults)

    return check


def _text_checks(spec: JSONObject) -> list[Check]:
    checks: list[Check] = []
    if bounds := text_bounds(spec):
        checks.append(bounds)
    format = spec.get("format", "")
    if spec.get("type", "string") == "string" and (has_format := check_for(format)):

        def check(value: str, path: Path, faults: Faults) -> None:
            if not has_format(value):
                place = dotted(path)
                text = f"{place} in body must be of type {format}: {jsons.quoted(value)}"
                faults.append((path, type_invalid(place or NOWHERE, value, text)))

        checks.append(check)
    return checks


def _array_checks(spec: JSONObject) -> list[Check]:
    checks: list[Check] = []
    if is_object(items := spec.get("items")) and (inner := compile_check(items)) is not _accept:

        def each(value: list[Any], path: Path, faults: Faults) -> None:
            for index, item in enumerate(value):
                inner(item, (path, index), faults)

        checks.append(each)
    fewest, most = spec.get("minItems"), spec.get("maxItems")
    if fewest is not None or most is not None:

        def sized(value: list[Any], path: Path, faults: Faults) -> None:
            if fewest is not None and len(value) < fewest:
                add_invalid(faults, path, len(value), f"should have at least {fewest} items")
            if most is not None and len(value) > most:
                faults.append((path, too_many(dotted(path) or NOWHERE, len(value), most)))

        checks.append(sized)
    if spec.get("uniqueItems"):

        def distinct(value: list[Any], path: Path, faults: Faults) -> None:
            if uniqueness.repeated(value):
                add_invalid(faults, path, "", "shouldn't contain duplicates")

        checks.append(distinct)
    return checks


def _object_checks(spec: JSONObject) -> list[Check]:
    checks: list[Check] = []
    fewest, most = spec.get("minProperties"), spec.get("maxProperties")
    if fewest is not None or most is not None:

        def sized(value: JSONObject, path: Path, faults: Faults) -> None:
            if fewest is not None and len(value) < fewest:
                add_invalid(faults, path, len(value), f"should have at least {fewest} properties")
            if most is not None and len(value) > most:
                faults.append((path, too_many(dotted(path) or NOWHERE, len(value), most)))

        checks.append(sized)
    if fields := _fields(spec):
        checks.append(fields)
    needed: list[str] = spec.get("required") or []
    if needed:

        def complete(value: JSONObject, path: Path, faults: Faults) -> None:
            for key in needed:
                if key not in value:
                    faults.append((path, required(dotted((path, key)))))

        checks.append(complete)
    return checks


def _fields(spec: JSONObject) -> Check | None:
    """The check of an object's fields, or of a map's values."""
    properties: JSONObject = spec.get("properties") or {}
    children = {key: found for key, child in properties.items() if (found := compile_check(child)) is not _accept}
    # Most fields are text without bounds: their class is compared here, without a call.
    plain = {key for key, child in properties.items() if _is_plain_text(child)}
    values = spec.get("additionalProperties")
    rest = compile_check(values) if is_object(values) else None
    if rest is not None and not properties:

        def each(value: JSONObject, path: Path, faults: Faults) -> None:
            for key, item in value.items():
                rest(item, (path, (key,)), faults)

        return each
    if not children:
        return None

    def fields(value: JSONObject, path: Path, faults: Faults) -> None:
        for key, item in value.items():
            if item.__class__ is str and key in plain:
                continue
            check = children.get(key)
            if check is not None:
                check(item, (path, key), faults)

    return fields


def _is_plain_text(spec: JSONObject) -> bool:
    return spec.get("type") == "string" and spec.keys() <= {
        "type",
        "description",
        "nullable",
        "default",
        "title",
        "example",
    }


def _enum(spec: JSONObject) -> Check | None:
    allowed = spec.get("enum")
    if not allowed:
        return None
    texts = [each if isinstance(each, str) else jsons.compact(each) for each in allowed]
    quick = frozenset(each for each in allowed if isinstance(each, str))
    others = [each for each in allowed if not isinstance(each, str)]

    def check(value: Any, path: Path, faults: Faults) -> None:
        if (value.__class__ is str and value in quick) or any(jsons.equal(value, each) for each in others):
            return
        faults.append((path, not_supported(dotted(path) or NOWHERE, value, texts)))

    return check


def _junctors(spec: JSONObject) -> list[Check]:
    checks: list[Check] = []
    if alternatives := [compile_check(each) for each in spec.get("anyOf") or ()]:
        checks.append(any_of(alternatives))
    if alternatives := [compile_check(each) for each in spec.get("oneOf") or ()]:
        checks.append(one_of(alternatives))
    if parts := [compile_check(each) for each in spec.get("allOf") or ()]:
        checks.append(all_of(parts))
    if is_object(unwanted := spec.get("not")):
        checks.append(none_of(compile_check(unwanted)))
    return checks

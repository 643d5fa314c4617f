"""What a schema requires of a value, compiled: types, bounds, patterns, formats, enumerations, combined schemas.

Each schema becomes a check: a function of a value, its path and the list of errors. A valid value costs its
comparisons and nothing else; paths become text only for errors. Messages are those of the API server.

Follows kube-openapi/pkg/validation and k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from kubewright.machinery import json as jsons
from kubewright.machinery.fields import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from kubewright.machinery.formats import format_check, is_recognized
from kubewright.machinery.json import JSONArray, JSONObject, compact, is_array, is_object
from kubewright.machinery.patterns import compile_pattern
from kubewright_controlplane.schema.node import Node
from kubewright_controlplane.schema.walk import (
    UNKNOWN_PATH,
    Check,
    Errors,
    NodeCheck,
    Path,
    add_invalid,
    add_without_path,
    bracketed,
    compile_descent,
    dotted,
)

_TYPE_NAMES: Final[Mapping[type, str]] = {
    bool: "boolean", dict: "object", float: "number", int: "integer", list: "array", str: "string",
}  # fmt: skip
_CLASSES: Final[Mapping[str, tuple[type, ...]]] = {
    "array": (list,), "boolean": (bool,), "integer": (int,),
    "number": (float, int), "object": (dict,), "string": (str,),
}  # fmt: skip


def compile_check(spec: JSONObject) -> Check:
    """Compile the check of one schema and all schemas below it."""
    return _combined([each for each in (_types(spec), *_combinations(spec), *_by_class(spec), _enum(spec)) if each])


def _combined(checks: list[Check]) -> Check:
    match checks:
        case []:
            return _accept
        case [only]:
            return only
        case _:

            def check(value: Any, path: Path, errors: Errors) -> None:
                for each in checks:
                    each(value, path, errors)

            return check


_FORMATS: Final = {bool: "", int: "int64", float: "float64", dict: ""}
"""What the API server names instead of the type of a value, if the schema has a format."""


def _accept(value: Any, path: Path, errors: Errors) -> None:
    """Accept any value: the check of a schema without requirements."""


def _types(spec: JSONObject) -> Check | None:
    names: list[str] = ["integer", "string"] if spec.get("x-kubernetes-int-or-string") else [spec.get("type", "")]
    if not names[0]:
        return None
    classes = {each for name in names for each in _CLASSES.get(name, ())}
    nullable, whole, wanted = bool(spec.get("nullable")), "integer" in names, ",".join(names)
    format: str = spec.get("format") or ""
    if len(names) > 1 or not is_recognized(format, names[0]):
        format = ""
    if format and names[0] == "string":
        classes.add(list)  # the API server is as lenient

    def check(value: Any, path: Path, errors: Errors) -> None:
        if value.__class__ in classes:
            return
        if value is None:
            if nullable:
                return
            expected, found = wanted, "null"
        elif whole and value.__class__ is float and value.is_integer():
            return
        elif format and value.__class__ in _FORMATS:
            expected, found = format, _FORMATS[value.__class__]
        else:
            expected, found = wanted, _TYPE_NAMES[value.__class__]
        place = dotted(path)
        errors.append(
            (path, type_invalid(place or UNKNOWN_PATH, found, f'{place} in body must be of type {expected}: "{found}"'))
        )

    return check


def _by_class(spec: JSONObject) -> list[Check]:
    """Return the checks for values of one JSON type each, regardless of the type in the schema."""
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
    def check(value: Any, path: Path, errors: Errors) -> None:
        if value.__class__ in accepted:
            inner(value, path, errors)

    return check


def _text_checks(spec: JSONObject) -> list[Check]:
    checks: list[Check] = []
    if bounds := text_bounds(spec):
        checks.append(bounds)
    format = spec.get("format", "")
    if spec.get("type", "string") == "string" and (has_format := format_check(format)):

        def check(value: str, path: Path, errors: Errors) -> None:
            if not has_format(value):
                place = dotted(path)
                text = f"{place} in body must be of type {format}: {jsons.quoted(value)}"
                errors.append((path, type_invalid(place or UNKNOWN_PATH, value, text)))

        checks.append(check)
    return checks


def _array_checks(spec: JSONObject) -> list[Check]:
    checks: list[Check] = []
    if is_object(items := spec.get("items")) and (inner := compile_check(items)) is not _accept:

        def each(value: list[Any], path: Path, errors: Errors) -> None:
            for index, item in enumerate(value):
                inner(item, (path, index), errors)

        checks.append(each)
    fewest, most = spec.get("minItems"), spec.get("maxItems")
    if fewest is not None or most is not None:

        def sized(value: list[Any], path: Path, errors: Errors) -> None:
            if fewest is not None and len(value) < fewest:
                add_invalid(errors, path, len(value), f"should have at least {fewest} items")
            if most is not None and len(value) > most:
                errors.append((path, too_many(dotted(path) or UNKNOWN_PATH, len(value), most)))

        checks.append(sized)
    if spec.get("uniqueItems"):

        def distinct(value: list[Any], path: Path, errors: Errors) -> None:
            if repeated(value):
                add_invalid(errors, path, "", "shouldn't contain duplicates")

        checks.append(distinct)
    return checks


def _object_checks(spec: JSONObject) -> list[Check]:
    checks: list[Check] = []
    fewest, most = spec.get("minProperties"), spec.get("maxProperties")
    if fewest is not None or most is not None:

        def sized(value: JSONObject, path: Path, errors: Errors) -> None:
            if fewest is not None and len(value) < fewest:
                add_invalid(errors, path, len(value), f"should have at least {fewest} properties")
            if most is not None and len(value) > most:
                errors.append((path, too_many(dotted(path) or UNKNOWN_PATH, len(value), most)))

        checks.append(sized)
    if fields := _fields(spec):
        checks.append(fields)
    needed: list[str] = spec.get("required") or []
    if needed:

        def complete(value: JSONObject, path: Path, errors: Errors) -> None:
            for key in needed:
                if key not in value:
                    errors.append((path, required(dotted((path, key)))))

        checks.append(complete)
    return checks


def _fields(spec: JSONObject) -> Check | None:
    """Return the check of an object's fields, or of a map's values."""
    properties: JSONObject = spec.get("properties") or {}
    children = {key: found for key, child in properties.items() if (found := compile_check(child)) is not _accept}
    # Most fields are unbounded strings. Comparing their class here saves a call for each.
    plain = {key for key, child in properties.items() if _is_plain_text(child)}
    values = spec.get("additionalProperties")
    rest = compile_check(values) if is_object(values) else None
    if rest is not None and not properties:

        def each(value: JSONObject, path: Path, errors: Errors) -> None:
            for key, item in value.items():
                rest(item, (path, (key,)), errors)

        return each
    if not children:
        return None

    def fields(value: JSONObject, path: Path, errors: Errors) -> None:
        for key, item in value.items():
            if item.__class__ is str and key in plain:
                continue
            check = children.get(key)
            if check is not None:
                check(item, (path, key), errors)

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

    def check(value: Any, path: Path, errors: Errors) -> None:
        if (value.__class__ is str and value in quick) or any(jsons.equal(value, each) for each in others):
            return
        errors.append((path, not_supported(dotted(path) or UNKNOWN_PATH, value, texts)))

    return check


def _combinations(spec: JSONObject) -> list[Check]:
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


# Strings and numbers

_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def text_bounds(spec: JSONObject) -> Check | None:
    """Return the check of a string's length and pattern. It reports only the first error."""
    longest, shortest, pattern = spec.get("maxLength"), spec.get("minLength"), spec.get("pattern")
    if longest is None and shortest is None and not pattern:
        return None
    if pattern:
        compile_pattern(pattern)  # raises for an invalid one

    def check(value: str, path: Path, errors: Errors) -> None:
        if longest is not None and len(value) > longest:
            errors.append((path, too_long(dotted(path), longest)))
        elif shortest is not None and len(value) < shortest:
            add_invalid(errors, path, value, f"should be at least {shortest} chars long")
        elif pattern and not compile_pattern(pattern).matches(value):
            add_invalid(errors, path, value, f"should match '{pattern}'")

    return check


def number_checks(spec: JSONObject) -> list[Check]:
    """Return the checks of a number."""
    checks: list[Check] = []
    if (limits := _RANGES.get(spec.get("format", "int64"))) and spec.get("type") == "integer":
        checks.append(_ranged(limits, spec.get("format", "")))
    if factor := spec.get("multipleOf"):
        checks.append(_multiple_of(factor))
    if (highest := spec.get("maximum")) is not None:
        checks.append(_at_most(highest, exclusive=bool(spec.get("exclusiveMaximum"))))
    if (lowest := spec.get("minimum")) is not None:
        checks.append(_at_least(lowest, exclusive=bool(spec.get("exclusiveMinimum"))))
    return checks


def _ranged(limits: tuple[int, int], format: str) -> Check:
    low, high = limits
    kind = f"with format {format}" if format else "(default format)"

    def check(value: float, path: Path, errors: Errors) -> None:
        if not low <= value <= high or (isinstance(value, float) and not value.is_integer()):
            add_without_path(errors, path, f"Checked value must be of type integer {kind} in {dotted(path)}")

    return check


def _multiple_of(factor: float) -> Check:
    def check(value: float, path: Path, errors: Errors) -> None:
        quotient = 1 / factor * value if factor < 1 else value / factor
        whole = value % factor == 0 if isinstance(value, int) and isinstance(factor, int) else quotient.is_integer()
        if not whole:
            add_invalid(errors, path, value, f"should be a multiple of {jsons.number(factor)}")

    return check


def _at_most(limit: float, *, exclusive: bool) -> Check:
    text = f"should be less than {'' if exclusive else 'or equal to '}{jsons.number(limit)}"

    def check(value: float, path: Path, errors: Errors) -> None:
        if value > limit or (exclusive and value == limit):
            add_invalid(errors, path, value, text)

    return check


def _at_least(limit: float, *, exclusive: bool) -> Check:
    text = f"should be greater than {'' if exclusive else 'or equal to '}{jsons.number(limit)}"

    def check(value: float, path: Path, errors: Errors) -> None:
        if value < limit or (exclusive and value == limit):
            add_invalid(errors, path, value, text)

    return check


# anyOf, oneOf, allOf, not


def any_of(alternatives: list[Check]) -> Check:
    def check(value: Any, path: Path, errors: Errors) -> None:
        nearest: Errors = []
        for each in alternatives:
            found = _errors_of(each, value, path)
            if not found:
                return
            nearest = nearest or found
        add_without_path(errors, path, f'"{dotted(path)}" must validate at least one schema (anyOf)')
        errors.extend(nearest)

    return check


def one_of(alternatives: list[Check]) -> Check:
    def check(value: Any, path: Path, errors: Errors) -> None:
        results = [_errors_of(each, value, path) for each in alternatives]
        good = sum(not each for each in results)
        if good == 1:
            return
        told = f"Found {good} valid alternatives" if good else "Found none valid"
        add_without_path(errors, path, f'"{dotted(path)}" must validate one and only one schema (oneOf). {told}')
        if not good:
            errors.extend(results[0])

    return check


def all_of(parts: list[Check]) -> Check:
    def check(value: Any, path: Path, errors: Errors) -> None:
        good = 0
        for each in parts:
            found = _errors_of(each, value, path)
            good += not found
            errors.extend(found)
        if good != len(parts):
            add_without_path(
                errors,
                path,
                f'"{dotted(path)}" must validate all the schemas (allOf){"" if good else ". None validated"}',
            )

    return check


def none_of(unwanted: Check) -> Check:
    def check(value: Any, path: Path, errors: Errors) -> None:
        if not _errors_of(unwanted, value, path):
            add_without_path(errors, path, f'"{dotted(path)}" must not validate the schema (not)')

    return check


def _errors_of(check: Check, value: Any, path: Path) -> Errors:
    found: Errors = []
    check(value, path, found)
    return found


# Lists that are sets or maps


def compile_duplicates_check(root: Node) -> Callable[[JSONObject], list[FieldError]] | None:
    """Compile the check for duplicates in a document; None if the schema has no list of type set or map."""
    check = _compile_lists(root)
    if check is None:
        return None

    def duplicates(obj: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        check(obj, None, errors)
        return errors

    return duplicates


def repeated(values: JSONArray) -> list[int]:
    """Return the indices at which a value occurs for the second time. Further occurrences are not reported."""
    seen: dict[Hashable, int] = {}
    found: list[int] = []
    for index, value in enumerate(values):
        key = (value.__class__, compact(value) if is_object(value) or is_array(value) else value)
        times = seen.get(key, 0)
        if times == 1:
            found.append(index)
        seen[key] = times + 1
    return found


def _compile_lists(node: Node) -> NodeCheck | None:
    return compile_descent(node, _compile_lists, _list_check(node))


def _list_check(node: Node) -> NodeCheck | None:
    if node.builtin or node.items is None or node.list_type == "atomic":
        return None
    find = _same_items if node.list_type == "set" else _same_keys

    def check(value: Any, path: Path, errors: list[FieldError]) -> None:
        if is_array(value):
            find(value, node.list_keys, path, errors)

    return check


def _same_items(value: JSONArray, keys: tuple[str, ...], path: Path, errors: list[FieldError]) -> None:
    errors.extend(duplicate(bracketed((path, index)), value[index]) for index in repeated(value))


def _same_keys(value: JSONArray, keys: tuple[str, ...], path: Path, errors: list[FieldError]) -> None:
    for index, item in enumerate(value):
        if item is not None and not is_object(item):
            text = "must be an object for an array of list-type map"
            errors.append(invalid(bracketed((path, index)), item, text))
            return
    chosen = [{key: item[key] for key in keys if key in item} if item else {} for item in value]
    errors.extend(duplicate(bracketed((path, index)), chosen[index]) for index in repeated(chosen))

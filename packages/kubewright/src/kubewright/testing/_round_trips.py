"""Round trips: an object that is converted to another version and back is the same.

What a version lacks comes back from an annotation. So does a field that a function forgets, although both versions have
it. Such a field is found by its values: they change in one version, and stay the same in the other.

def test_conversions_lose_nothing() -> None:
    check_round_trips(conversion)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from kubewright.machinery.errors import DecodeError
from kubewright.machinery.json import JSONObject, compact, equal, is_array, is_object
from kubewright.models import CustomResource, codec
from kubewright.models._schema import root_schema
from kubewright.testing._examples import Examples
from kubewright.webhooks import Conversion

_ABSENT: Final = object()
_SHOWN: Final = 10
_SIMPLIFICATIONS: Final = 500
"""The most attempts to make a failing object smaller."""


def check_round_trips(
    conversion: Conversion[Any],
    *,
    count: int = 100,
    seed: int = 0,
    objects: Sequence[CustomResource] = (),
    unrelated: Sequence[str] = (),
) -> None:
    """Convert objects of each version to each other version and back, and compare them.

    A field that both versions have must also reach the other version: its values may differ there, but not be the same
    for all objects.

    count: how many objects are generated from the schema of each version. Their fields have any values that the schema
    allows; CEL rules are not considered.
    seed: another one generates other objects.
    objects: objects of your own, which are converted before the generated ones.
    unrelated: fields that need not reach the other version, such as `spec.size`: two versions have them by chance.

    Raises AssertionError for an object that is not the same after a round trip. It shows the versions, the fields that
    changed, and a small object with the fault. Raises AssertionError for a field that does not reach the other version.
    Raises what the conversion raises, with a note of the same.
    """
    for obj in objects:
        for other in conversion.kinds:
            if other is not type(obj):
                _check(conversion, type(obj), other, codec.to_dict(obj), "an object of your own")
    for kind in conversion.kinds:
        examples = Examples(kind, random.Random(f"{seed} {kind.__api__.version}"))
        documents = [examples.document() for _ in range(count)]
        for number, document in enumerate(documents):
            for other in conversion.kinds:
                if other is not kind:
                    _check(conversion, kind, other, document, f"example {number} of seed {seed}")
        # Two spokes may share a field that the hub lacks.
        for other in conversion.kinds[1:] if kind is conversion.hub else [conversion.hub]:
            _check_fields(conversion, kind, other, documents, unrelated)


def _check_fields(
    conversion: Conversion[Any],
    kind: type[CustomResource],
    other: type[CustomResource],
    documents: Sequence[JSONObject],
    unrelated: Sequence[str],
) -> None:
    """Raise AssertionError for fields of both versions whose values change in `kind`, and not in `other`."""
    was = [codec.from_dict(kind, each) for each in documents]
    now = [codec.to_dict(conversion.convert(each, other)) for each in was]
    before = [codec.to_dict(each) for each in was]
    forgotten = [
        path
        for path in map(".".join, _common_fields(root_schema(kind), root_schema(other)))
        if path not in unrelated and len(_values(before, path) - {_shown(_ABSENT)}) > 1 and len(_values(now, path)) == 1
    ]
    if forgotten:
        source, target = kind.__api__.version, other.__api__.version
        shown = "\n".join(f"  {path}: always {_values(now, path).pop()} in {target}" for path in forgotten)
        raise AssertionError(
            f"{kind.__api__.kind} {source} -> {target}: both versions have these fields, but their values in {source} "
            f"do not reach {target}\n{shown}\nConvert them. If two fields only have the same name, pass "
            f"unrelated={compact(forgotten)}."
        )


def _common_fields(one: JSONObject, another: JSONObject, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the fields that both schemas have: the deepest that are not in a list or map."""
    mine, its = one.get("properties") or {}, another.get("properties") or {}
    for name in mine:
        if name in its and (path or name not in ("apiVersion", "kind", "metadata")):
            inside = list(_common_fields(mine[name], its[name], (*path, name)))
            yield from inside or [(*path, name)]


def _values(documents: Sequence[JSONObject], path: str) -> set[str]:
    """Return the values of a field, as they are shown."""
    return {_shown(_value_at(each, path)) for each in documents}


def _value_at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name, _ABSENT) if is_object(value) else _ABSENT
    return value


def _check(
    conversion: Conversion[Any],
    kind: type[CustomResource],
    other: type[CustomResource],
    document: JSONObject,
    origin: str,
) -> None:
    way = f"{kind.__api__.kind} {kind.__api__.version} -> {other.__api__.version} -> {kind.__api__.version}"
    try:
        changes = _changes(conversion, kind, other, document)
    except Exception as error:
        fault = (type(error), str(error))
        smaller = _simplified(document, lambda each: _raised(conversion, kind, other, each) == fault)
        error.add_note(
            f"{way}: the conversion fails, {origin}\nobject: {compact(smaller)}\nThe types allow such objects: convert "
            f"them, too, or refuse them in the types. Objects that cannot be converted cannot be deleted, either."
        )
        raise
    if not changes:
        return
    smaller = _simplified(document, lambda each: _still_changes(conversion, kind, other, each))
    changes = _changes(conversion, kind, other, smaller)
    shown = "\n".join(f"  {each}" for each in changes[:_SHOWN])
    more = f"\n  and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    raise AssertionError(
        f"{way}: the object is not the same, {origin}\n{shown}{more}\nobject: {compact(smaller)}\nIf the version "
        f"cannot hold these fields, use Spoke(lossless=True); otherwise correct its functions."
    )


def _changes(
    conversion: Conversion[Any], kind: type[CustomResource], other: type[CustomResource], document: JSONObject
) -> list[str]:
    """Return the fields that a round trip changes."""
    start = codec.from_dict(kind, document)
    there = conversion.convert(start, other)
    back = conversion.convert(there, kind)
    return list(_differences(codec.to_dict(start), codec.to_dict(back), ""))


def _differences(was: Any, now: Any, path: str) -> Iterator[str]:
    if was is not _ABSENT and now is not _ABSENT and equal(was, now):
        return
    if is_object(was) and is_object(now):
        for key in dict.fromkeys([*was, *now]):
            yield from _differences(was.get(key, _ABSENT), now.get(key, _ABSENT), f"{path}.{key}")
    elif is_array(was) and is_array(now) and len(was) == len(now):
        for index, (before, after) in enumerate(zip(was, now, strict=True)):
            yield from _differences(before, after, f"{path}[{index}]")
    else:
        yield f"{path.lstrip('.')}: {_shown(was)} -> {_shown(now)}"


def _shown(value: Any) -> str:
    return "absent" if value is _ABSENT else compact(value)


def _simplified(document: JSONObject, has_fault: Callable[[JSONObject], bool]) -> JSONObject:
    """Return a smaller object with the same fault: without the fields and items that do not matter."""
    tries = _SIMPLIFICATIONS
    smaller = document
    progress = True
    while progress:
        progress = False
        for each in _without_one(smaller):
            tries -= 1
            if tries < 0:
                return smaller
            if has_fault(each):
                smaller, progress = each, True
                break
    return smaller


def _still_changes(
    conversion: Conversion[Any], kind: type[CustomResource], other: type[CustomResource], document: JSONObject
) -> bool:
    try:
        return bool(_changes(conversion, kind, other, document))
    except DecodeError:  # a required field is missing
        return False
    except Exception:  # noqa: BLE001 - a function may need the field that is missing
        return False


def _raised(
    conversion: Conversion[Any], kind: type[CustomResource], other: type[CustomResource], document: JSONObject
) -> tuple[type[Exception], str] | None:
    """Return what the conversion raises."""
    try:
        _changes(conversion, kind, other, document)
    except Exception as error:  # noqa: BLE001 - functions of users raise anything
        return type(error), str(error)
    return None


def _without_one(document: JSONObject) -> Iterator[JSONObject]:
    """Yield copies of a document that lack one field or item each, the largest first."""
    for path in _paths(document, ()):
        if path[0] in ("apiVersion", "kind"):
            continue
        copy: Any = msgspec.json.decode(msgspec.json.encode(document))
        holder = copy
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
        yield copy


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    steps: Any = list(value) if is_object(value) else range(len(value)) if is_array(value) else ()
    yield from ((*path, step) for step in steps)
    for step in steps:
        yield from _paths(value[step], (*path, step))

"""Round trips: an object that is converted to another version and back is the same.

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
from kubewright.testing._examples import Examples
from kubewright.webhooks import Conversion

_ABSENT: Final = object()
_SHOWN: Final = 10
_SIMPLIFICATIONS: Final = 500
"""The most attempts to make a failing object smaller."""


def check_round_trips(
    conversion: Conversion[Any], *, count: int = 100, seed: int = 0, objects: Sequence[CustomResource] = ()
) -> None:
    """Convert objects of each version to each other version and back, and compare them.

    count: how many objects are generated from the schema of each version. Their fields have any values that the schema
    allows; CEL rules are not considered.
    seed: another one generates other objects.
    objects: objects of your own, which are converted before the generated ones.

    Raises AssertionError for an object that is not the same after a round trip. It shows the versions, the fields that
    changed, and a small object with the fault. Raises what the conversion raises, with a note of the same.
    """
    for obj in objects:
        for other in conversion.kinds:
            if other is not type(obj):
                _check(conversion, type(obj), other, codec.to_dict(obj), "an object of your own")
    for kind in conversion.kinds:
        examples = Examples(kind, random.Random(f"{seed} {kind.__api__.version}"))
        for number in range(count):
            document = examples.document()
            for other in conversion.kinds:
                if other is not kind:
                    _check(conversion, kind, other, document, f"example {number} of seed {seed}")


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

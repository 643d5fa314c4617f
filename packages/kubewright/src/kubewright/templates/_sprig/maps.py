"""Sprig's functions of maps, defaults and types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubewright.templates._functions import Function, f
from kubewright.templates._sprig.texts import text
from kubewright.templates._values import (
    FunctionError,
    NilMap,
    Object,
    Strings,
    deep_equal,
    kind_name,
    spend,
    truth,
    type_name,
)

_ABSENT: Final = object()
_Map = dict[str, Any]


def is_empty(value: Any) -> bool:
    """Return whether a value is the zero value of its type."""
    return not truth(value)


def _default(default: Any, *given: Any) -> Any:
    return default if not given or is_empty(given[0]) else given[0]


def _coalesce(*values: Any) -> Any:
    return next((each for each in values if not is_empty(each)), None)


def _dict(*values: Any) -> _Map:
    return {
        text(values[index]): values[index + 1] if index + 1 < len(values) else "" for index in range(0, len(values), 2)
    }


def _set(value: _Map, key: str, item: Any) -> _Map:
    if isinstance(value, NilMap):
        raise FunctionError("the map is nil; create it with dict")
    value[key] = item
    return value


def _unset(value: _Map, key: str) -> _Map:
    value.pop(key, None)
    return value


def _pluck(key: str, *maps: _Map) -> list[Any]:
    return [each[key] for each in maps if key in each]


def _keys(*maps: _Map) -> Strings:
    return Strings(key for each in maps for key in sorted(each))


def _values(value: _Map) -> list[Any]:
    return [value[key] for key in sorted(value)]


def _pick(value: _Map, *keys: str) -> _Map:
    return {key: value[key] for key in keys if key in value}


def _omit(value: _Map, *keys: str) -> _Map:
    return {key: each for key, each in value.items() if key not in keys}


def _dig(*arguments: Any) -> Any:
    if len(arguments) < 3:
        raise FunctionError("dig takes at least 3 arguments: keys, a default, and the map")
    *keys, default, value = arguments
    for key in keys:
        if not isinstance(key, str):
            raise FunctionError(f"keys are strings, not {type_name(key)}")
    for key in keys:
        if type(value) is not dict and type(value) is not NilMap:
            raise FunctionError(f"expected a map with key {key!r}, not a value of type {type_name(value)}")
        if key not in value:
            return default
        value = value[key]
    return value


# ---- merging


def _merged(target: _Map, sources: tuple[_Map, ...], overwrite: bool) -> Any:
    for source in sources:
        if isinstance(target, NilMap) and not isinstance(source, NilMap):
            target = {}
        _merge(target, source, overwrite)
    return target


def _merge(target: _Map, source: _Map, overwrite: bool) -> None:
    for key, value in list(source.items()):
        spend(1)
        old = target.get(key, _ABSENT)
        if value is None:
            if overwrite:
                target[key] = None
            continue
        if isinstance(value, dict) and isinstance(old, dict):
            _merge(old, value, overwrite)
        if _keeps(old, value, overwrite):
            continue
        target[key] = value


def _keeps(old: Any, value: Any, overwrite: bool) -> bool:
    """Return whether a key of the target keeps its value."""
    if old is _ABSENT or (is_empty(old) and not isinstance(old, Object)):
        return False
    if isinstance(value, dict) and isinstance(old, dict):
        return True
    return not overwrite


def _deep_copy(value: Any) -> Any:
    spend(2)
    if isinstance(value, dict):
        return _copied(value, ((key, _deep_copy(each)) for key, each in value.items()))
    if isinstance(value, list):
        return _copied(value, (_deep_copy(each) for each in value))
    return value


def _deep_copy_of(value: Any) -> Any:
    if value is None:
        raise FunctionError("nil cannot be copied")
    return _deep_copy(value)


def _copied(value: Any, items: Any) -> Any:
    return type(value)(items)


# ---- types


def _type_of(value: Any) -> str:
    return type_name(value)


def _type_is_like(target: str, value: Any) -> bool:
    return type_name(value) in (target, f"*{target}")


def _ternary(if_true: Any, if_false: Any, condition: bool) -> Any:
    return if_true if condition else if_false


FUNCTIONS: Final[Mapping[str, Function]] = {
    "default": f(_default, "any", "any..."),
    "empty": f(is_empty, "any"),
    "coalesce": f(_coalesce, "any..."),
    "all": f(lambda *values: not any(map(is_empty, values)), "any..."),
    "any": f(lambda *values: not all(map(is_empty, values)), "any..."),
    "ternary": f(_ternary, "any", "any", "bool"),
    "dict": f(_dict, "any..."),
    "get": f(lambda value, key: value.get(key, ""), "map", "string"),
    "set": f(_set, "map", "string", "any"),
    "unset": f(_unset, "map", "string"),
    "hasKey": f(lambda value, key: key in value, "map", "string"),
    "pluck": f(_pluck, "string", "map..."),
    "keys": f(_keys, "map..."),
    "values": f(_values, "map"),
    "pick": f(_pick, "map", "string..."),
    "omit": f(_omit, "map", "string..."),
    "dig": f(_dig, "any..."),
    "merge": f(lambda target, *sources: _merged(target, sources, False), "map", "map..."),
    "mustMerge": f(lambda target, *sources: _merged(target, sources, False), "map", "map..."),
    "mergeOverwrite": f(lambda target, *sources: _merged(target, sources, True), "map", "map..."),
    "mustMergeOverwrite": f(lambda target, *sources: _merged(target, sources, True), "map", "map..."),
    "deepCopy": f(_deep_copy_of, "any"),
    "mustDeepCopy": f(_deep_copy_of, "any"),
    "deepEqual": f(deep_equal, "any", "any"),
    "typeOf": f(_type_of, "any"),
    "typeIs": f(lambda target, value: type_name(value) == target, "string", "any"),
    "typeIsLike": f(_type_is_like, "string", "any"),
    "kindOf": f(kind_name, "any"),
    "kindIs": f(lambda target, value: kind_name(value) == target, "string", "any"),
}

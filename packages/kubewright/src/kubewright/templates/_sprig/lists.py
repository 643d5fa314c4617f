"""Sprig's functions of lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kubewright.templates._functions import Function, f
from kubewright.templates._sprig.numbers import to_int64
from kubewright.templates._values import FunctionError, Lists, NilList, deep_equal, spend, truth, type_name


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise FunctionError(f"expected a list, not a value of type {type_name(value)}")
    return value


def _first(value: Any) -> Any:
    return next(iter(_list(value)), None)


def _last(value: Any) -> Any:
    return _list(value)[-1] if _list(value) else None


def _rest(value: Any) -> list[Any]:
    return _list(value)[1:] if _list(value) else NilList()


def _initial(value: Any) -> list[Any]:
    return _list(value)[:-1] if _list(value) else NilList()


def _plain(value: list[Any]) -> list[Any]:
    spend(len(value))
    return list(value)


def _push(value: Any, item: Any) -> list[Any]:
    return [*_plain(_list(value)), item]


def _prepend(value: Any, item: Any) -> list[Any]:
    return [item, *_plain(_list(value))]


def _chunk(size: int, value: Any) -> Lists:
    items = _list(value)
    if size < 0 and 2 <= len(items) <= 1 - size:
        return Lists()
    if size <= 0:
        raise FunctionError(f"the size of chunks must be positive, got {size}")
    return Lists(list(items[start : start + size]) for start in range(0, len(items), size))


def _without(value: Any, *omitted: Any) -> list[Any]:
    return [each for each in _list(value) if not _in(each, omitted)]


def _uniq(value: Any) -> list[Any]:
    out: list[Any] = []
    for each in _list(value):
        if not _in(each, out):
            out.append(each)
    return out


def _in(item: Any, items: Any) -> bool:
    return any(deep_equal(item, each) for each in items)


def _has(item: Any, value: Any) -> bool:
    return value is not None and _in(item, _list(value))


def _slice(value: Any, *indexes: Any) -> Any:
    items = _list(value)
    if not items:
        return None
    start = to_int64(indexes[0]) if indexes else 0
    end = to_int64(indexes[1]) if len(indexes) > 1 else len(items)
    if not 0 <= start <= end <= len(items):
        raise FunctionError(f"items {start} to {end} are not in a list of {len(items)}")
    return type(items)(items[start:end])


def _concat(*lists: Any) -> list[Any]:
    out = [item for value in lists for item in _list(value)]
    return out or NilList()


def _reversed(value: Any) -> list[Any]:
    return _list(value)[::-1]


def _compact(value: Any) -> list[Any]:
    return [each for each in _list(value) if truth(each)]


_EITHER: Final[Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]]] = {
    "append": (_push, ("any", "any")),
    "push": (_push, ("any", "any")),
    "prepend": (_prepend, ("any", "any")),
    "first": (_first, ("any",)),
    "rest": (lambda value: list(_rest(value)) if _list(value) else NilList(), ("any",)),
    "last": (_last, ("any",)),
    "initial": (lambda value: list(_initial(value)) if _list(value) else NilList(), ("any",)),
    "reverse": (lambda value: list(_reversed(value)), ("any",)),
    "uniq": (_uniq, ("any",)),
    "without": (_without, ("any", "any...")),
    "has": (_has, ("any", "any")),
    "slice": (_slice, ("any", "any...")),
    "chunk": (_chunk, ("int", "any")),
    "compact": (_compact, ("any",)),
}
FUNCTIONS: Final[Mapping[str, Function]] = {
    **{name: f(call, *parameters) for name, (call, parameters) in _EITHER.items()},
    **{f"must{name[0].upper()}{name[1:]}": f(call, *parameters) for name, (call, parameters) in _EITHER.items()},
    "list": f(lambda *values: list(values), "any..."),
    "tuple": f(lambda *values: list(values), "any..."),
    "concat": f(_concat, "any..."),
}

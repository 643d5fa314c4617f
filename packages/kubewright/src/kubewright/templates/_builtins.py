"""The functions of Go's text/template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from kubewright.templates._format import sprint, sprintf, sprintln
from kubewright.templates._functions import Function, ShortCircuit, f
from kubewright.templates._strconv import decoded, encoded, printable
from kubewright.templates._values import (
    NIL_TYPES,
    FunctionError,
    Object,
    StringMap,
    Uint8,
    basic_kind,
    kind_name,
    length,
    reserve,
    spend_on,
    truth,
    type_name,
)


def _index_of(index: Any, limit: int) -> int:
    if basic_kind(index) not in ("int", "uint"):
        raise FunctionError(f"a list is indexed by an int, not by {type_name(index)}")
    if not 0 <= index <= limit:
        raise FunctionError(f"index {int(index)} is out of range: there are {limit} items")
    return int(index)


def index(item: Any, *indexes: Any) -> Any:
    """Return an item of a list or map, or a byte of a string."""
    if item is None:
        raise FunctionError("index of nil")
    for each in indexes:
        item = _item(item, each)
    return item


def _item(item: Any, index: Any) -> Any:
    if isinstance(item, dict):
        if not isinstance(index, str):
            raise FunctionError(f"the keys of a map are strings, not {type_name(index)}")
        return item.get(index, "" if type(item) is StringMap else None)
    if isinstance(item, list):
        position = _index_of(index, len(item))
        if position == len(item):
            raise FunctionError(f"index {position} is out of range: there are {len(item)} items")
        return item[position]
    if isinstance(item, str):
        data = encoded(item)
        position = _index_of(index, len(data))
        if position == len(data):
            raise FunctionError(f"index {position} is out of range: there are {len(data)} bytes")
        return Uint8(data[position])
    raise FunctionError(f"a value of type {type_name(item)} has no items")


def slice_(item: Any, *indexes: Any) -> Any:
    """Return a part of a string or list."""
    if item is None:
        raise FunctionError("slice of nil")
    if len(indexes) > 3:
        raise FunctionError(f"slice takes up to 3 indexes, not {len(indexes)}")
    if not isinstance(item, str | list):
        raise FunctionError(f"a value of type {type_name(item)} cannot be sliced")
    if isinstance(item, str) and len(indexes) == 3:
        raise FunctionError("a string takes up to 2 indexes")
    limit = length(item) if isinstance(item, str) else len(item)
    bounds = [0, limit, limit]
    for position, each in enumerate(indexes):
        bounds[position] = _index_of(each, limit)
    start, end, capacity = bounds
    if start > end or end > capacity:
        raise FunctionError(f"bad slice indexes: {' > '.join(map(str, bounds[: max(len(indexes), 2)]))}")
    if isinstance(item, str):
        return decoded(encoded(item)[start:end])
    return type(item)(item[start:end])


def len_(item: Any) -> int:
    """Return the length of a string in bytes, or of a list or map."""
    if isinstance(item, str):
        return length(item)
    if isinstance(item, list | dict):
        return len(item)
    raise FunctionError(f"a value of type {type_name(item)} has no length")


def call(function: Any, *arguments: Any) -> Any:
    """Fail: no value of a template is a function."""
    raise FunctionError(f"call needs a function, not a value of type {type_name(function)}")


def _compared(left: Any, right: Any) -> bool:
    left_kind, right_kind = basic_kind(left), basic_kind(right)
    if left_kind and left_kind == right_kind:
        return bool(left == right)
    if left_kind != right_kind:
        if {left_kind, right_kind} == {"int", "uint"}:
            return bool(left == right)
        if left is not None and right is not None:
            raise FunctionError(f"{type_name(left)} and {type_name(right)} cannot be compared; convert one of the two")
        return False
    return _same(left, right)


def _same(left: Any, right: Any) -> bool:
    """Compare two values that have no order."""
    if left is not None and right is not None and kind_name(left) != kind_name(right):
        raise FunctionError(f"{type_name(left)} and {type_name(right)} cannot be compared")
    left_nil, right_nil = type(left) in NIL_TYPES, type(right) in NIL_TYPES
    if left_nil or right_nil:
        return left_nil == right_nil
    if not isinstance(left, Object) or not isinstance(right, Object):
        raise FunctionError(f"values of type {type_name(right)} cannot be compared; use deepEqual")
    return left.type_name == right.type_name and left.key() == right.key()


def eq(first: Any, *others: Any) -> bool:
    """Return whether the first argument equals one of the others."""
    if not others:
        raise FunctionError("eq needs something to compare with")
    return any(_compared(first, each) for each in others)


def ne(left: Any, right: Any) -> bool:
    """Return whether two values differ."""
    return not _compared(left, right)


def lt(left: Any, right: Any) -> bool:
    """Return whether a value is less than another one of the same type."""
    kinds = basic_kind(left), basic_kind(right)
    for value, kind in zip((left, right), kinds, strict=True):
        if kind is None:
            raise FunctionError(f"a value of type {type_name(value)} has no order")
    if kinds[0] != kinds[1] and set(kinds) != {"int", "uint"}:
        raise FunctionError(f"{type_name(left)} and {type_name(right)} cannot be compared; convert one of the two")
    if kinds[0] in ("bool", "complex"):
        raise FunctionError(f"values of type {type_name(left)} have no order")
    return bool(left < right)


def le(left: Any, right: Any) -> bool:
    """Return whether a value is not greater than another one."""
    return lt(left, right) or _compared(left, right)


def gt(left: Any, right: Any) -> bool:
    """Return whether a value is greater than another one."""
    return not le(left, right)


def ge(left: Any, right: Any) -> bool:
    """Return whether a value is not less than another one."""
    return not lt(left, right)


_HTML: Final = str.maketrans({"\0": "�", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;"})
_JS: Final = {"\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "=": "\\u003D"}


def _text(values: tuple[Any, ...]) -> str:
    return sprint(tuple("<no value>" if each is None else each for each in values))


def html(*values: Any) -> str:
    """Return text escaped for HTML."""
    text = _text(values)
    reserve(6 * len(text))
    return text.translate(_HTML)


def js(*values: Any) -> str:
    """Return text escaped for a string of JavaScript."""
    text = _text(values)
    spend_on(text)
    return "".join(map(_js, text))


def _js(character: str) -> str:
    if character in _JS:
        return _JS[character]
    if " " <= character <= "\x7f":
        return character
    if "\ud800" <= character <= "\udfff":
        return character
    return character if character > "\x7f" and printable(character) else f"\\u{ord(character):04X}"


def urlquery(*values: Any) -> str:
    """Return text escaped for the query of a URL."""
    text = _text(values)
    reserve(3 * len(text))
    return quote_plus(encoded(text), safe="")


def _not(value: Any) -> bool:
    return not truth(value)


def _unreachable(*_: object) -> None:
    raise AssertionError("the compiler evaluates and, or")


BUILTINS: Final[Mapping[str, Function]] = {
    "and": ShortCircuit(_unreachable, ("any",), "any", stop=False),
    "or": ShortCircuit(_unreachable, ("any",), "any", stop=True),
    "call": f(call, "any", "any..."),
    "html": f(html, "any..."),
    "index": f(index, "any", "any..."),
    "slice": f(slice_, "any", "any..."),
    "js": f(js, "any..."),
    "len": f(len_, "any"),
    "not": f(_not, "any"),
    "print": f(lambda *values: sprint(values), "any..."),
    "printf": f(lambda format, *values: sprintf(format, values), "string", "any..."),
    "println": f(lambda *values: sprintln(values), "any..."),
    "urlquery": f(urlquery, "any..."),
    "eq": f(eq, "any", "any..."),
    "ne": f(ne, "any", "any"),
    "lt": f(lt, "any", "any"),
    "le": f(le, "any", "any"),
    "gt": f(gt, "any", "any"),
    "ge": f(ge, "any", "any"),
}

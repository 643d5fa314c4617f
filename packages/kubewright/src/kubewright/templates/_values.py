"""Values of templates, and the Go types that they have.

Go                        Python
nil                       None
bool, string, float64     bool, str, float
int                       int
int64, uint8, uint64      Int64, Uint8, Uint64
[]interface {}            list
[]string, []int           Strings, Ints
map[string]interface {}   dict
map[string]string         StringMap
structs with methods      subclasses of Object
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar, Final

from kubewright.templates._strconv import encoded


class FunctionError(Exception):
    """Raised by a function of a template: the message says what is wrong with its arguments."""


class LimitError(Exception):
    """A template needs more than its limits allow."""


class Budget:
    """What is left of the limits of a rendering."""

    __slots__ = ("size", "steps")

    def __init__(self, steps: int, size: int) -> None:
        self.steps = steps
        self.size = size

    def spend(self, steps: int) -> None:
        """Count steps. Raises LimitError."""
        self.steps -= steps
        if self.steps < 0:
            raise LimitError("the template needs too many steps; a loop is too long, or a function is called too often")

    def write(self, size: int) -> None:
        """Count characters that are about to be made. Raises LimitError."""
        self.size -= size
        if self.size < 0:
            raise LimitError("the template makes too much text; a loop or a repetition is too long")


BUDGET: ContextVar[Budget] = ContextVar("kubewright_templates_budget")


def spend(steps: int) -> None:
    """Count steps of the current rendering."""
    BUDGET.get().spend(steps)


def spend_on(text: str) -> None:
    """Count the steps of a function that looks at each character of a text."""
    if len(text) > 64:
        BUDGET.get().spend(len(text) // 4)


def reserve(size: int) -> None:
    """Check that a text of this size may be made. The result of the function is counted later."""
    if size > BUDGET.get().size:
        BUDGET.get().write(size)


class Invalid:
    """No value at all: a missing key, or no data. Go's zero reflect.Value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<no value>"


INVALID: Final = Invalid()


class Int64(int):
    """An int64."""


class Uint8(int):
    """A uint8, as an index into a string returns it."""


class Uint64(int):
    """A uint64."""


class Strings(list[Any]):
    """A []string."""


class Ints(list[Any]):
    """A []int."""


class Lists(list[Any]):
    """A [][]interface {}."""


class NilList(list[Any]):
    """A nil []interface {}."""


class NilStrings(list[Any]):
    """A nil []string."""


class StringMap(dict[str, Any]):
    """A map[string]string."""


class NilMap(dict[str, Any]):
    """A nil map[string]interface {}."""


class Object:
    """A Go struct, or a pointer to one. Templates see its members and methods, and nothing else."""

    type_name: ClassVar[str]
    kind: ClassVar[str] = "struct"
    members: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    methods: ClassVar[Mapping[str, Any]] = {}
    """Functions by name; the object is their first argument."""

    def text(self) -> str:
        """Return what is printed."""
        raise NotImplementedError

    def json(self) -> Any:
        """Return the value for JSON."""
        raise NotImplementedError

    def key(self) -> object:
        """Return what equality compares."""
        return id(self)


class NamedInt(int):
    """An int with a name and a text, such as time.Month."""

    type_name: ClassVar[str]

    def text(self) -> str:
        """Return what is printed."""
        raise NotImplementedError


TYPES: Final[dict[type, tuple[str, str]]] = {
    type(None): ("<nil>", "invalid"),
    Invalid: ("<nil>", "invalid"),
    bool: ("bool", "bool"),
    str: ("string", "string"),
    int: ("int", "int"),
    Int64: ("int64", "int64"),
    Uint8: ("uint8", "uint8"),
    Uint64: ("uint64", "uint64"),
    float: ("float64", "float64"),
    complex: ("complex128", "complex128"),
    list: ("[]interface {}", "slice"),
    NilList: ("[]interface {}", "slice"),
    Strings: ("[]string", "slice"),
    NilStrings: ("[]string", "slice"),
    Ints: ("[]int", "slice"),
    Lists: ("[][]interface {}", "slice"),
    dict: ("map[string]interface {}", "map"),
    NilMap: ("map[string]interface {}", "map"),
    StringMap: ("map[string]string", "map"),
}
NIL_TYPES: Final = frozenset((type(None), Invalid, NilList, NilStrings, NilMap))
_BASIC: Final = {
    bool: "bool", str: "string", int: "int", Int64: "int", Uint8: "uint", Uint64: "uint", float: "float",
    complex: "complex",
}  # fmt: skip


def type_name(value: Any) -> str:
    """Return the Go type of a value."""
    found = TYPES.get(type(value))
    return found[0] if found else str(value.type_name)


def kind_name(value: Any) -> str:
    """Return the kind of the Go type of a value."""
    if found := TYPES.get(type(value)):
        return found[1]
    return "int" if isinstance(value, NamedInt) else str(value.kind)


def basic_kind(value: Any) -> str | None:
    """Return which values this one can be compared with; None for those that have no order."""
    return _BASIC.get(type(value)) or ("int" if isinstance(value, NamedInt) else None)


def truth(value: Any) -> bool:
    """Return whether `if` takes a value as true: it is not the zero value of its type."""
    if isinstance(value, Object):
        return True
    return value is not INVALID and bool(value)


def length(text: str) -> int:
    """Return the length of a string in bytes."""
    return len(text) if text.isascii() else len(encoded(text))


def wrapped(value: int) -> int:
    """Return an integer as 64 bits hold it."""
    return (value + 2**63) % 2**64 - 2**63


def elements(value: Any) -> Iterator[Any]:
    """Yield the values in a list or map, sorted by key."""
    if isinstance(value, dict):
        yield from (value[key] for key in sorted(value))
    else:
        yield from value


def deep_equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal and have the same types, as Go's reflect.DeepEqual does."""
    budget = BUDGET.get()

    def equal(a: Any, b: Any) -> bool:
        budget.spend(1)
        if type(a) is not type(b):
            return (a is None and b is INVALID) or (a is INVALID and b is None)
        if isinstance(a, list):
            return a is b or (len(a) == len(b) and all(map(equal, a, b)))
        if isinstance(a, dict):
            return a.keys() == b.keys() and (a is b or all(equal(a[key], b[key]) for key in a))
        if isinstance(a, Object):
            return bool(a.key() == b.key())
        return bool(a == b)

    return equal(left, right)


def imported(value: Any) -> Any:
    """Return a copy of JSON data as values of templates. Raises TypeError for anything else."""
    kind = type(value)
    if kind is str or kind is int or kind is float or kind is bool or value is None:
        return value
    if isinstance(value, Mapping):
        return _imported_map(value)
    if isinstance(value, list | tuple):
        copies = [imported(each) for each in value]
        return kind(copies) if kind in TYPES else copies
    if kind in TYPES or isinstance(value, Object):
        return value
    for base in (str, bool, int, float):
        if isinstance(value, base):
            return base(value)
    raise TypeError(
        f"a template takes strings, numbers, booleans, lists and mappings, not {kind.__name__}; convert the value first"
    )


def _imported_map(value: Mapping[Any, Any]) -> Any:
    copy: dict[str, Any] = {}
    for key, each in value.items():
        if not isinstance(key, str):
            raise TypeError(f"key {key!r} is a {type(key).__name__}; keys of a template's values are strings")
        copy[str(key)] = imported(each)
    kind: Any = type(value)
    return kind(copy) if kind in TYPES else copy


def json_numbers(value: object) -> object:
    """Return JSON data with every number as a float, as Go's JSON decoder reads it."""
    if isinstance(value, Mapping):
        return {key: json_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_numbers(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value

"""The estimated cost of calls, without that of their arguments, and the sizes of their results.

A function that is not listed here costs one step, and the size of its result is what its type says.

Follows the functions of cel-go's checker/cost.go, ext/lists.go and ext/sets.go, and of
k8s.io/apiserver/pkg/cel/library/cost.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, TypeAlias

from kubewright.cel.syntax import Expr, Literal
from kubewright.cel.types import Signature, Type
from kubewright_controlplane.schema.cel.sizes import (
    ENDLESS,
    PATTERN,
    TRAVERSAL,
    UNKNOWN,
    Size,
    added,
    fixed,
    multiplied,
    scaled,
)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument or the receiver of a call, as far as the cost depends on it."""

    expression: Expr
    known_size: Size | None
    item_size: Size
    """The size of the items, if it is a list."""

    @property
    def type(self) -> Type:
        return self.expression.type

    @property
    def size(self) -> Size:
        return UNKNOWN if self.known_size is None else self.known_size


@dataclass(frozen=True, slots=True)
class CallCost:
    cost: int
    size: Size | None = None
    """The size of the result, if it depends on the arguments."""


Estimate: TypeAlias = Callable[[Sequence[Argument], Signature], CallCost]
"""From all arguments, of which the first is the receiver, and the overload."""

_STEP: Final = CallCost(1)
_LIST: Final = 11
"""The cost of a call that makes a list."""
_ADDRESS: Final = Size(4, 16)
"""The number of bytes of an IP address."""
_FORMAT_PATTERN: Final = 32.0
"""The cost of a format's pattern, by each step of the text."""
_FORMAT_NAME: Final = 64
"""The maximum length of a format's name."""


def call_cost(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    """Return the estimate for one overload of a function."""
    estimate = _ESTIMATES.get(overload.function)
    return _STEP if estimate is None else estimate(arguments, overload)


def _read(place: int, factor: float = TRAVERSAL, *, same_size: bool = False) -> Estimate:
    """Estimate a function that reads one of its arguments from start to end."""

    def estimate(arguments: Sequence[Argument], overload: Signature) -> CallCost:
        size = arguments[place].size
        return CallCost(size.cost(factor), size if same_size else None)

    return estimate


def _plus(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    size = arguments[0].size + arguments[1].size
    match overload.parameters[0].name:
        case "list":
            return CallCost(1, size)
        case "string" | "bytes":
            return CallCost(size.cost(), size)
        case _:
            return _STEP


def _comparison(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    if overload.parameters[0].name in ("string", "bytes"):
        return _inequality(arguments, overload)
    return _STEP


def _inequality(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    return CallCost(scaled(min(each.size.most for each in arguments), TRAVERSAL))


def _equality(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    left, right = arguments
    if left.type == right.type:
        match left.type.name:
            case "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver":
                return _STEP
            case "kubernetes.NamedFormat":
                return CallCost(scaled(_FORMAT_NAME, TRAVERSAL))
            case "kubernetes.URL":
                return CallCost(scaled(1 if right.known_size is None else right.known_size.most, TRAVERSAL))
            case _:
                pass
    return _inequality(arguments, overload)


def _contained(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    return CallCost(arguments[1].size.most) if overload.parameters[1].name == "list" else _STEP


def _to_string(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    if overload.parameters[0].name != "bytes":
        return _STEP
    size = arguments[0].size
    return CallCost(size.cost(), Size(size.least // 4, size.most))


def _to_bytes(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    if overload.parameters[0].name != "string":
        return _STEP
    size = arguments[0].size
    return CallCost(size.cost(), Size(size.least, size.most * 4 % 2**64))


def _quoted(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    size = arguments[0].size
    return CallCost(size.cost(), Size(size.least + 2, (size.most * 2 + 2) % 2**64))


def _pattern_match(text: Size, pattern: Size) -> int:
    return multiplied((text + fixed(1)).cost(), pattern.cost(PATTERN))


def _matches(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    if not overload.member:
        return _STEP
    return CallCost(_pattern_match(arguments[0].size, arguments[1].size))


def _find(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    size = arguments[0].size
    return CallCost(_pattern_match(size, arguments[1].size), Size(0, size.most))


def _contains(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    return CallCost(multiplied(arguments[0].size.cost(), arguments[1].size.cost()))


def _replaced(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    text, old, new = (each.size for each in arguments[:3])
    most, kept = _most_replaced(text, old, new)
    least, left = _least_replaced(text, old, new)
    return CallCost(text.cost(2 * TRAVERSAL), Size(least, most) * new + Size(left, kept))


def _most_replaced(text: Size, old: Size, new: Size) -> tuple[int, int]:
    """Return the maximum number of replacements, and the number of characters in addition to them."""
    if old.least == 0:
        return added(text.most, 1), text.most
    if new.most <= old.least:
        return 0, text.most
    return _quotient(text.most, old.least), 0


def _least_replaced(text: Size, old: Size, new: Size) -> tuple[int, int]:
    if old.most == 0:
        return added(text.least, 1), text.least
    if old.most <= new.least:
        return 0, text.least
    return _quotient(text.least, old.most), 0


def _quotient(left: int, right: int) -> int:
    """Divide and round up. A quotient that is too large becomes half of the range, as the API server computes it."""
    found = ceil(float(left) / float(right))
    return found if found < 2**64 else 2**63


def _split(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    size = arguments[0].size
    most = size.most
    if len(arguments) > 2:
        match arguments[2].expression:
            case Literal(value=int(limit)):
                most = limit % 2**64
            case _:
                pass
    return CallCost(size.cost(2 * TRAVERSAL), Size(0, most))


def _joined(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    items = arguments[0].size
    size = items * arguments[0].item_size
    if len(arguments) > 1:
        size += arguments[1].size * Size(max(items.least - 1, 0), max(items.most - 1, 0))
    return CallCost(size.cost(), size)


def _each_item(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    of = arguments[0]
    if not of.type.parameters:
        return CallCost(of.size.cost())
    texts = of.type.parameters[0].name in ("string", "bytes")
    return CallCost(multiplied(of.size.most, added(1, of.item_size.cost()) if texts else 1))


def _contains_address(steps: int) -> Estimate:
    def estimate(arguments: Sequence[Argument], overload: Signature) -> CallCost:
        parsed = arguments[1].size.cost() if overload.parameters[1].name == "string" else 0
        return CallCost(added(steps, parsed))

    return estimate


def _ip(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    return _STEP if overload.member else CallCost(arguments[0].size.cost())


def _validated(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    return CallCost(scaled(arguments[1].size.cost(), _FORMAT_PATTERN))


def _made_list(size: Size, factor: float) -> CallCost:
    return CallCost(added(size.cost(factor), _LIST), size)


def _whole_number(argument: Argument, default: int) -> int:
    match argument.expression:
        case Literal(value=int(number)):
            return max(number, 0)
        case _:
            return default


def _slice(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    start = _whole_number(arguments[1], 0)
    end = _whole_number(arguments[2], arguments[0].size.most)
    return _made_list(fixed((end - start) % 2**64), 1)


def _range(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    return _made_list(fixed(_whole_number(arguments[0], ENDLESS)), 1)


def _reversed(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    return _made_list(arguments[0].size, 1)


def _flattened(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    depth = _whole_number(arguments[1], ENDLESS) if len(arguments) > 1 else 1
    return _made_list(arguments[0].size, float(depth))


def _distinct(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    return _made_list(arguments[0].size * arguments[0].size, 2)


def _sorted(arguments: Sequence[Argument], overload: Signature) -> CallCost:
    """Estimate `sort` by the items, and `sortBy` by the keys."""
    keys = arguments[-1].size
    texts = overload.parameters[-1].parameters[0].name in ("string", "bytes", "dyn")
    return _made_list(keys * keys, 2 + TRAVERSAL if texts else 2)


def _sets(factor: float) -> Estimate:
    def estimate(arguments: Sequence[Argument], overload: Signature) -> CallCost:
        pairs = arguments[0].size * arguments[1].size
        return CallCost(added(pairs.cost(factor), 1))

    return estimate


_ESTIMATES: Final[Mapping[str, Estimate]] = {
    "_+_": _plus,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _comparison),
    "_==_": _equality,
    "_!=_": _inequality,
    "@in": _contained,
    "string": _to_string,
    "bytes": _to_bytes,
    "strings.quote": _quoted,
    "format": _read(0),
    **dict.fromkeys(("startsWith", "endsWith"), _read(1)),
    "matches": _matches,
    **dict.fromkeys(("find", "findAll"), _find),
    "contains": _contains,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim", "url"), _read(0, same_size=True)),
    "replace": _replaced,
    "split": _split,
    "join": _joined,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _each_item),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _read(0)),
    "ip": _ip,
    "ip.isCanonical": _read(0, 2 * TRAVERSAL),
    "containsIP": _contains_address((_ADDRESS + _ADDRESS).cost()),
    "containsCIDR": _contains_address((_ADDRESS + _ADDRESS).cost() + _ADDRESS.cost() + 1),
    "validate": _validated,
    "slice": _slice,
    "lists.range": _range,
    "reverse": _reversed,
    "flatten": _flattened,
    "distinct": _distinct,
    **dict.fromkeys(("sort", "@sortByAssociatedKeys"), _sorted),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _sets(1)),
    "sets.equivalent": _sets(2),
}

"""Sprig's functions of numbers. Strings and booleans count as numbers, and any other value counts as 0."""

from __future__ import annotations

import decimal
import math
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from kubewright.templates._format import sprint
from kubewright.templates._functions import Function, f
from kubewright.templates._strconv import MAX_INT, MIN_INT, parse_float, parse_int
from kubewright.templates._values import FunctionError, Int64, Ints, Uint64, reserve, spend, wrapped

_PRECISION: Final = 16
_CONTEXT: Final = decimal.Context(prec=40_000, Emax=1_000_000, Emin=-1_000_000, traps=[decimal.InvalidOperation])


def to_int64(value: Any) -> int:
    """Return a value as an integer of 64 bits."""
    if isinstance(value, float):
        return int(value) if -(2.0**63) <= value < 2.0**63 else MIN_INT
    if isinstance(value, str):
        if len(value) > 1000:
            return 0
        return parse_int(_without_zeros(value)) or 0
    if isinstance(value, Uint64):
        return wrapped(value)
    return int(value) if isinstance(value, int) else 0


def _without_zeros(text: str) -> str:
    """Remove a fraction that is zero."""
    whole, dot, fraction = text.rpartition(".")
    return whole if dot and fraction and not fraction.strip("0") else text


def to_float64(value: Any) -> float:
    """Return a value as a float."""
    if isinstance(value, str):
        return parse_float(value) or 0.0
    return float(value) if isinstance(value, int | float) else 0.0


def _int(value: Any) -> int:
    return to_int64(value)


def _int64(value: Any) -> Int64:
    return Int64(to_int64(value))


def atoi(text: str, base: int = 10) -> int:
    """Read an integer as Go's strconv.Atoi does with its errors ignored."""
    value = parse_int(text, base)
    if value is None and text.lstrip("+-").isdigit() and text.isascii() and len(text) - len(text.lstrip("+-")) < 2:
        return MIN_INT if text.startswith("-") else MAX_INT
    return value or 0


def _to_decimal(value: Any) -> Int64:
    return Int64(parse_int(sprint((value,)), 8) or 0)


# ---- integers


def _add(*values: Any) -> Int64:
    return Int64(wrapped(sum(map(to_int64, values))))


def _sub(left: Any, right: Any) -> Int64:
    return Int64(wrapped(to_int64(left) - to_int64(right)))


def _mul(first: Any, *values: Any) -> Int64:
    product = to_int64(first)
    for each in values:
        product = wrapped(product * to_int64(each))
    return Int64(product)


def _quotient(left: Any, right: Any) -> tuple[int, int]:
    dividend, divisor = to_int64(left), to_int64(right)
    if not divisor:
        raise FunctionError("division by zero")
    quotient = abs(dividend) // abs(divisor)
    if (dividend < 0) != (divisor < 0):
        quotient = -quotient
    return quotient, dividend - quotient * divisor


def _div(left: Any, right: Any) -> Int64:
    return Int64(wrapped(_quotient(left, right)[0]))


def _mod(left: Any, right: Any) -> Int64:
    return Int64(_quotient(left, right)[1])


def _max(first: Any, *values: Any) -> Int64:
    return Int64(max(map(to_int64, (first, *values))))


def _min(first: Any, *values: Any) -> Int64:
    return Int64(min(map(to_int64, (first, *values))))


def _rand_int(low: int, high: int) -> int:
    if high <= low:
        raise FunctionError(f"the upper bound must be greater than the lower one, got {low} and {high}")
    return random.SystemRandom().randrange(low, high)


# ---- floats


def _extreme(choose: Callable[[float, float], float]) -> Callable[..., float]:
    def extreme(first: Any, *values: Any) -> float:
        best = to_float64(first)
        for each in map(to_float64, values):
            best = math.nan if math.isnan(best) or math.isnan(each) else choose(best, each)
        return best

    return extreme


def _larger(left: float, right: float) -> float:
    if left == right:
        return left if math.copysign(1, left) > 0 else right
    return max(left, right)


def _smaller(left: float, right: float) -> float:
    if left == right:
        return left if math.copysign(1, left) < 0 else right
    return min(left, right)


def _floor(value: float) -> float:
    if not math.isfinite(value):
        return value
    return math.copysign(float(math.floor(value)), value) if value else value


def _ceil(value: float) -> float:
    if not math.isfinite(value):
        return value
    return math.copysign(float(math.ceil(value)), value) if value else value


def _power_of_ten(exponent: int) -> float:
    """Return a power of ten with the rounding of Go's math.Pow."""
    factor, power = 1.0, 0
    base, base_power = math.frexp(10.0)
    rest = abs(exponent)
    while rest:
        if not -(1 << 12) <= base_power <= 1 << 12:
            power += base_power
            break
        if rest & 1:
            factor *= base
            power += base_power
        base *= base
        base_power <<= 1
        if base < 0.5:
            base += base
            base_power -= 1
        rest >>= 1
    if exponent < 0:
        factor, power = 1 / factor, -power
    try:
        return math.ldexp(factor, power)
    except OverflowError:
        return math.inf


def _round(value: Any, places: int, *threshold: float) -> float:
    power = _power_of_ten(places)
    digits = power * to_float64(value)
    fraction = math.modf(digits)[0] if math.isfinite(digits) else math.nan
    rounded = _ceil(digits) if fraction >= (threshold[0] if threshold else 0.5) else _floor(digits)
    if power:
        return rounded / power
    return math.nan if not rounded or math.isnan(rounded) else math.copysign(math.inf, rounded)


def _decimal(value: Any) -> decimal.Decimal:
    number = to_float64(value)
    if not math.isfinite(number):
        raise FunctionError(f"{number} is not a decimal number")
    return decimal.Decimal(repr(number)) if number else decimal.Decimal(0)


def _decimals(step: Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal]) -> Callable[..., float]:
    def run(first: Any, *values: Any) -> float:
        result = _decimal(first)
        for each in values:
            spend(50)
            result = step(result, _decimal(each))
        return float(result) if result else 0.0

    return run


def _divided(left: decimal.Decimal, right: decimal.Decimal) -> decimal.Decimal:
    if not right:
        raise FunctionError("division by zero")
    numerator, denominator = left.as_integer_ratio(), right.as_integer_ratio()
    above = abs(numerator[0] * denominator[1]) * 10**_PRECISION
    below = abs(numerator[1] * denominator[0])
    digits = (2 * above + below) // (2 * below)
    result = decimal.Decimal(digits).scaleb(-_PRECISION, _CONTEXT)
    return -result if (left < 0) != (right < 0) else result


# ---- sequences


def until_step(start: int, stop: int, step: int) -> Ints:
    """Return the integers from start to before stop."""
    if (stop < start and step >= 0) or (stop >= start and step <= 0):
        return Ints()
    numbers = range(start, stop, step)
    spend(len(numbers))
    return Ints(numbers)


def _until(count: int) -> Ints:
    return until_step(0, count, -1 if count < 0 else 1)


def _seq(*numbers: int) -> str:
    if len(numbers) == 1:
        step = -1 if numbers[0] < 1 else 1
        items = until_step(1, numbers[0] + step, step)
    elif len(numbers) == 2:
        step = -1 if numbers[1] < numbers[0] else 1
        items = until_step(numbers[0], numbers[1] + step, step)
    elif len(numbers) == 3:
        start, step, end = numbers
        if end < start and step > 0:
            return ""
        items = until_step(start, end + (-1 if end < start else 1), step)
    else:
        return ""
    reserve(2 * len(items))
    return " ".join(map(str, items))


FUNCTIONS: Final[Mapping[str, Function]] = {
    "atoi": f(atoi, "string"),
    "int64": f(_int64, "any"),
    "int": f(_int, "any"),
    "float64": f(to_float64, "any"),
    "toDecimal": f(_to_decimal, "any"),
    "seq": f(_seq, "int..."),
    "until": f(_until, "int"),
    "untilStep": f(until_step, "int", "int", "int"),
    "add1": f(lambda value: _add(value, 1), "any"),
    "add": f(_add, "any..."),
    "sub": f(_sub, "any", "any"),
    "div": f(_div, "any", "any"),
    "mod": f(_mod, "any", "any"),
    "mul": f(_mul, "any", "any..."),
    "randInt": f(_rand_int, "int", "int"),
    "add1f": f(lambda value: _decimals(_CONTEXT.add)(value, 1), "any"),
    "addf": f(lambda *values: _decimals(_CONTEXT.add)(0.0, *values), "any..."),
    "subf": f(_decimals(_CONTEXT.subtract), "any", "any..."),
    "divf": f(_decimals(_divided), "any", "any..."),
    "mulf": f(_decimals(_CONTEXT.multiply), "any", "any..."),
    "biggest": f(_max, "any", "any..."),
    "max": f(_max, "any", "any..."),
    "min": f(_min, "any", "any..."),
    "maxf": f(_extreme(_larger), "any", "any..."),
    "minf": f(_extreme(_smaller), "any", "any..."),
    "ceil": f(lambda value: _ceil(to_float64(value)), "any"),
    "floor": f(lambda value: _floor(to_float64(value)), "any"),
    "round": f(_round, "any", "int", "float..."),
}

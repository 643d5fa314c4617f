"""Values of parameters: text in the API, typed in templates if they are arrays or maps.

Follows KUDO 0.19: `wrapped` makes the text of a default as KUDO does, for example `1e+06` of the number 1000000.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubewright.machinery import yaml
from kubewright.machinery.errors import DecodeError
from kubewright.machinery.json import compact, is_array, is_object
from kubewright.packages._api import OperatorVersionSpec, Parameter
from kubewright.templates import json_numbers
from kubewright.templates._strconv import format_float, parse_float, parse_int

TYPES: Final = ("", "string", "integer", "number", "boolean", "array", "map")
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")
_SHOWN: Final = 80


def wrapped(value: Any, type_: str) -> str | None:
    """Return the text of a value of a package; None if there is no value."""
    if type_ in ("array", "map"):
        return yaml_text(value)
    return None if value is None else printed(value)


def yaml_text(value: Any) -> str:
    """Return a value as YAML."""
    return yaml.dump(value).removesuffix("...\n")


def printed(value: Any) -> str:
    """Return a value as Go prints it, with every number as a float64."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return format_float(float(value))
    if is_array(value):
        return f"[{' '.join(map(_nested, value))}]"
    if is_object(value):
        return f"map[{' '.join(f'{key}:{_nested(value[key])}' for key in sorted(value))}]"
    return "<nil>"


def _nested(value: Any) -> str:
    return "<nil>" if value is None else printed(value)


def unwrapped(text: str | None, type_: str) -> Any:
    """Return what templates see of a value: an array or a map for these types, otherwise text. Raises DecodeError."""
    if type_ not in ("array", "map"):
        return text or ""
    value = json_numbers(yaml.load_value(text or ""))
    if type_ == "array" and value is not None and not is_array(value):
        raise DecodeError("not an array")
    return value


def boolean(text: str) -> bool | None:
    """Return the boolean that a text stands for; None if there is none."""
    return True if text in _TRUE else False if text in _FALSE else None


def type_error(value: Any, type_: str) -> str:
    """Return what is wrong with a value of a parameter of this type; an empty text if nothing is."""
    match type_:
        case "string":
            fits = isinstance(value, str)
        case "integer":
            fits = _is_integer(value)
        case "number":
            fits = _is_number(value)
        case "boolean":
            fits = isinstance(value, bool) or (isinstance(value, str) and boolean(value) is not None)
        case "array":
            fits = _is_yaml(value, is_array)
        case "map":
            fits = _is_yaml(value, is_object)
        case _:
            return ""
    return "" if fits else f"must be of type {type_}, got {shown(value)}"


def shown(value: Any) -> str:
    """Return a value for a message."""
    text = compact(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _is_integer(value: Any) -> bool:
    if isinstance(value, str):
        return parse_int(value, 10) is not None
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return parse_float(value) is not None
    return not isinstance(value, bool) and isinstance(value, int | float)


def _is_yaml(value: Any, is_expected: Any) -> bool:
    if not isinstance(value, str):
        return bool(is_expected(value))
    try:
        found = yaml.load_value(value)
    except DecodeError:
        return False
    return found is None or bool(is_expected(found))


def value_error(parameter: Parameter, value: str) -> str:
    """Return what is wrong with the value of a parameter in an Instance; an empty text if nothing is."""
    if not value:
        is_missing = parameter.required and parameter.default is None
        return "is required but has no value" if is_missing else ""
    if wrong := type_error(value, parameter.type):
        return wrong
    if parameter.enum is not None and value not in parameter.enum:
        return f"must be one of {listed(parameter.enum)}, got {shown(value)}"
    return ""


def listed(values: Iterable[Any]) -> str:
    """Return values for a message: `"a", "b"`."""
    return ", ".join(shown(each) for each in values)


def template_parameters(spec: OperatorVersionSpec, values: dict[str, str]) -> dict[str, Any]:
    """Return `.Params` of templates: the values of an Instance, and the defaults of the others. Raises DecodeError."""
    found: dict[str, Any] = {}
    for each in spec.parameters:
        try:
            found[each.name] = unwrapped(values.get(each.name, each.default), each.type)
        except DecodeError as error:
            raise DecodeError(f"parameter {each.name} is not a YAML {each.type}: {error}") from error
    return found

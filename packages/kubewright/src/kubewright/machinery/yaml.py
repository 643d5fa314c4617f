"""YAML as Kubernetes' tools read and write it.

They read a mix of YAML 1.1 and 1.2 (sigs.k8s.io/yaml): `yes`, `on` and `y` are booleans, `1e3` is a number, `0o14` and
`014` are octal, and a date is text. `load` follows these rules. `dump` quotes every string that these tools, or a
YAML 1.1 parser, would read as another type. It keeps the order of keys, and writes multiline text as a block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final, cast

import yaml

from kubewright.machinery.errors import DecodeError
from kubewright.machinery.json import JSONObject, is_array, is_object

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = ("y", "yes", "true", "on")
_FALSE: Final = ("n", "no", "false", "off")
_BOOL: Final = "|".join(form for word in (*_TRUE, *_FALSE) for form in (word, word.capitalize(), word.upper()))
_INT: Final = r"[-+]?(0[bB][01_]+|0[oO]?[0-7_]+|0[xX][0-9a-fA-F_]+|0|[1-9][0-9_]*)"
_FLOAT: Final = r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
_READ: Final = (
    ("bool", _BOOL, "yYnNtTfFoO"),
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", _INT, "-+0123456789"),
    ("float", _FLOAT, "-+.0123456789"),
    ("merge", "<<", "<"),
)
_OTHER: Final = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|="
"""Dates and base-60 numbers, which are text in Go but not in other parsers."""
_NO_FOLDING: Final = 2**31 - 1
_SHOWN: Final = 60

_safe_loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_safe_dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def load(text: str | bytes) -> JSONObject:
    """Return the only object in a YAML text. Raises DecodeError."""
    documents = list(load_all(text))
    if len(documents) != 1:
        raise DecodeError(f"the YAML text has {len(documents)} documents, and should have one")
    return documents[0]


def load_all(text: str | bytes) -> Iterator[JSONObject]:
    """Yield the objects in a YAML text, in order, without empty documents. Raises DecodeError."""
    try:
        for place, document in enumerate(yaml.load_all(text, Loader=_Loader), 1):
            if is_object(document):
                yield cast("JSONObject", _as_json(document))
            elif document is not None:
                raise DecodeError(f"document {place} is {_described(document)}, not an object")
    except yaml.YAMLError as error:
        raise DecodeError(f"not YAML: {error}") from error


def _described(document: object) -> str:
    """Describe a document that is not an object, in YAML's words."""
    if is_array(document):
        return f"a list of {len(document)}"
    shown = repr(document)
    return f"a scalar: {shown}" if len(shown) <= _SHOWN else f"a scalar: {shown[:_SHOWN]}..."


def dump(*documents: JSONObject) -> str:
    """Return the documents as YAML text; several are separated by lines of `---`."""
    text: str = yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=True,
        allow_unicode=True,
        width=_NO_FOLDING,
        explicit_start=len(documents) > 1,
    )
    return text


class _Loader(_safe_loader):  # type: ignore[misc] # the C one, where there is one
    """Reads scalars as Go does."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


class _Dumper(_safe_dumper):  # type: ignore[misc]
    """Quotes every string that some parser might not read as text."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else None
    if text and dumper.resolve(yaml.ScalarNode, text, (True, False)) != f"{_TAG}str":
        style = '"'  # sigs.k8s.io/yaml uses double quotes here, too
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


def _bool(loader: Any, node: Any) -> bool:
    return loader.construct_scalar(node).lower() in _TRUE


def _number(loader: Any, node: Any) -> int | float:
    text: str = loader.construct_scalar(node).replace("_", "")
    if not re.fullmatch(_INT, text):
        return float(text.replace(".inf", "inf").replace(".nan", "nan"))
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    return sign * (int(digits, 8) if re.fullmatch("0[0-7]+", digits) else int(digits, 0))


def _as_json(value: Any) -> Any:
    """Return the value with strings as keys, as in JSON."""
    if is_object(value):
        return {_key(key): _as_json(each) for key, each in value.items()}
    return [_as_json(each) for each in value] if is_array(value) else value


def _key(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key)


for _name, _pattern, _first in _READ:
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"({_pattern})$"), list(_first))
    _Dumper.add_implicit_resolver(_TAG + _name, re.compile(f"({_pattern})$"), list(_first))
_Dumper.add_implicit_resolver(f"{_TAG}other", re.compile(f"({_OTHER})$"), list("-+0123456789="))
_Dumper.add_representer(str, _text)
_Loader.add_constructor(f"{_TAG}bool", _bool)
_Loader.add_constructor(f"{_TAG}int", _number)
_Loader.add_constructor(f"{_TAG}float", _number)

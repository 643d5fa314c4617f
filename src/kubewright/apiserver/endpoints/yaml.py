"""YAML as Kubernetes reads and writes it: JSON in another dress.

Only what JSON can say comes out: a date stays the text that it is, keys are strings. What is written quotes whatever
another YAML reader could take for a number, a boolean, a date or null.

Follows sigs.k8s.io/yaml.
"""

from __future__ import annotations

import re
from typing import Any, cast

import yaml

from kubewright.machinery.json import JSONObject

_base_loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_base_dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Loader(_base_loader):
    """YAML 1.1's scalars without its dates."""


class _Dumper(_base_dumper):
    """Quotes what other readers of YAML 1.1 and 1.2 would not read as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _base_loader.yaml_implicit_resolvers.items()
}
_AMBIGUOUS = re.compile(
    r"[-+]?(\d[\d_]*)?\.?\d[\d_]*([eE][-+]?\d+)?|0[oOxXbB][\da-fA-F_]+|[yYnN]|[yY]es|[nN]o|[oO]n|[oO]ff|="
)
_Dumper.add_implicit_resolver("tag:kubewright,ambiguous", _AMBIGUOUS, None)


def load(body: bytes) -> JSONObject:
    """The one object in a YAML document. Raises ValueError when it is no YAML, or not an object."""
    try:
        document = yaml.load(body, _Loader)  # a subclass of the safe loader
    except yaml.YAMLError as error:
        raise ValueError(f"error converting YAML to JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError("error converting YAML to JSON: the document is not an object")
    return cast("JSONObject", _with_text_keys(document))


def dump(document: JSONObject) -> bytes:
    """The document as YAML, keys in order."""
    return cast("str", yaml.dump(document, Dumper=_Dumper, sort_keys=True, allow_unicode=True)).encode()


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value)
        return {_text(key): _with_text_keys(item) for key, item in items.items()}
    if isinstance(value, list):
        return [_with_text_keys(item) for item in cast("list[Any]", value)]
    return value


def _text(key: object) -> str:
    if isinstance(key, str):
        return key
    return {True: "true", False: "false", None: "null"}.get(cast("Any", key), str(key))

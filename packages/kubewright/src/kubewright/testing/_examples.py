"""Objects of a kind, generated from its schema: any that the schema allows, whatever they mean.

CEL rules are not considered. The same seed generates the same objects.
"""

from __future__ import annotations

import base64
import importlib
import random
import re
import string
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject, is_object
from kubewright.machinery.time import format as format_time
from kubewright.models import CustomResource
from kubewright.models._schema import root_schema

_OMITTED: Final = 0.35
"""How often an optional field is left out."""
_ITEMS: Final = 3
"""The most items of a list or map, unless it needs more."""
_REPEATS: Final = 4
"""The most repetitions in a pattern without a limit."""
_TRIES: Final = 50
_EPOCH: Final = datetime(2020, 1, 1, tzinfo=UTC)
_LETTERS: Final = string.ascii_lowercase + string.digits
_ANY: Final = string.ascii_letters + string.digits + "-_./ "


class Examples:
    """Generates objects of one kind."""

    def __init__(self, kind: type[CustomResource], chance: random.Random) -> None:
        self._kind = kind
        self._schema = root_schema(kind)
        self._random = chance

    def document(self) -> JSONObject:
        """Return an object, as JSON."""
        api = self._kind.__api__
        metadata: JSONObject = {"name": self._word(), "uid": self._word(12)}
        if api.namespaced:
            metadata["namespace"] = self._word()
        for each in ("labels", "annotations"):
            if self._random.random() > _OMITTED:
                metadata[each] = {
                    f"example.com/{self._word()}": self._word() for _ in range(self._random.randint(1, 2))
                }
        content: JSONObject = self._object(self._schema, self._kind.__name__)
        return {**content, "apiVersion": api.api_version, "kind": api.kind, "metadata": metadata}

    def _value(self, schema: JSONObject, where: str) -> Any:
        if schema.get("nullable") and self._random.random() < _OMITTED:
            return None
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self._int_or_string(schema)
        match schema.get("type"):
            case "string":
                return self._string(schema, where)
            case "integer":
                return self._integer(schema)
            case "number":
                return float(self._integer(schema))
            case "boolean":
                return self._random.random() < 0.5
            case "array":
                return self._array(schema, where)
            case "object":
                return self._object(schema, where)
            case _:
                return self._random.choice([self._word(), self._random.randint(0, 9), {self._word(): self._word()}])

    def _object(self, schema: JSONObject, where: str) -> JSONObject:
        required = schema.get("required", [])
        made = {
            name: self._value(each, f"{where}.{name}")
            for name, each in schema.get("properties", {}).items()
            if name not in ("apiVersion", "kind", "metadata") or where != self._kind.__name__
            if name in required or self._random.random() > _OMITTED
        }
        values = schema.get("additionalProperties")
        if is_object(values):
            made |= {self._word(): self._value(values, f"{where}[]") for _ in range(self._count(schema, "Properties"))}
        elif schema.get("x-kubernetes-preserve-unknown-fields"):
            made |= {self._word(): self._word() for _ in range(self._random.randint(0, 2))}
        return made

    def _array(self, schema: JSONObject, where: str) -> list[Any]:
        items = [self._value(schema["items"], f"{where}[]") for _ in range(self._count(schema, "Items"))]
        keys = schema.get("x-kubernetes-list-map-keys")
        if keys:
            return list({tuple(item.get(key) for key in keys): item for item in items}.values())
        return list(dict.fromkeys(items)) if schema.get("x-kubernetes-list-type") == "set" else items

    def _count(self, schema: JSONObject, what: str) -> int:
        least = schema.get(f"min{what}", 0)
        return self._random.randint(least, max(least, min(schema.get(f"max{what}", _ITEMS), _ITEMS)))

    def _integer(self, schema: JSONObject) -> int:
        step = int(schema.get("multipleOf", 1))
        least = schema.get("minimum", min(0, schema.get("maximum", 0)))
        least = int(least) + bool(schema.get("exclusiveMinimum"))
        most = int(schema.get("maximum", max(least, 0) + 100 * step)) - bool(schema.get("exclusiveMaximum"))
        return self._random.randint(-(-least // step), most // step) * step

    def _int_or_string(self, schema: JSONObject) -> int | str:
        if "pattern" in schema:  # a quantity
            return self._random.choice(["500m", "1", "1500m", "2Gi", "100Mi"])
        choices: list[int | str] = [self._random.randint(1, 65535), "http", "25%"]
        return self._random.choice(choices)

    def _string(self, schema: JSONObject, where: str) -> str:
        least = schema.get("minLength", 0)
        length = max(least, min(schema.get("maxLength", 8), 8))
        match schema.get("format"):
            case "date-time":
                return format_time(_EPOCH + timedelta(seconds=self._random.randint(0, 10**8)))
            case "byte":
                return base64.b64encode(self._word().encode()).decode()
            case "duration":
                return f"{self._random.randint(1, 59)}m0s"
            case _:
                pass
        if pattern := schema.get("pattern"):
            return self._matching(pattern, least, schema.get("maxLength"), where)
        return self._word(self._random.randint(max(least, 1), max(length, 1)))

    def _word(self, length: int = 5) -> str:
        return "".join(self._random.choice(_LETTERS) for _ in range(length))

    def _matching(self, pattern: str, least: int, most: int | None, where: str) -> str:
        for _ in range(_TRIES):
            text = self._from_pattern(pattern)
            if re.search(pattern, text) and least <= len(text) and (most is None or len(text) <= most):
                return text
        raise ConfigError(
            f'{where}: no text was found for the pattern "{pattern}"; pass objects of your own, objects=[...], and '
            f"count=0"
        )

    def _from_pattern(self, pattern: str) -> str:
        """Return a text that probably matches. Anchors and lookarounds are checked by the caller."""
        parser: Any = importlib.import_module("re._parser")  # Python has no public one
        return "".join(self._token(str(name), value) for name, value in parser.parse(pattern))

    def _tokens(self, tokens: Any) -> str:
        return "".join(self._token(str(name), value) for name, value in tokens)

    def _token(self, name: str, value: Any) -> str:
        match name:
            case "LITERAL":
                return chr(value)
            case "IN":
                return self._random.choice(self._choices(value))
            case "ANY" | "NOT_LITERAL":
                return self._random.choice([each for each in _ANY if name == "ANY" or ord(each) != value])
            case "BRANCH":
                return self._tokens(self._random.choice(value[1]))
            case "SUBPATTERN":
                return self._tokens(value[3])
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, tokens = value
                count = self._random.randint(least, min(int(most), least + _REPEATS))
                return "".join(self._tokens(tokens) for _ in range(count))
            case _:
                return ""

    def _choices(self, value: Any) -> list[str]:
        found: set[str] = set()
        negated = False
        for name, item in value:
            match str(name):
                case "NEGATE":
                    negated = True
                case "LITERAL":
                    found.add(chr(item))
                case "RANGE":
                    found.update(chr(code) for code in range(item[0], min(item[1], item[0] + 127) + 1))
                case "CATEGORY":
                    found.update(_CATEGORIES.get(str(item), _ANY))
                case _:
                    pass
        return sorted(set(_ANY) - found if negated else found)


_CATEGORIES: Final = {
    "CATEGORY_DIGIT": string.digits,
    "CATEGORY_NOT_DIGIT": string.ascii_letters,
    "CATEGORY_WORD": string.ascii_letters + string.digits + "_",
    "CATEGORY_NOT_WORD": "-./ ",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_SPACE": string.ascii_letters,
}

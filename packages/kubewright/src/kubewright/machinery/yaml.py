"""YAML as Kubernetes' tools read and write it.

They read a mix of YAML 1.1 and 1.2 (sigs.k8s.io/yaml): `yes`, `on` and `y` are booleans, `1e3` is a number, `0o14` and
`014` are octal, and a date is text. `load` follows these rules. `dump` quotes every string that these tools, or a
YAML 1.1 parser, would read as another type. It keeps the order of keys, and writes multiline text as a block.
"""

from __future__ import annotations

import base64
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import yaml

from kubewright.machinery.errors import DecodeError
from kubewright.machinery.json import DEPTH_LIMIT, JSONObject, compact, copied, is_array, is_object

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
_DIGITS: Final = 300
"""An integer with more is beyond a 64-bit float."""

_ALIASED_FREE, _NODES_FREE = 100, 1000
_NODES_LOW, _NODES_HIGH = 400_000, 4_000_000
_RATIO_HIGH, _RATIO_LOW = 0.99, 0.10
"""The share of nodes that may come from aliases: up to the low number of nodes, and from the high one on."""
_TEXT_NODE: Final = 64
"""Bytes of text that count as a node."""

_NO_KEY: Final = object()
_MERGE: Final = object()

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one, where there is one
_safe_dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def load(text: str | bytes) -> JSONObject:
    """Return the only object in a YAML text. Raises DecodeError."""
    documents = list(load_all(text))
    if len(documents) != 1:
        raise DecodeError(f"the YAML text has {len(documents)} documents, and should have one")
    return documents[0]


def load_all(text: str | bytes) -> Iterator[JSONObject]:
    """Yield the objects in a YAML text, in order, without empty documents. Raises DecodeError.

    Time and memory are linear in the length of the text: a document that is nested more than `DEPTH_LIMIT` levels deep,
    or consists mostly of aliases, is refused. The limit of aliases is that of go-yaml.
    """
    try:
        events = yaml.parse(text, Loader=_Parser)
        place = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                place += 1
                document = _Builder().built(events)
                if is_object(document):
                    yield document
                elif document is not None:
                    raise DecodeError(f"document {place} is {_described(document)}, not an object")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DecodeError(f"not YAML: {error}") from error


def load_value(text: str | bytes) -> Any:
    """Return the only value in a YAML text: of any type, and None for an empty text. Raises DecodeError."""
    try:
        events = yaml.parse(text, Loader=_Parser)
        values = [_Builder().built(events) for event in events if isinstance(event, yaml.DocumentStartEvent)]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DecodeError(f"not YAML: {error}") from error
    if len(values) > 1:
        raise DecodeError(f"the YAML text has {len(values)} documents, and should have one")
    return values[0] if values else None


def key_lines(text: str | bytes) -> dict[tuple[str | int, ...], int]:
    """Return the line, from 1, of each key and list item of the first document, by its path. Raises DecodeError.

    The line of a key is that on which the key is written.
    """
    found: dict[tuple[str | int, ...], int] = {}
    open_: list[_Lines] = []
    try:
        for event in yaml.parse(text, Loader=_Parser):
            if isinstance(event, yaml.DocumentEndEvent):
                break
            if isinstance(event, yaml.CollectionEndEvent):
                open_.pop()
            elif isinstance(event, yaml.NodeEvent):
                path = open_[-1].take(event, found) if open_ else ()
                if isinstance(event, yaml.CollectionStartEvent):
                    open_.append(_Lines(path, is_mapping=isinstance(event, yaml.MappingStartEvent)))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DecodeError(f"not YAML: {error}") from error
    return found


class _Lines:
    """The place of the next node in a collection whose end has not been read yet."""

    def __init__(self, path: tuple[str | int, ...], *, is_mapping: bool) -> None:
        self._path = path
        self._is_mapping = is_mapping
        self._next: tuple[str | int, ...] = (*path, 0)
        self._at_key = is_mapping
        self._items = 0

    def take(self, node: Any, found: dict[tuple[str | int, ...], int]) -> tuple[str | int, ...]:
        """Take the next node, note its line, and return its path."""
        if not self._is_mapping:
            path = (*self._path, self._items)
            self._items += 1
            found[path] = _line(node)
            return path
        if self._at_key:
            self._next = (*self._path, node.value if isinstance(node, yaml.ScalarEvent) else "")
            found.setdefault(self._next, _line(node))
        self._at_key = not self._at_key
        return self._next


def duplicate_keys(text: str | bytes) -> list[str]:
    """Return `line 9: key "foo" already set in map` for each duplicate key. Raises DecodeError if `text` is not YAML.

    The line is that of the value, as go-yaml reports it.
    """
    found: list[str] = []
    open_: list[_Keys] = [_Keys(None, is_mapping=False)]
    try:
        for event in yaml.parse(text, Loader=_Parser):
            if isinstance(event, yaml.CollectionStartEvent):
                open_.append(_Keys(event, is_mapping=isinstance(event, yaml.MappingStartEvent)))
                continue
            if isinstance(event, yaml.CollectionEndEvent):
                node = open_.pop().start
            elif isinstance(event, yaml.ScalarEvent | yaml.AliasEvent):
                node = event
            else:
                continue
            if (key := open_[-1].duplicate(node)) is not None:
                found.append(f"line {_line(node)}: key {key} already set in map")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DecodeError(f"not YAML: {error}") from error
    return found


def _line(node: Any) -> int:
    """Return the line on which a node starts, from 1."""
    return int(node.start_mark.line) + 1


class _Keys:
    """The keys of a mapping whose end has not been read yet."""

    def __init__(self, start: Any, *, is_mapping: bool) -> None:
        self.start = start
        self._is_mapping = is_mapping
        self._seen: set[str] = set()
        self._key: str | None = None
        self._at_key = True

    def duplicate(self, node: Any) -> str | None:
        """Take the next node. Returns the key if the node is the value of a key that was there before."""
        if not self._is_mapping:
            return None
        self._at_key, at_key = not self._at_key, self._at_key
        if at_key:
            is_key = isinstance(node, yaml.ScalarEvent) and not _is_merge(node)
            self._key = json.dumps(_scalar(node), ensure_ascii=False) if is_key else None
            return None
        if self._key is None or self._key not in self._seen:
            self._seen.update(() if self._key is None else (self._key,))
            return None
        return self._key


class _Builder:
    """Builds one document from the events of its text, as sigs.k8s.io/yaml converts YAML to JSON."""

    def __init__(self) -> None:
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._open: list[_Collection] = []
        self._nodes = 0
        self._aliased = 0

    def built(self, events: Iterator[Any]) -> Any:
        """Consume the events of the document and return it. Raises DecodeError."""
        root = _Collection(None, [], 0)
        self._open.append(root)
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                since = self._nodes
                self._count(1 + len(event.value) // _TEXT_NODE)
                self._add(_scalar(event), event, since, is_merge=_is_merge(event))
            elif isinstance(event, yaml.AliasEvent):
                self._add_alias(event)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._begin(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                ended = self._open.pop()
                self._add(ended.value(), ended.start, ended.since)
            else:
                return root.items[0] if root.items else None
        raise DecodeError("the document does not end")

    def _begin(self, event: Any) -> None:
        wanted = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
        if event.tag is not None and event.tag.startswith(_TAG) and event.tag != _TAG + wanted:
            raise DecodeError(f"yaml: cannot decode !!{wanted} as a {_short(event.tag)}")
        if len(self._open) > DEPTH_LIMIT:
            raise DecodeError(f"yaml: exceeded max depth of {DEPTH_LIMIT}")
        items: Any = {} if wanted == "map" else []
        self._open.append(_Collection(event, items, self._nodes))
        self._count(1)

    def _count(self, nodes: int, *, aliased: bool = False) -> None:
        """Count nodes. Raises DecodeError if too many come from aliases, by the rule of go-yaml."""
        self._nodes += nodes
        self._aliased += nodes if aliased else 0
        if self._aliased > _ALIASED_FREE and self._nodes > _NODES_FREE:
            over = (self._nodes - _NODES_LOW) / (_NODES_HIGH - _NODES_LOW)
            allowed = _RATIO_HIGH - (_RATIO_HIGH - _RATIO_LOW) * min(max(over, 0.0), 1.0)
            if self._aliased / self._nodes > allowed:
                raise DecodeError("yaml: document contains excessive aliasing")

    def _add_alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            if any(each.start is not None and each.start.anchor == event.anchor for each in self._open):
                raise DecodeError(f"yaml: anchor '{event.anchor}' value contains itself")
            raise DecodeError(f"yaml: unknown anchor '{event.anchor}' referenced")
        value, nodes = self._anchors[event.anchor]
        self._count(nodes, aliased=True)
        self._open[-1].add(copied(value))

    def _add(self, value: Any, event: Any, since: int, *, is_merge: bool = False) -> None:
        """Add a complete node to the collection around it. There were `since` nodes before it."""
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._nodes - since)
        self._open[-1].add(value, is_merge=is_merge)


class _Collection:
    """A list or mapping whose end has not been read yet."""

    def __init__(self, start: Any, items: Any, since: int) -> None:
        self.start = start
        self.items = items
        self.since = since
        """The number of nodes before it."""
        self._key: Any = _NO_KEY
        self._merged: dict[str, Any] = {}

    def add(self, value: Any, *, is_merge: bool = False) -> None:
        """Add a node: of a mapping, a key or its value. Raises DecodeError."""
        if isinstance(self.items, list):
            self.items.append(value)
        elif self._key is _NO_KEY:
            self._key = _MERGE if is_merge else _key(value)
        else:
            key, self._key = self._key, _NO_KEY
            if key is _MERGE:
                self._merge(value)
            else:
                self.items[key] = value

    def _merge(self, value: Any) -> None:
        """Take over the fields of a mapping, or of each mapping of a list; earlier ones win."""
        for each in value if is_array(value) else (value,):
            if not is_object(each):
                raise DecodeError("yaml: map merge requires map or sequence of maps as the value")
            for key, item in each.items():
                self._merged.setdefault(key, item)

    def value(self) -> Any:
        """Return the value when it is complete."""
        return {**self._merged, **self.items} if self._merged else self.items


def _described(document: object) -> str:
    """Describe a document that is not an object, in YAML's words."""
    if is_array(document):
        return f"a list of {len(document)}"
    shown = repr(document)
    return f"a scalar: {shown}" if len(shown) <= _SHOWN else f"a scalar: {shown[:_SHOWN]}..."


def dump(*documents: JSONObject) -> str:
    """Return the documents as YAML text; several are separated by lines of `---`.

    Lists may also be other iterables, such as generators. Other threads run meanwhile: no step in C is long.
    """
    stream = io.StringIO()
    dumper = _Dumper(stream, allow_unicode=True, width=_NO_FOLDING)
    dumper.open()
    for document in documents:
        dumper.emit(yaml.DocumentStartEvent(explicit=len(documents) > 1))
        _emit(dumper, document)
        dumper.emit(yaml.DocumentEndEvent(explicit=False))
    dumper.close()
    return stream.getvalue()


_MAP_START: Final = yaml.MappingStartEvent(None, None, implicit=True, flow_style=False)
_MAP_END: Final = yaml.MappingEndEvent()
_SEQUENCE_START: Final = yaml.SequenceStartEvent(None, None, implicit=True, flow_style=False)
_SEQUENCE_END: Final = yaml.SequenceEndEvent()


class _Dumper(_safe_dumper):  # type: ignore[misc]
    """Writes the events of a document, and knows which strings some parser might not read as text."""


def _emit(dumper: Any, value: Any) -> None:
    """Write a value with all that it contains."""
    if isinstance(value, str):
        dumper.emit(_text_event(dumper, value))
    elif is_object(value):
        dumper.emit(_MAP_START)
        for key in sorted(value):
            dumper.emit(_text_event(dumper, key))
            _emit(dumper, value[key])
        dumper.emit(_MAP_END)
    elif value is None or isinstance(value, bool | int | float):
        node = dumper.represent_data(value)
        dumper.emit(yaml.ScalarEvent(None, node.tag, (True, False), node.value))
    elif hasattr(value, "__iter__"):
        dumper.emit(_SEQUENCE_START)
        for item in value:
            _emit(dumper, item)
        dumper.emit(_SEQUENCE_END)
    else:
        raise TypeError(f"{type(value).__name__} has no form in YAML")


def _text_event(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else None
    is_plain = dumper.resolve(yaml.ScalarNode, text, (True, False)) == f"{_TAG}str"
    if not is_plain:
        style = '"'  # as sigs.k8s.io/yaml, also for an empty text
    return yaml.ScalarEvent(None, f"{_TAG}str", (is_plain, True), text, style=style)


def _scalar(event: Any) -> str | int | float | bool | None:
    """Return the value of a scalar. Raises DecodeError."""
    text: str = event.value
    if event.tag is None or not event.tag.startswith(_TAG):
        if event.tag is not None or not event.implicit[0]:
            return text
        resolved = _resolved(text)
        return text if resolved == "merge" else _READERS[resolved](text)
    kind = event.tag.removeprefix(_TAG)
    if kind == "binary":
        return _binary(event)
    resolved = _resolved(text)
    if kind == "float" and resolved == "int":
        number = _int(text)
        return number if isinstance(number, str) else float(number)
    if kind not in _READERS or kind not in ("str", resolved):
        raise DecodeError(f"yaml: cannot decode !!{resolved} `{text[:_SHOWN]}` as a {_short(event.tag)}")
    return _READERS[kind](text)


def _binary(event: Any) -> str:
    try:
        return base64.b64decode("".join(event.value.split()), validate=True).decode()
    except ValueError as error:
        raise DecodeError("yaml: !!binary value contains invalid base64 data, or is not text") from error


def _resolved(text: str) -> str:
    """Return the type of a scalar without quotes."""
    for kind, pattern in _BY_FIRST.get(text[:1], ()):
        if pattern.fullmatch(text):
            return kind
    return "str"


def _is_merge(event: Any) -> bool:
    return event.value == "<<" and bool(event.implicit[0] or event.tag == f"{_TAG}merge")


def _bool(text: str) -> bool:
    return text.lower() in _TRUE


def _int(text: str) -> int | float | str:
    """Return an integer. As in Go, one beyond 64 bits is a float, and one that cannot be parsed is text."""
    plain = text.replace("_", "")
    sign, digits = (-1 if plain.startswith("-") else 1), plain.lstrip("+-")
    if len(digits) > _DIGITS:
        return text
    try:
        value = sign * (int(digits, 8) if re.fullmatch("0[0-7]+", digits) else int(digits, 0))
    except ValueError:
        return text
    return value if -(2**63) <= value < 2**64 else float(value)


def _float(text: str) -> float | str:
    """Return a number; one beyond 64 bits is text, as in Go. Raises DecodeError for infinity and NaN."""
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        raise DecodeError(f"json: unsupported value: {text[:_SHOWN]}") from None
    return value if math.isfinite(value) else text


def _key(key: object) -> str:
    """Return a key of JSON. Raises DecodeError for a list or mapping."""
    if isinstance(key, dict | list):
        raise DecodeError(f"yaml: invalid map key: {compact(key)[:_SHOWN]}")
    return key if isinstance(key, str) else json.dumps(key)


def _short(tag: str) -> str:
    return f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag


_READERS: Final[Mapping[str, Callable[[str], str | int | float | bool | None]]] = {
    "str": str,
    "bool": _bool,
    "null": lambda _text: None,
    "int": _int,
    "float": _float,
}
_BY_FIRST: Final[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}
for _name, _pattern, _first in _READ:
    for _character in _first:
        _BY_FIRST.setdefault(_character, []).append((_name, re.compile(_pattern)))
    _Dumper.add_implicit_resolver(_TAG + _name, re.compile(f"({_pattern})$"), list(_first))
_Dumper.add_implicit_resolver(f"{_TAG}other", re.compile(f"({_OTHER})$"), list("-+0123456789="))

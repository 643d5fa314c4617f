"""Values that surprise parsers, changes to documents, and their text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final, cast

import yaml

Path = tuple[str | int, ...]


class Raw(str):
    """Text that is written into a JSON document as it is."""

    __slots__ = ()


class Twice(dict[str, Any]):
    """An object whose first key is written twice."""


NUMBERS: Final[tuple[Any, ...]] = (
    0,
    -1,
    1,
    255,
    65536,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    2**64,
    1.5,
    -0.0,
    1e308,
    5e-324,
    Raw("1e400"),
    Raw("-1E-400"),
    Raw("1.0"),
    Raw("1e2"),
    Raw("9" * 40),
    Raw("9" * 5000),
    Raw("1" + "0" * 400),
)
BROKEN: Final = tuple(
    map(
        Raw,
        (
            "NaN",
            "-Infinity",
            "01",
            "1.",
            ".5",
            "+1",
            "- 1",
            "0x10",
            "'a'",
            "nul",
            "True",
            '"\t"',
            '"\\x41"',
            '"\\u12"',
            '"\x00"',
            '"a',
            "[1,]",
            '{"a":1,}',
            "{a:1}",
            '{"a"}',
            '{"a":}',
            "[1 2]",
            "/*c*/1",
            "\ufeff1",
            "[" * 300,
            "{" * 3,
        ),
    )
)
TEXTS: Final = (
    "",
    " ",
    "a",
    "A",
    "-",
    ".",
    "..",
    "../..",
    "/",
    "%2F",
    "a/b",
    "a.b",
    "a_b",
    "*",
    "~",
    "$",
    "\n",
    "\t",
    "\0",
    "\x7f",
    "é",
    "\u2028",
    "\U0001f600",
    "\ufeff",
    "None",
    "null",
    "true",
    "0",
    "-1",
    "1e3",
    "0x1f",
    "0o17",
    "1_000",
    "=",
    "<<",
    "a" * 64,
    "a" * 254,
    "b" * 3000,
    "a." * 130,
    "99999999999999999999",
    "1e99999999",
    "1e-99999999",
    "-5Gi",
    "1.5m",
    "1n",
    "1ee5",
    "Ki",
    "1E",
    "100%",
    "-1%",
    "1000000000000%",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "0000-00-00T00:00:00Z",
    "2026-02-30T25:61:61Z",
    "2026-01-01T00:00:00.000000Z",
    "10000-01-01T00:00:00Z",
    "1h",
    "-1h",
    "9999999999h",
    "1.5h3m",
    "1d",
    "10.0.0.1",
    "::1",
    "::ffff:10.0.0.1",
    "fe80::1%eth0",
    "256.1.1.1",
    "10.0.0.0/8",
    "10.0.0.1/33",
    "0/0",
    "http://[::1",
    "https://a:99999/",
    "https://user:pw@a/b?c#d",
    "mailto:a",
    "(",
    "[a-",
    "a{99999}",
    "(a+)+$",
    "\\",
    "(?<!a)",
    "{.a",
    "{.a[0]}",
    "{range .a}",
    "{..}",
    ".a[?(@.b==1)]",
    "self",
    "object.spec",
    "a==",
    "'",
    "\u0661",
    "v1",
    "Pod",
    "apps/v1",
    "/v1",
    "a/b/c",
    "AAAA",
    "====",
    "LS0tLS1CRUdJTi==",
    "* * * * *",
    "@every 1s",
    "61 * * * *",
    "*/0 * * * *",
    "TZ=Nowhere * * * * *",
    "1-0 * * * *",
)
SURROGATES: Final = (
    Raw('"\\ud800"'),
    Raw('"\\udc00\\ud800"'),
    Raw('"a\\ud83d"'),
    Raw('"\\ud83d\\ude00"'),
    Raw('"\\u0000"'),
)


def scalar(rng: Random) -> Any:
    """Return a value that few fields expect."""
    pick = rng.random()
    if pick < 0.45:
        return rng.choice(TEXTS)
    if pick < 0.7:
        return rng.choice(NUMBERS)
    if pick < 0.74:
        return rng.choice(SURROGATES)
    return rng.choice(
        (None, True, False, [], {}, [[]], [{}], {"": ""}, {"a": None}, [None], ["a", "a"], {"a": {"b": []}})
    )


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the path of each value in a document, the document's own first."""
    yield at
    items: Any = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, item in items:
        yield from paths(item, (*at, key))


def get(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def copied(value: Any) -> Any:
    """Return a copy of a document, with new objects and arrays."""
    if isinstance(value, dict):
        kind = type(cast("dict[str, Any]", value))
        return kind({key: copied(item) for key, item in value.items()})
    return [copied(item) for item in value] if isinstance(value, list) else value


def mutate(rng: Random, document: Any, times: int = 1, keep: tuple[str, ...] = ()) -> Any:
    """Return a copy of a document with random changes below its root. Top-level keys in `keep` stay as they are."""
    document = copied(document)
    for _ in range(times):
        choices = [path for path in paths(document) if path and path[0] not in keep]
        if choices:
            _change(rng, document, rng.choice(choices))
    return document


def _change(rng: Random, document: Any, path: Path) -> None:
    parent, key = get(document, path[:-1]), path[-1]
    value = parent[key]
    pick = rng.randrange(12)
    if pick < 5:
        parent[key] = scalar(rng)
    elif pick == 5:
        del parent[key]
    elif pick == 6:
        parent[key] = [value, copied(value)]
    elif pick == 7 and isinstance(value, list) and value:
        value.extend(copied(rng.choice(value)) for _ in range(rng.choice((1, 2, 30))))
    elif pick == 8 and isinstance(value, dict):
        value[rng.choice(TEXTS)] = scalar(rng)
    elif pick == 9:
        other = rng.choice(list(paths(document)))
        parent[key] = copied(get(document, other))
    elif pick == 10 and isinstance(parent, dict):
        parent[str(key) + rng.choice(("", "x", " ", ".", "\0"))] = parent.pop(key)
    elif isinstance(value, str):
        parent[key] = _mutated_text(rng, value)
    else:
        parent[key] = nested(rng, value, rng.choice((1, 2, 20, 90)))


def _mutated_text(rng: Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    pick = rng.randrange(5)
    if pick == 0:
        return text[:at] + rng.choice(TEXTS) + text[at:]
    if pick == 1:
        return text[:at] + text[at + 1 :]
    if pick == 2:
        return text * rng.choice((2, 3, 50))
    if pick == 3:
        return text.swapcase()
    return text[at:] + text[:at]


def nested(rng: Random, value: Any, depth: int) -> Any:
    """Return `value` in arrays and objects."""
    for _ in range(depth):
        value = [value] if rng.random() < 0.5 else {rng.choice("abc"): value}
    return value


def text(rng: Random, value: Any) -> bytes:
    """Write JSON, sometimes with unusual spacing, escapes and duplicate keys."""
    style = rng.random()
    ascii_only = style < 0.5
    space = rng.choice((" ", "\n", "\t", "  ", "\r\n")) if style > 0.85 else ""
    return _written(value, ascii_only, space).encode("utf-8", "surrogatepass")


def _written(value: Any, ascii_only: bool, space: str) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        pairs = [
            f"{_written(key, ascii_only, space)}{space}:{space}{_written(item, ascii_only, space)}"
            for key, item in value.items()
        ]
        return f"{{{space}{f',{space}'.join(pairs + pairs[:1] * isinstance(value, Twice))}{space}}}"
    if isinstance(value, list):
        return f"[{space}{f',{space}'.join(_written(item, ascii_only, space) for item in value)}{space}]"
    return json.dumps(value, ensure_ascii=ascii_only)


def twice(rng: Random, document: Any) -> Any:
    """Return a copy in which some object has a key twice."""
    document = copied(document)
    objects = [path for path in paths(document) if path and isinstance(get(document, path), dict)]
    if not objects:
        return Twice(document)
    path = rng.choice(objects)
    get(document, path[:-1])[path[-1]] = Twice(get(document, path))
    return document


def plain(value: Any) -> Any:
    """Return a document without `Raw` text, for other encodings than JSON."""
    if isinstance(value, Raw):
        try:
            return json.loads(value)
        except ValueError:
            return str(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


YAML_PIECES: Final = (
    "a: &a [1]\nb: *a\n",
    "<<: {a: 1}\n",
    "<<: [{a: 1}, {b: 2}]\n",
    "? a\n: b\n",
    "? [a]\n: b\n",
    "a: !!binary aGk=\n",
    "a: !!binary '*'\n",
    "a: !!int x\n",
    "a: !!float .inf\n",
    "a: !!timestamp 2026-01-01\n",
    "a: !!python/object:os.system x\n",
    "a: !!set {x, y}\n",
    "a: !!omap [x: 1]\n",
    "a: 0o17\n",
    "a: 0b1\n",
    "a: 1_000\n",
    "a: 190:20:30\n",
    "a: 2026-01-01\n",
    "a: yes\n",
    "~: 1\n",
    "1: 2\n",
    "1.5: 2\n",
    "true: 2\n",
    ".nan: 1\n",
    "a: .inf\n",
    "a: |\n  x\n",
    "a: >-\n  x\n\n  y\n",
    'a: "\\x41\\u0041\\U00000041"\n',
    'a: "\\ud800"\n',
    "---\na: 1\n---\nb: 2\n",
    "...\n",
    "%YAML 1.1\n---\na: 1\n",
    "%TAG ! tag:a,2000:\n---\na: !x 1\n",
    "a: *none\n",
    "a: &a\n  b: *a\n",
    "\ta: 1\n",
    "a: b: c\n",
    "- a\n",
    "[a, b\n",
    "a: 'x\n",
    "{a: 1, a: 2}\n",
    "a: !<tag:yaml.org,2002:str> 5\n",
    "\ufeffa: 1\n",
    "a: \x07\n",
    "# c\n",
    "a: 9" + "9" * 400 + "\n",
    "a: 1e999\n",
    "a: =\n",
    "null\n",
    "a: " + "[" * 200 + "]" * 200 + "\n",
    "a: " + "{b: " * 90 + "}" * 90 + "\n",
)


def yaml_text(rng: Random, value: Any) -> bytes:
    """Write YAML, sometimes with features that other documents do not have."""
    try:
        written = yaml.safe_dump(plain(value), default_flow_style=rng.random() < 0.2, allow_unicode=rng.random() < 0.5)
    except (ValueError, yaml.YAMLError):
        written = json.dumps(plain(value))
    if rng.random() < 0.5:
        lines = written.split("\n")
        at = rng.randrange(len(lines) + 1)
        written = "\n".join([*lines[:at], rng.choice(YAML_PIECES).rstrip("\n"), *lines[at:]])
    return written.encode("utf-8", "surrogatepass")


def damaged(rng: Random, data: bytes, times: int = 1) -> bytes:
    """Return bytes that are cut, repeated or changed at random places."""
    for _ in range(times):
        at = rng.randrange(len(data) + 1)
        pick = rng.randrange(6)
        if pick == 0:
            data = data[:at]
        elif pick == 1:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif pick == 2:
            data = data[:at] + data[at + rng.randrange(1, 9) :]
        elif pick == 3:
            data = data[:at] + data[at : at + 20] * rng.choice((1, 3, 20)) + data[at:]
        elif pick == 4:
            data = (
                data[:at]
                + rng.choice((b"\0", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\r\n", b'"', b"{", b"}"))
                + data[at:]
            )
        else:
            data = data[at:] + data[:at]
    return data


def insert_broken(rng: Random, document: Any) -> Any:
    """Return a copy in which a value is not JSON."""
    document = copied(document)
    path = rng.choice([each for each in paths(document) if each] or [()])
    if path:
        get(document, path[:-1])[path[-1]] = rng.choice(BROKEN)
    return document

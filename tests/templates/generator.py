"""Random templates, mostly ones that render, for comparisons with Go.

Functions whose results are random, or depend on the clock, the machine or the order of Go's maps, are left out.
"""

from __future__ import annotations

import random
from typing import Any, Final

from kubewright.templates._builtins import BUILTINS
from kubewright.templates._sprig import SPRIG

_LEFT_OUT: Final = frozenset(
{
    "ago", "bcrypt", "htpasswd", "buildCustomCert", "date", "date_in_zone", "dateInZone", "htmlDate",
    "htmlDateInZone", "derivePassword", "encryptAES", "decryptAES", "env", "expandenv", "fail",
    "genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey",
    "genSignedCert", "genSignedCertWithKey", "getHostByName", "keys", "now", "randAlpha",
    "randAlphaNum", "randAscii", "randBytes", "randInt", "randNumeric", "shuffle", "uuidv4", "values",
    "durationRound", "and", "or", "call", "index", "len", "not", "eq", "ne", "lt", "le", "gt", "ge",
}
)  # fmt: skip

_STRINGS: Final = (
    '""', '"a"', '"hello world"', '"Foo-Bar_baz"', '"1.2.3"', '"42"', '"0x1F"', '"3.75"', '"héllo ß"', '"a,b,,c"',
    "`x\ty`", '"<a&b>"', '"\\n"', '"%v-%d"', '" pad "', '"HTTPServer2xx"', '"2020-02-03"', '"2006-01-02"', '"1h30m"',
    '"/a/b.c/../d"', '"[a-c]+"', '"(l+)(o)?"', '"$1-$0"', '"[1, {\\"a\\": 2.5}]"', '"aGVsbG8="', '"http://u:p@h:80/p?q#f"',
    '">=1.2, <3"', '"^0.2"', '"\\xff"', '"日本"', '"true"', '"%5.2f|%q"', '"%[2]v %[1]v"', '"%x %X"', '"UTC"',
)  # fmt: skip
_INTS: Final = ("0", "1", "2", "3", "5", "-1", "-3", "10", "'a'", "0x10", "(len .l)", "(int .n)", "(.s | len)")
_FLOATS: Final = ("0.5", "1.0", "-2.5", "1e21", "1e-7", "123456.789", ".f", ".n", ".big", "100.0", "0.1")
_FIELDS: Final = (
    ".s", ".e", ".n", ".f", ".t", ".z", ".nil", ".l", ".m", ".el", ".em", ".u", ".mix", ".big", ".words", ".list2",
    ".nested", ".num", ".bad", ".neg", ".text", ".csv", ".ver", ".bools", ".missing", ".m.y", ".m.y.z", ".nested.a.b",
    ".nested.l", ".params.MAP", ".m.q", ".", "$", "$.s",
)  # fmt: skip
_LISTS: Final = (
    ".l", ".mix", ".el", ".words", ".list2", "(list 1 2 3)", '(list "b" "a" "b")', "(until 4)", '(splitList "," .csv)',
    "(list)", "(rest .el)", ".nested.l", "(chunk 2 .l)",
)  # fmt: skip
_MAPS: Final = (
    ".m", ".em", ".nested", '(dict "a" 1 "b" (list 2))', "(dict)", ".params.MAP",
    '(fromJson "{\\"a\\": {\\"b\\": null}}")',
    '(pick .m "x")',
)  # fmt: skip
_TIMES: Final = (
    '(toDate "2006-01-02" "2020-02-29")',
    '(toDate "2006-01-02T15:04:05Z07:00" "2021-12-31T23:59:59.5+02:00")',
)
_TO_STRING: Final = ("print", "quote", "toString", "toJson", "cat", 'join ","')
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
_FLAGS: Final = ("", "+", "-", "#", " ", "0")
_WIDTHS: Final = ("", "6", ".2", "8.3", "*")
_VERBS: Final = "vvvsdqxXTtcUeEfFgGbo%"


class Generator:
    """Generator of templates. The same seed makes the same templates."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._variables: list[str] = []
        self._functions = {name: each for name, each in {**BUILTINS, **SPRIG}.items() if name not in _LEFT_OUT}
        self._names = sorted(self._functions)

    def template(self) -> str:
        """Return a template."""
        self._variables = []
        parts = [self._statement(3) for _ in range(self._random.randint(1, 4))]
        if self._chance(0.1):
            parts.append(f'{{{{define "t"}}}}<{self._statement(1)}>{{{{end}}}}{{{{template "t" {self._any(1)}}}}}')
        text = "".join(parts)
        return self._damaged(text) if self._chance(0.04) else text

    def options(self) -> dict[str, Any]:
        """Return the options to render it with."""
        return {"missing": self._pick(("default", "zero", "error")), "ints": self._chance(0.3)}

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _pick(self, values: Any) -> Any:
        return self._random.choice(values)

    def _damaged(self, text: str) -> str:
        position = self._random.randrange(len(text))
        return (
            text[:position]
            + self._pick(("", "{{", "}}", '"', "(", ")", "|", " ", ".", "$", ":=", "-"))
            + text[position + 1 :]
        )

    # ---- statements

    def _statement(self, depth: int) -> str:
        kinds = ["print"] * 6 + ["text", "set"] + (["if", "range", "with", "trim"] if depth > 0 else [])
        return str(getattr(self, f"_{self._pick(kinds)}")(depth))

    def _print(self, depth: int) -> str:
        return f"{{{{{self._pipe(depth)}}}}}"

    def _trim(self, depth: int) -> str:
        return f" {{{{- {self._pipe(depth)} -}}}} "

    def _text(self, depth: int) -> str:
        return str(self._pick((" ", "\n", "text", "{{/* comment */}}", "é\t", "{{- /* c */ -}}")))

    def _set(self, depth: int) -> str:
        if self._variables and self._chance(0.4):
            return f"{{{{{self._pick(self._variables)} = {self._pipe(depth)}}}}}"
        name = f"$v{len(self._variables)}"
        text = f"{{{{{name} := {self._pipe(depth)}}}}}"
        self._variables.append(name)
        return text

    def _scope(self, depth: int) -> str:
        mark = len(self._variables)
        text = "".join(self._statement(depth - 1) for _ in range(self._random.randint(0, 2)))
        del self._variables[mark:]
        return text

    def _if(self, depth: int) -> str:
        text = f"{{{{if {self._condition(depth)}}}}}{self._scope(depth)}"
        if self._chance(0.3):
            text += f"{{{{else if {self._condition(depth)}}}}}{self._scope(depth)}"
        return text + self._end(depth)

    def _end(self, depth: int) -> str:
        return f"{{{{else}}}}{self._scope(depth)}{{{{end}}}}" if self._chance(0.5) else "{{end}}"

    def _with(self, depth: int) -> str:
        return f"{{{{with {self._pipe(depth)}}}}}{self._scope(depth)}{self._end(depth)}"

    def _range(self, depth: int) -> str:
        value = self._pick((self._list, self._map, self._int, self._any))(depth)
        head = self._pick(("", "$i, $e := ", "$e := "))
        mark = len(self._variables)
        self._variables += [each for each in ("$i", "$e") if each in head]
        body = self._scope(depth) + self._pick(("", "", "{{break}}", "{{if eq . 1.0}}{{continue}}{{end}}"))
        del self._variables[mark:]
        return f"{{{{range {head}{value}}}}}{body}{self._end(depth)}"

    # ---- expressions

    def _pipe(self, depth: int) -> str:
        text = self._call(depth) if self._chance(0.75) else self._any(depth)
        text = text[1:-1] if text.startswith("(") and text.endswith(")") and text.count("(") == 1 else text
        while self._chance(0.25):
            text += f" | {self._stage(depth)}"
        return text

    def _stage(self, depth: int) -> str:
        name = self._pick(self._names)
        function = self._functions[name]
        kinds = [*function.parameters, *([function.variadic] if function.variadic and self._chance(0.5) else [])]
        arguments = [self._argument(kind, depth - 1) for kind in kinds[:-1]]
        return " ".join((name, *arguments))

    def _call(self, depth: int) -> str:
        if self._chance(0.25):
            return self._builtin(depth)
        name = self._pick(self._names)
        function = self._functions[name]
        kinds = list(function.parameters)
        if function.variadic:
            kinds += [function.variadic] * self._random.randint(0, 3)
        if self._chance(0.02):
            kinds = kinds[:-1] if self._chance(0.5) else [*kinds, "any"]
        return f"({' '.join((name, *(self._argument(kind, depth - 1) for kind in kinds)))})"

    def _builtin(self, depth: int) -> str:
        match self._random.randrange(6):
            case 0:
                return f"({self._pick(_COMPARISONS)} {self._any(depth - 1)} {self._any(depth - 1)})"
            case 1:
                return f"({self._pick(('and', 'or'))} {self._any(depth - 1)} {self._any(depth - 1)})"
            case 2:
                return f"(index {self._pick((self._list, self._map))(depth - 1)} {self._any(depth - 1)})"
            case 3:
                return f"({self._pick(('len', 'not'))} {self._any(depth - 1)})"
            case 4:
                directive = f"%{self._pick(_FLAGS)}{self._pick(_WIDTHS)}{self._pick(_VERBS)}"
                return f'(printf "{directive}" {self._any(depth - 1)})'
            case _:
                return f"(index {self._list(depth - 1)} {self._pick(('0', '1', '2'))})"

    def _condition(self, depth: int) -> str:
        return self._builtin(depth) if self._chance(0.5) else self._any(depth)

    def _argument(self, kind: str, depth: int) -> str:
        if self._chance(0.04):
            kind = "any"
        if kind in ("string", "int", "float", "map", "list", "bool", "time", "any"):
            return str(getattr(self, f"_{kind}")(depth))
        return "1"

    def _any(self, depth: int) -> str:
        if depth > 0 and self._chance(0.35):
            return self._call(depth)
        if self._variables and self._chance(0.2):
            return str(self._pick(self._variables))
        if self._chance(0.35):
            return str(self._pick(_FIELDS))
        return str(self._pick((self._string, self._int, self._float, self._list, self._map, self._bool, self._nil))(0))

    def _string(self, depth: int) -> str:
        if depth > 0 and self._chance(0.3):
            return f"({self._pick(_TO_STRING)} {self._any(depth - 1)})"
        return str(self._pick((*_STRINGS, ".s", ".u", ".e", ".text", ".ver", ".num", ".csv", ".url")))

    def _int(self, depth: int) -> str:
        if depth > 0 and self._chance(0.2):
            return f"(int {self._any(depth - 1)})" if self._chance(0.5) else f"(len {self._string(depth - 1)})"
        return str(self._pick(_INTS))

    def _float(self, depth: int) -> str:
        return str(self._pick(_FLOATS))

    def _bool(self, depth: int) -> str:
        return str(self._pick(("true", "false", ".t", "(eq 1 1)")))

    def _nil(self, depth: int) -> str:
        return "nil"

    def _list(self, depth: int) -> str:
        return str(self._pick(_LISTS))

    def _map(self, depth: int) -> str:
        return str(self._pick(_MAPS))

    def _time(self, depth: int) -> str:
        return str(self._pick(_TIMES))

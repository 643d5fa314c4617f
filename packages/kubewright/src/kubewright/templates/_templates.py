"""A set of templates that can call each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from kubewright.machinery.errors import TemplateError
from kubewright.templates import _nodes as n
from kubewright.templates._builtins import BUILTINS
from kubewright.templates._compiler import Compiler, Statement
from kubewright.templates._functions import Function, from_python
from kubewright.templates._parser import parse
from kubewright.templates._references import Reference, References
from kubewright.templates._values import BUDGET, INVALID, Budget, FunctionError, LimitError, imported

MissingKey = Literal["default", "zero", "error"]
"""What a key that a map does not have is: `<no value>`, the zero value, or an error."""
_MISSING_KEYS: Final = ("default", "zero", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateLimits:
    """How much a single rendering may take. A template that needs more fails."""

    steps: int = 250_000
    """Actions, iterations, calls of functions, and items of the lists that functions return."""
    size: int = 16 * 1024 * 1024
    """Characters of the output and of the texts that functions return, taken together."""
    depth: int = 64
    """Templates that call each other."""


class Rendering:
    """A rendering in progress, for functions that render other templates.

    A function of a `Templates` whose first parameter is annotated with this class receives it.
    """

    def __init__(self, state: _State) -> None:
        self._state = state

    def include(self, name: str, value: object) -> str:
        """Return the text of a template of the set. Raises FunctionError if there is no such template."""
        return self._state.include(name, value)

    def evaluate(self, text: str, value: object) -> str:
        """Return the text that a template given as text makes. It may call the templates of the set.

        Templates that the text defines are known to the text only.
        """
        return self._state.evaluate(text, value)


class _State:
    """The output, variables and limits of a rendering."""

    def __init__(self, templates: _Set, limits: TemplateLimits, budget: Budget) -> None:
        self._templates = templates
        self._limit = limits.depth
        self._out: list[str] = []
        self._depth = 0
        self.budget = budget
        self.names: list[str] = []
        self.values: list[Any] = []
        self.rendering = Rendering(self)

    def write(self, text: str) -> None:
        """Append text to the output."""
        self.budget.size -= len(text)
        if self.budget.size < 0:
            self.budget.write(0)
        self._out.append(text)

    def run(self, name: str, dot: Any) -> bool:
        """Append the text of a template of the set to the output. Returns False if there is no such template."""
        body = self._templates.compiled.get(name)
        if body is None:
            return False
        self._run(body, dot)
        return True

    def include(self, name: str, value: Any) -> str:
        """Return the text of a template of the set. Raises FunctionError if there is no such template."""
        out, self._out = self._out, []
        try:
            if not self.run(name, value):
                raise FunctionError(f"template {name!r} is not defined; define it, or check the name")
            return "".join(self._out)
        finally:
            self._out = out

    def evaluate(self, text: str, value: Any) -> str:
        """Return the text that a template given as text makes."""
        name = "text of a value"
        outer, self._templates = self._templates, self._templates.extended(name, text)
        try:
            return self.include(name, value)
        finally:
            self._templates = outer

    def _run(self, body: Statement, dot: Any) -> None:
        outer = self.names, self.values
        self._depth += 1
        if self._depth > self._limit:
            raise LimitError(f"templates call each other more than {self._limit} deep; end the recursion")
        self.names, self.values = ["$"], [dot]
        try:
            body(self, dot)
        finally:
            self._depth -= 1
            self.names, self.values = outer


class _Set:
    """Templates that can call each other: their trees, and what these were compiled to."""

    def __init__(self, functions: Mapping[str, Function], missing_key: MissingKey) -> None:
        self._functions = functions
        self._missing_key: MissingKey = missing_key
        self.trees: dict[str, n.Block] = {}
        self.sources: dict[str, n.Source] = {}
        self.compiled: dict[str, Statement] = {}

    def parse(self, name: str, text: str) -> None:
        """Add a file."""
        try:
            trees = parse(name, text, self._functions.__contains__)
        except RecursionError:
            raise TemplateError("the template is nested too deeply; split it", file=name) from None
        source = n.Source(name, text)
        compiler = Compiler(source, self._functions.__getitem__, self._missing_key)
        for defined, tree in trees.items():
            if defined in self.trees and n.is_empty(tree):
                continue
            self.trees[defined] = tree
            self.sources[defined] = source
            self.compiled[defined] = compiler.block(tree)

    def extended(self, name: str, text: str) -> _Set:
        """Return a copy of the set with one more file."""
        copy = _Set(self._functions, self._missing_key)
        copy.trees.update(self.trees)
        copy.sources.update(self.sources)
        copy.compiled.update(self.compiled)
        copy.parse(name, text)
        return copy


class Templates:
    """Templates that can call each other, with their functions.

    Guarantees
        The same output as Go's text/template, and an error where Go has one.
        A template cannot reach anything but its values and functions: no attributes, files or environment.
        A rendering ends within its limits. It does not change the values.
    Follows
        text/template of Go 1.26.
    """

    def __init__(
        self,
        functions: Mapping[str, Function | Callable[..., object]] | None = None,
        *,
        missing_key: MissingKey = "default",
        limits: TemplateLimits | None = None,
    ) -> None:
        """Make an empty set.

        `functions` are added to Go's own, and replace those of the same name. A Python function works as one: its
        annotations (str, int, float, bool, dict, list) are checked, and a ValueError that it raises is the template's
        error. `missing_key` is what a missing key of a map is: `<no value>`, the zero value, or an error.
        """
        if missing_key not in _MISSING_KEYS:
            raise ValueError(f"missing_key: must be one of {', '.join(_MISSING_KEYS)}, got {missing_key!r}")
        self._limits = limits or TemplateLimits()
        known = dict(BUILTINS)
        for name, each in (functions or {}).items():
            known[name] = each if isinstance(each, Function) else from_python(name, each, Rendering)
        self._set = _Set(known, missing_key)

    def parse(self, name: str, text: str) -> None:
        """Add a file: the template `name`, and those that the text defines.

        They replace templates of the same names, unless they contain only white space. Raises TemplateError.
        """
        self._set.parse(name, text)

    @property
    def names(self) -> frozenset[str]:
        """The names of all templates of the set."""
        return frozenset(self._set.trees)

    def references(self, name: str) -> list[Reference]:
        """Return the fields that a template, and those that it calls, read from its values, without rendering it.

        They are in the order of the text. Fields of computed values, such as items of a `range`, are not among them.
        """
        return list(References(self._set.trees, self._set.sources).of(name))

    def render(self, name: str, values: object) -> str:
        """Return the text that a template makes of JSON data. Raises TemplateError.

        Integers are ints for the template, and floats are float64s; Go's JSON decoder makes all numbers float64s, and
        `json_numbers` does the same. Bytes that are not UTF-8 are surrogates in the text, as `os.fsdecode` makes them.
        """
        try:
            dot = imported(values)
        except RecursionError:
            raise TemplateError("the values are nested too deeply, or contain themselves", file=name) from None
        budget = Budget(self._limits.steps, self._limits.size)
        token = BUDGET.set(budget)
        try:
            return _State(self._set, self._limits, budget).include(name, INVALID if dot is None else dot)
        except (FunctionError, LimitError) as error:
            raise TemplateError(str(error), file=name) from None
        except RecursionError:
            message = "templates or values are nested too deeply; end the recursion, or do not put a map into itself"
            raise TemplateError(message, file=name) from None
        finally:
            BUDGET.reset(token)

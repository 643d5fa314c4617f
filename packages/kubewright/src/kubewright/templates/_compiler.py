"""From the tree of a template to closures that render it.

Follows Go's text/template/exec.go: the same values, the same scopes of variables, an error where Go has one.
Every closure takes the Rendering and the dot. Statements return a signal for `break` and `continue`, else None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, Protocol

from kubewright.machinery.errors import TemplateError
from kubewright.templates import _nodes as n
from kubewright.templates._format import text_of
from kubewright.templates._functions import GO_TYPES, NILS, Function, ShortCircuit, accepts
from kubewright.templates._values import (
    INVALID,
    Budget,
    FunctionError,
    LimitError,
    NamedInt,
    Object,
    StringMap,
    truth,
    type_name,
)

_MISSING: Final = object()
_BREAK: Final = object()
_CONTINUE: Final = object()
_SHORT: Final = 64
"""Texts up to this length are not counted one by one: a step stands for them."""


class State(Protocol):
    """What closures need of a rendering."""

    budget: Budget
    names: list[str]
    values: list[Any]
    rendering: object

    def write(self, text: str) -> None:
        """Append text to the output."""
        ...

    def run(self, name: str, dot: Any) -> bool:
        """Render a template of the set. Returns False if there is none."""
        ...


Value = Callable[[Any, Any], Any]
Statement = Callable[[Any, Any], object]


class Compiler:
    """Compiler of one file."""

    def __init__(self, source: n.Source, functions: Callable[[str], Function], missing_key: str) -> None:
        self._source = source
        self._functions = functions
        self._missing_key = missing_key

    def fail(self, node: n.Node, message: str, key: str = "") -> NoReturn:
        """Raise the error of a node."""
        line, column = self._source.place(node.position)
        message = f"{message}, in {self._source.action(node.position)}"
        raise TemplateError(message, file=self._source.file, line=line, column=column, key=key)

    # ---- statements

    def block(self, block: n.Block) -> Statement:
        """Compile a list of nodes."""
        steps = tuple(map(self._statement, block.nodes))
        if len(steps) == 1:
            return steps[0]

        def run(state: State, dot: Any) -> object:
            for step in steps:
                if (signal := step(state, dot)) is not None:
                    return signal
            return None

        return run

    def _statement(self, node: n.Node) -> Statement:
        match node:
            case n.Text(text=text):
                return lambda state, dot: state.write(text)
            case n.Action():
                return self._limited(node, self._action(node))
            case n.Control(keyword="range"):
                return self._limited(node, self._range(node))
            case n.Control():
                return self._limited(node, self._condition(node))
            case n.Break():
                return lambda state, dot: _BREAK
            case n.Continue():
                return lambda state, dot: _CONTINUE
            case n.Call():
                return self._limited(node, self._call(node))
            case _:
                raise AssertionError(f"{node} is not a statement")

    def _limited(self, node: n.Node, run: Statement) -> Statement:
        def limited(state: State, dot: Any) -> object:
            try:
                state.budget.steps -= 1
                if state.budget.steps < 0:
                    state.budget.spend(0)
                return run(state, dot)
            except LimitError as error:
                self.fail(node, str(error))

        return limited

    def _action(self, node: n.Action) -> Statement:
        pipe = self._pipe(node.pipe)
        if node.pipe.declarations:

            def declare(state: State, dot: Any) -> None:
                pipe(state, dot)

            return declare

        def run(state: State, dot: Any) -> None:
            value = pipe(state, dot)
            if type(value) is str:
                state.write(value)
            else:
                state.write("<no value>" if value is INVALID else text_of(value))

        return run

    def _condition(self, node: n.Control) -> Statement:
        pipe, body = self._pipe(node.pipe), self.block(node.body)
        otherwise = self.block(node.otherwise) if node.otherwise else None
        is_with = node.keyword == "with"

        def run(state: State, dot: Any) -> object:
            mark = len(state.names)
            value = pipe(state, dot)
            signal = None
            if truth(value):
                signal = body(state, value if is_with else dot)
            elif otherwise is not None:
                signal = otherwise(state, dot)
            del state.names[mark:], state.values[mark:]
            return signal

        return run

    def _range(self, node: n.Control) -> Statement:
        pipe, body, items = self._pipe(node.pipe), self.block(node.body), self._items(node)
        otherwise = self.block(node.otherwise) if node.otherwise else None
        assign = self._loop_variables(node.pipe)

        def run(state: State, dot: Any) -> object:
            mark = len(state.names)
            value = pipe(state, dot)
            inner, signal, is_empty, budget = len(state.names), None, True, state.budget
            for index, element in items(value):
                is_empty = False
                budget.steps -= 1
                if budget.steps < 0:
                    budget.spend(0)
                if assign is not None:
                    assign(state, index, element)
                signal = body(state, element)
                del state.names[inner:], state.values[inner:]
                if signal is _BREAK:
                    break
            signal = otherwise(state, dot) if is_empty and otherwise is not None else None
            del state.names[mark:], state.values[mark:]
            return signal

        return run

    def _items(self, node: n.Control) -> Callable[[Any], Any]:
        has_two = len(node.pipe.declarations) > 1

        def items(value: Any) -> Any:
            if isinstance(value, list):
                return enumerate(value)
            if isinstance(value, dict):
                return [(key, value[key]) for key in sorted(value)]
            if value is None or value is INVALID:
                return ()
            if isinstance(value, int) and not isinstance(value, bool | NamedInt):
                if has_two:
                    self.fail(node, "range over a number has one variable")
                kind = type(value)
                return ((INVALID, kind(each)) for each in range(value))
            self.fail(node, f"range needs a list, a map or an int, not a value of type {type_name(value)}")
            return None

        return items

    def _loop_variables(self, pipe: n.Pipe) -> Callable[[State, Any, Any], None] | None:
        """Return what sets the variables of a range in each iteration."""
        variables = pipe.declarations
        if not variables:
            return None
        has_two = len(variables) > 1
        if not pipe.is_assignment:

            def declare(state: State, index: Any, element: Any) -> None:
                state.values[-1] = element
                if has_two:
                    state.values[-2] = index

            return declare

        def assign(state: State, index: Any, element: Any) -> None:
            if has_two:
                self._set(state, variables[0], index)
                self._set(state, variables[1], element)
            else:
                self._set(state, variables[0], element)

        return assign

    def _call(self, node: n.Call) -> Statement:
        pipe = self._pipe(node.pipe) if node.pipe else None

        def run(state: State, dot: Any) -> None:
            value = INVALID if pipe is None else pipe(state, dot)
            if not state.run(node.name, value):
                self.fail(node, f"template {node.name!r} is not defined; define it, or check the name")

        return run

    # ---- pipelines

    def _pipe(self, pipe: n.Pipe) -> Value:
        first, *rest = (self._command(each, is_first=not index) for index, each in enumerate(pipe.commands))
        value = first
        for stage in rest:
            value = self._stage(value, stage)
        declared = self._declared(pipe)

        def run(state: State, dot: Any) -> Any:
            found = value(state, dot, _MISSING)
            if found is None:
                found = INVALID
            if declared is not None:
                declared(state, found)
            return found

        return run

    def _stage(self, before: Callable[..., Any], stage: Callable[..., Any]) -> Callable[..., Any]:
        def run(state: State, dot: Any, final: Any) -> Any:
            value = before(state, dot, final)
            return stage(state, dot, INVALID if value is None else value)

        return run

    def _declared(self, pipe: n.Pipe) -> Callable[[State, Any], None] | None:
        variables = pipe.declarations
        if not variables:
            return None

        def declare(state: State, value: Any) -> None:
            for each in variables:
                if pipe.is_assignment:
                    self._set(state, each, value)
                else:
                    state.names.append(each.names[0])
                    state.values.append(value)

        return declare

    def _set(self, state: State, variable: n.Variable, value: Any) -> None:
        state.values[self._slot(state, variable)] = value

    def _slot(self, state: State, variable: n.Variable) -> int:
        name, names = variable.names[0], state.names
        for index in range(len(names) - 1, -1, -1):
            if names[index] == name:
                return index
        self.fail(variable, f"undefined variable {name!r}")
        return None

    def _command(self, command: n.Command, *, is_first: bool) -> Callable[..., Any]:
        """Compile a stage. The closure takes the value of the stage before it, too."""
        word, *arguments = command.arguments
        if isinstance(word, n.Identifier):
            return self._function(word, arguments, is_first=is_first)
        has_arguments = bool(arguments) or not is_first
        if isinstance(word, n.Field):
            return self._member(lambda state, dot: dot, word, word.names, arguments, is_first=is_first)
        if isinstance(word, n.Chain):
            return self._member(self._operand(word.node), word, word.names, arguments, is_first=is_first)
        if isinstance(word, n.Variable) and len(word.names) > 1:
            return self._member(self._variable(word), word, word.names[1:], arguments, is_first=is_first)
        if has_arguments:
            return self._failing(word, "a value that is not a function has arguments; put | or a function between them")
        value = self._operand(word)
        return lambda state, dot, final: value(state, dot)

    def _failing(self, node: n.Node, message: str) -> Callable[..., Any]:
        def fail(*_: object) -> NoReturn:
            self.fail(node, message)

        return fail

    # ---- operands

    def _operand(self, node: n.Node) -> Value:
        """Compile an operand that has no type."""
        match node:
            case n.Dot():
                return lambda state, dot: dot
            case n.Field(names=names):
                return self._members(lambda state, dot: dot, node, names)
            case n.Variable():
                variable = self._variable(node)
                return self._members(variable, node, node.names[1:]) if len(node.names) > 1 else variable
            case n.Chain(node=inner, names=names):
                return self._members(self._operand(inner), node, names)
            case n.Pipe():
                return self._pipe(node)
            case n.Identifier():
                function = self._function(node, [], is_first=True)
                return lambda state, dot: function(state, dot, _MISSING)
            case n.Bool(value=value) | n.String(value=value):
                return lambda state, dot: value
            case n.Number():
                return self._constant(node)
            case _:
                return self._failing(node, "nil is not a value here; compare with it, or give it to a function")

    def _constant(self, node: n.Number) -> Value:
        text = node.text.lower()
        value: Any = node.complex
        is_integer = node.is_character or (text.lstrip("+-").startswith("0x") and "p" not in text)
        if value is None and node.float is not None and not is_integer and any(each in text for each in ".ep"):
            value = node.float
        if value is None:
            value = node.integer
        if value is None:
            return self._failing(node, f"{node.text} does not fit into an int")
        return lambda state, dot: value

    def _variable(self, node: n.Variable) -> Value:
        if node.names[0] == "$":
            return lambda state, dot: state.values[0]
        name = node.names[0]

        def run(state: State, dot: Any) -> Any:
            if state.names[-1] == name:
                return state.values[-1]
            return state.values[self._slot(state, node)]

        return run

    def _members(self, receiver: Value, node: n.Node, names: list[str]) -> Value:
        member = self._member(receiver, node, names, [], is_first=True)
        return lambda state, dot: member(state, dot, _MISSING)

    def _member(
        self, receiver: Value, node: n.Node, names: list[str], arguments: list[n.Node], *, is_first: bool
    ) -> Callable[..., Any]:
        """Compile a chain of fields. The last may be a method with arguments."""
        *fields, last = names
        has_arguments = bool(arguments) or not is_first
        path = _path(node)

        def run(state: State, dot: Any, final: Any) -> Any:
            value = receiver(state, dot)
            for name in fields:
                found = value.get(name, _MISSING) if type(value) is dict else _MISSING
                value = self._field(state, value, name, node, path) if found is _MISSING else found
            if type(value) is dict and not has_arguments:
                found = value.get(last, _MISSING)
                if found is not _MISSING:
                    return found
            if not has_arguments:
                return self._field(state, value, last, node, path)
            if isinstance(value, Object) and last in value.methods:
                method = self._compiled_call(value.methods[last], last, node, arguments, is_first, value)
                return method(state, dot, final)
            self._field(state, value, last, node, path)
            self.fail(node, f"{last} is not a function, but has arguments")
            return None

        return run

    def _field(self, state: State, value: Any, name: str, node: n.Node, path: str) -> Any:
        """Return a field of a value that has none of that name, or is not a plain map."""
        if isinstance(value, dict):
            return self._entry(value, name, node, path)
        if value is INVALID:
            if self._missing_key == "error":
                self.fail(node, f"{path}: there is no value to take {name!r} from; give one", path)
            return INVALID
        if isinstance(value, Object):
            if name in value.members:
                return value.members[name](value)
            if name in value.methods:
                return self._compiled_call(value.methods[name], name, node, [], True, value)(state, None, _MISSING)
            self.fail(node, f"{path}: a value of type {type_name(value)} has no field or method {name!r}", path)
        if value is None:
            self.fail(node, f"{path}: the value before {name!r} is nil; set it, or test it with if or with", path)
        self.fail(
            node, f"{path}: a value of type {type_name(value)} has no field {name!r}; only maps have fields", path
        )
        return None

    def _entry(self, value: dict[str, Any], name: str, node: n.Node, path: str) -> Any:
        if name in value:
            return value[name]
        if self._missing_key == "error":
            message = f"{path}: the map has no key {name!r}; set it, or read it with a function that takes a default"
            self.fail(node, message, path)
        if self._missing_key == "zero":
            return "" if type(value) is StringMap else None
        return INVALID

    # ---- functions

    def _function(self, node: n.Identifier, arguments: list[n.Node], *, is_first: bool) -> Callable[..., Any]:
        function = self._functions(node.name)
        if isinstance(function, ShortCircuit):
            return self._short_circuit(function, node, arguments, is_first=is_first)
        return self._compiled_call(function, node.name, node, arguments, is_first)

    def _short_circuit(
        self, function: ShortCircuit, node: n.Identifier, arguments: list[n.Node], *, is_first: bool
    ) -> Callable[..., Any]:
        if not arguments and is_first:
            return self._failing(node, f"{node.name} needs an argument")
        values = tuple(self._argument(each, "any") for each in arguments)
        stop = function.stop

        def run(state: State, dot: Any, final: Any) -> Any:
            value = None
            for each in values:
                value = each(state, dot)
                if truth(value) is stop:
                    return value
            return value if final is _MISSING else final

        return run

    def _compiled_call(
        self,
        function: Function,
        name: str,
        node: n.Node,
        arguments: list[n.Node],
        is_first: bool,
        receiver: Object | None = None,
    ) -> Callable[..., Any]:
        parameters, variadic = function.parameters, function.variadic
        count = len(arguments) + (not is_first)
        if count < len(parameters) or (count > len(parameters) and not variadic):
            least = "at least " if variadic else ""
            message = f"{name} takes {least}{len(parameters)} arguments, not {count}"
            return self._failing(node, message)
        kinds = [parameters[index] if index < len(parameters) else variadic for index in range(count)]
        values = tuple(self._argument(*each) for each in zip(arguments, kinds, strict=False))
        last = None if is_first else self._checked(node, kinds[-1])
        invoke = self._invoked(function, name, node)
        takes_rendering = function.rendering

        def run(state: State, dot: Any, final: Any) -> Any:
            given = [value(state, dot) for value in values]
            if last is not None:
                given.append(last(final))
            if receiver is not None:
                given.insert(0, receiver)
            if takes_rendering:
                given.insert(0, state.rendering)
            return invoke(state, given)

        return run

    def _invoked(self, function: Function, name: str, node: n.Node) -> Callable[[State, list[Any]], Any]:
        call, steps = function.call, function.steps

        def invoke(state: State, arguments: list[Any]) -> Any:
            budget = state.budget
            try:
                budget.steps -= steps
                if budget.steps < 0:
                    budget.spend(0)
                result = call(*arguments)
                if type(result) is str:
                    if len(result) > _SHORT:
                        budget.write(len(result))
                elif isinstance(result, list | dict):
                    budget.spend(len(result))
                return result
            except (FunctionError, LimitError) as error:
                self.fail(node, f"{name}: {error}")
            except TemplateError:
                raise
            except (ValueError, OverflowError, MemoryError) as error:
                self.fail(node, f"{name}: {error or type(error).__name__}")

        return invoke

    def _argument(self, node: n.Node, kind: str) -> Value:
        """Compile an argument for a parameter of a type."""
        if isinstance(node, n.Nil):
            if kind in NILS:
                nil = NILS[kind]
                return lambda state, dot: nil()
            return self._failing(node, f"nil is not a {_shown(kind)}")
        if not isinstance(node, n.Bool | n.Number | n.String):
            value, check = self._operand(node), self._checked(node, kind)
            if kind == "any":

                def run(state: State, dot: Any) -> Any:
                    found = value(state, dot)
                    return None if found is INVALID else found

                return run
            return lambda state, dot: check(value(state, dot))
        if kind == "any":
            return self._operand(node)
        return self._literal(node, kind)

    def _literal(self, node: n.Bool | n.Number | n.String, kind: str) -> Value:
        value: Any = None
        if isinstance(node, n.Number):
            if kind == "int":
                value = node.integer
            elif kind == "float":
                value = node.float
            elif kind == "uint32" and node.unsigned is not None:
                value = node.unsigned % 2**32
        elif type(node.value) is {"bool": bool, "string": str}.get(kind):
            value = node.value
        if value is None:
            shown = node.text if isinstance(node, n.Number) else repr(node.value)
            return self._failing(node, f"expected a {_shown(kind)}, not {shown}")
        return lambda state, dot: value

    def _checked(self, node: n.Node, kind: str) -> Callable[[Any], Any]:
        """Return a check that a value has a type."""
        accept, nil = accepts(kind), NILS.get(kind)

        def check(value: Any) -> Any:
            if value is INVALID:
                if nil is None:
                    self.fail(node, f"expected a {_shown(kind)}, but there is no value")
                return nil()
            if not accept(value):
                self.fail(node, f"expected a {_shown(kind)}, not a value of type {type_name(value)}; convert it")
            return value

        return check


def _shown(kind: str) -> str:
    return GO_TYPES.get(kind, kind)


def _path(node: n.Node) -> str:
    if isinstance(node, n.Field):
        return ".".join(node.names)
    if isinstance(node, n.Variable):
        return ".".join(node.names)
    return ".".join(("(...)", *node.names)) if isinstance(node, n.Chain) else ""

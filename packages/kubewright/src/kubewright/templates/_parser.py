"""The parser of templates.

Follows Go's text/template/parse/parse.go. What Go rejects when it parses is rejected here, with the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from kubewright.machinery.errors import TemplateError
from kubewright.templates import _nodes as n
from kubewright.templates._lexer import LexError, Token, tokens
from kubewright.templates._strconv import parse_float, parse_int, parse_uint, unquote, unquote_character

MAX_DEPTH: Final = 60
"""How deep parentheses and blocks may nest."""
_OPERANDS: Final = frozenset(
    (
        "bool",
        "constant",
        "complex",
        "dot",
        "field",
        "identifier",
        "number",
        "nil",
        "raw",
        "string",
        "variable",
        "(",
    )
)
_LITERALS: Final = (n.Bool, n.Dot, n.Nil, n.Number, n.String)
_INTEGER_LIMIT: Final = 2.0**63


def parse(file: str, text: str, is_function: Callable[[str], bool]) -> dict[str, n.Block]:
    """Return the templates that a text defines, by name; that of the text itself is `file`. Raises TemplateError."""
    trees: dict[str, n.Block] = {}
    parser = _Parser(n.Source(file, text), is_function, trees)
    parser.add(file, parser.file(), 0)
    return trees


class _Parser:
    """Parser of one text. Each definition and block inside of it has variables of its own."""

    def __init__(self, source: n.Source, is_function: Callable[[str], bool], trees: dict[str, n.Block]) -> None:
        self._source = source
        self._is_function = is_function
        self._trees = trees
        self._tokens = tokens(source.text, is_function)
        self._pending: list[Token] = []  # the next token is the last
        self._variables = ["$"]
        self._ranges = 0
        self._depth = 0

    def fail(self, position: int, message: str) -> NoReturn:
        line, column = self._source.place(position)
        raise TemplateError(message, file=self._source.file, line=line, column=column)

    def add(self, name: str, tree: n.Block, position: int) -> None:
        """Add a template. A template that contains only white space does not replace another."""
        old = self._trees.get(name)
        if old is None or n.is_empty(old):
            self._trees[name] = tree
        elif not n.is_empty(tree):
            self.fail(position, f"template {name!r} is defined twice; rename one of the two")

    # ---- tokens

    def _next(self) -> Token:
        if self._pending:
            return self._pending.pop()
        try:
            return next(self._tokens)
        except LexError as error:
            self.fail(error.position, str(error))
        except StopIteration:
            return Token("end of file", len(self._source.text), "")

    def _back(self, token: Token) -> None:
        self._pending.append(token)

    def _peek(self) -> Token:
        token = self._next()
        self._back(token)
        return token

    def _next_word(self) -> Token:
        while True:
            token = self._next()
            if token.type != "space":
                return token

    def _peek_word(self) -> Token:
        token = self._next_word()
        self._back(token)
        return token

    def _unexpected(self, token: Token, where: str) -> NoReturn:
        shown = f"{token.text!r}" if token.text and token.type != "text" else token.type
        self.fail(token.position, f"unexpected {shown} in {where}")

    def _expect(self, type: str, where: str) -> Token:
        token = self._next_word()
        if token.type != type:
            self._unexpected(token, where)
        return token

    # ---- blocks

    def file(self) -> n.Block:
        """Parse to the end of the text."""
        block = n.Block(0)
        while (token := self._next()).type != "end of file":
            if token.type == "{{":
                word = self._next_word()
                if word.type == "define":
                    self._definition(word.position)
                    continue
                self._back(word)
            self._back(token)
            node = self._text_or_action()
            if isinstance(node, n.End | n.Else):
                self.fail(node.position, f"unexpected {_shown(node)}: no if, range, with, block or define is open")
            block.nodes.append(node)
        return block

    def _definition(self, position: int) -> None:
        name = self._template_name("a define action")
        self._expect("}}", "a define action")
        self.add(name, self._separate("define", position), position)

    def _separate(self, keyword: str, position: int) -> n.Block:
        """Parse the body of a template of its own: it does not see variables of the text around it."""
        variables, ranges = self._variables, self._ranges
        self._variables, self._ranges = ["$"], 0
        body, end = self._items(position)
        if isinstance(end, n.Else):
            self.fail(end.position, f"unexpected {{{{else}}}} in a {keyword} action")
        self._variables, self._ranges = variables, ranges
        return body

    def _items(self, start: int) -> tuple[n.Block, n.Node]:
        """Parse a block that starts at a position to an `end` or `else`, which is returned, too."""
        block = n.Block(self._peek_word().position)
        self._deeper(block.position)
        while self._peek_word().type != "end of file":
            node = self._text_or_action()
            if isinstance(node, n.End | n.Else):
                self._depth -= 1
                return block, node
            block.nodes.append(node)
        self.fail(start, "the block has no {{end}}; add it")
        return None

    def _deeper(self, position: int) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail(position, f"blocks and parentheses may nest {MAX_DEPTH} deep; use named templates or variables")

    def _text_or_action(self) -> n.Node:
        token = self._next_word()
        if token.type == "text":
            return n.Text(token.position, token.text)
        if token.type != "{{":
            self._unexpected(token, "the template")
        return self._action()

    def _action(self) -> n.Node:
        token = self._next_word()
        match token.type:
            case "if" | "range" | "with":
                return self._control(token)
            case "end":
                self._expect("}}", "an end action")
                return n.End(token.position)
            case "else":
                return self._else(token)
            case "break" | "continue":
                return self._jump(token)
            case "template":
                return self._call(token)
            case "block":
                return self._block(token)
            case _:
                self._back(token)
                return n.Action(token.position, self._pipeline("an action", "}}"))

    def _jump(self, token: Token) -> n.Node:
        self._expect("}}", f"a {token.type} action")
        if not self._ranges:
            self.fail(token.position, f"{{{{{token.type}}}}} outside of {{{{range}}}}")
        return n.Break(token.position) if token.type == "break" else n.Continue(token.position)

    def _else(self, token: Token) -> n.Node:
        if self._peek_word().type not in ("if", "with"):
            self._expect("}}", "an else action")
        return n.Else(token.position)

    def _control(self, token: Token) -> n.Control:
        keyword, variables = token.type, len(self._variables)
        pipe = self._pipeline(keyword, "}}")
        self._ranges += keyword == "range"
        body, end = self._items(token.position)
        self._ranges -= keyword == "range"
        otherwise = self._otherwise(keyword, end) if isinstance(end, n.Else) else None
        del self._variables[variables:]
        return n.Control(token.position, keyword, pipe, body, otherwise)

    def _otherwise(self, keyword: str, start: n.Node) -> n.Block:
        if keyword in ("if", "with") and self._peek().type == keyword:
            # An else with a condition is a block of its own, which the same end closes.
            self._deeper(start.position)
            block = n.Block(start.position, [self._control(self._next())])
            self._depth -= 1
            return block
        block, end = self._items(start.position)
        if isinstance(end, n.Else):
            self.fail(end.position, f"the {keyword} has two {{{{else}}}}; expected {{{{end}}}}")
        return block

    def _block(self, token: Token) -> n.Call:
        name = self._template_name("a block action")
        pipe = self._pipeline("a block action", "}}")
        self.add(name, self._separate("block", token.position), token.position)
        return n.Call(token.position, name, pipe)

    def _call(self, token: Token) -> n.Call:
        name = self._template_name("a template action")
        following = self._next_word()
        if following.type == "}}":
            return n.Call(token.position, name, None)
        self._back(following)
        return n.Call(token.position, name, self._pipeline("a template action", "}}"))

    def _template_name(self, where: str) -> str:
        token = self._next_word()
        if token.type not in ("string", "raw"):
            self._unexpected(token, f"{where}: expected the name of a template in quotes")
        return self._string(token)

    def _string(self, token: Token) -> str:
        value = unquote(token.text)
        if value is None:
            self.fail(token.position, f"bad escape sequence in {token.text}")
        return value

    # ---- pipelines

    def _pipeline(self, where: str, end: str) -> n.Pipe:
        pipe = n.Pipe(self._peek_word().position)
        self._declarations(pipe, where)
        while True:
            token = self._next_word()
            if token.type == end:
                break
            if token.type not in _OPERANDS:
                self._unexpected(token, where)
            self._back(token)
            pipe.commands.append(self._command())
        if not pipe.commands:
            self.fail(token.position, f"missing value for {where}")
        for stage, command in enumerate(pipe.commands[1:], 2):
            if isinstance(command.arguments[0], _LITERALS):
                self.fail(command.position, f"stage {stage} of the pipeline is not a function")
        return pipe

    def _declarations(self, pipe: n.Pipe, where: str) -> None:
        while (variable := self._peek_word()).type == "variable":
            self._next_word()
            adjacent = self._next()
            following = adjacent if adjacent.type != "space" else self._next_word()
            if following.type in ("=", ":="):
                pipe.is_assignment = following.type == "="
                self._declare(pipe, variable)
                return
            if (following.type, following.text) != ("character", ","):
                self._back(following)
                if adjacent is not following:
                    self._back(adjacent)
                self._back(variable)
                return
            self._declare(pipe, variable)
            if where != "range" or len(pipe.declarations) > 1:
                self.fail(following.position, f"too many variables in {where}")
            if self._peek_word().type not in ("variable", "}}", ")"):
                self.fail(following.position, "a range declares variables only: {{range $key, $value := .Map}}")

    def _declare(self, pipe: n.Pipe, variable: Token) -> None:
        pipe.declarations.append(n.Variable(variable.position, variable.text.split(".")))
        self._variables.append(variable.text)

    def _command(self) -> n.Command:
        command = n.Command(self._peek_word().position)
        while True:
            self._peek_word()
            if (operand := self._operand()) is not None:
                command.arguments.append(operand)
            token = self._next()
            if token.type == "space":
                continue
            if token.type in ("}}", ")"):
                self._back(token)
            elif token.type != "|":
                self._unexpected(token, "an operand")
            break
        if not command.arguments:
            self.fail(token.position, "a stage of the pipeline is empty")
        return command

    def _operand(self) -> n.Node | None:
        node = self._term()
        if node is None or self._peek().type != "field":
            return node
        position, names = self._peek().position, list[str]()
        while self._peek().type == "field":
            names.append(self._next().text[1:])
        if isinstance(node, n.Field | n.Variable):
            node.names += names
            return node
        if isinstance(node, _LITERALS) and not isinstance(node, n.Nil):
            self.fail(position, "a constant and the dot have no fields")
        if isinstance(node, n.Nil):
            self.fail(position, "nil has no fields")
        return n.Chain(position, node, names)

    def _term(self) -> n.Node | None:
        token = self._next_word()
        position, text = token.position, token.text
        match token.type:
            case "identifier":
                if not self._is_function(text):
                    self.fail(position, f"function {text!r} is not defined; check its spelling, or add the function")
                return n.Identifier(position, text)
            case "dot":
                return n.Dot(position)
            case "nil":
                return n.Nil(position)
            case "variable":
                if text not in self._variables:
                    self.fail(position, f"undefined variable {text!r}; declare it: {{{{{text} := ...}}}}")
                return n.Variable(position, [text])
            case "field":
                return n.Field(position, [text[1:]])
            case "bool":
                return n.Bool(position, text == "true")
            case "string" | "raw":
                return n.String(position, self._string(token))
            case "number" | "complex" | "constant":
                return self._number(token)
            case "(":
                self._deeper(position)
                pipe = self._pipeline("parentheses", ")")
                self._depth -= 1
                return pipe
            case _:
                self._back(token)
                return None

    # ---- numbers

    def _number(self, token: Token) -> n.Number:
        position, text = token.position, token.text
        if token.type == "constant":
            code = unquote_character(text)
            if code is None:
                self.fail(position, f"bad character constant {text}")
            return n.Number(position, text, code, code, float(code), is_character=True)
        if token.type == "complex" or text.endswith("i"):
            value = _complex(text)
            if value is None:
                self.fail(position, f"bad number {text!r}")
            number = n.Number(position, text, complex=value)
            return number if value.imag else _from_float(number, value.real)
        unsigned, integer = parse_uint(text), parse_int(text)
        if integer == 0:
            unsigned = 0
        if integer is not None or unsigned is not None:
            return n.Number(position, text, integer, unsigned, float(unsigned if integer is None else integer))  # type: ignore[arg-type]
        value = parse_float(text)
        if value is None:
            self.fail(position, f"bad number {text!r}")
        if not any(each in text for each in ".eEpP"):
            self.fail(position, f"{text} does not fit into 64 bits")
        return _from_float(n.Number(position, text), value)


def _shown(node: n.Node) -> str:
    return "{{end}}" if isinstance(node, n.End) else "{{else}}"


def _complex(text: str) -> complex | None:
    split = max(text.rfind("+"), text.rfind("-"))
    while split > 0 and text[split - 1] in "eEpP" and text[:2].lower() != "0x":
        split = max(text.rfind("+", 0, split), text.rfind("-", 0, split))
    real = parse_float(text[:split]) if split > 0 else 0.0
    imaginary = parse_float(text[max(split, 0) : -1])
    return None if real is None or imaginary is None else complex(real, imaginary)


def _from_float(number: n.Number, value: float) -> n.Number:
    number.float = value
    if value.is_integer():
        if -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
            number.integer = int(value)
        if 0 <= value < 2 * _INTEGER_LIMIT:
            number.unsigned = int(value)
    return number

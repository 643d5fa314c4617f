"""The tree of a template: what the parser makes and the compiler reads.

Follows the nodes of Go's text/template/parse.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Source:
    """The text of a file, for the places in error messages."""

    file: str
    text: str

    def place(self, position: int) -> tuple[int, int]:
        """Return the line and column of a position; both count from 1."""
        before = self.text[:position]
        return 1 + before.count("\n"), position - before.rfind("\n")

    def action(self, position: int) -> str:
        """Return the action around a position, as it is written."""
        start = max(self.text.rfind("{{", 0, position + 1), 0)
        end = self.text.find("}}", position)
        return " ".join(self.text[start : end + 2 if end >= 0 else None].split())


@dataclass(slots=True)
class Node:
    """A node, and its position in the source."""

    position: int


@dataclass(slots=True)
class Text(Node):
    """Text outside of actions."""

    text: str


@dataclass(slots=True)
class Number(Node):
    """A constant, and how it may be used."""

    text: str
    integer: int | None = None
    unsigned: int | None = None
    float: float | None = None
    complex: complex | None = None
    is_character: bool = False


@dataclass(slots=True)
class String(Node):
    """A quoted string."""

    value: str


@dataclass(slots=True)
class Bool(Node):
    """The constant `true` or `false`."""

    value: bool


@dataclass(slots=True)
class Nil(Node):
    """The constant `nil`."""


@dataclass(slots=True)
class Dot(Node):
    """The cursor, `.`."""


@dataclass(slots=True)
class Field(Node):
    """A chain of fields, `.A.B`."""

    names: list[str]


@dataclass(slots=True)
class Variable(Node):
    """A variable with a chain of fields, `$x.A`. The first name is that of the variable."""

    names: list[str]


@dataclass(slots=True)
class Identifier(Node):
    """The name of a function."""

    name: str


@dataclass(slots=True)
class Chain(Node):
    """Fields of a term in parentheses, `(f x).A.B`."""

    node: Node
    names: list[str]


@dataclass(slots=True)
class Command(Node):
    """A stage of a pipeline: an operand, or a function with its arguments."""

    arguments: list[Node] = field(default_factory=list[Node])


@dataclass(slots=True)
class Pipe(Node):
    """A pipeline, and the variables that it declares or assigns."""

    declarations: list[Variable] = field(default_factory=list[Variable])
    is_assignment: bool = False
    commands: list[Command] = field(default_factory=list[Command])


@dataclass(slots=True)
class Action(Node):
    """A pipeline whose value is printed."""

    pipe: Pipe


@dataclass(slots=True)
class Block(Node):
    """A list of nodes."""

    nodes: list[Node] = field(default_factory=list[Node])


@dataclass(slots=True)
class Control(Node):
    """An `if`, `range` or `with`."""

    keyword: str
    pipe: Pipe
    body: Block
    otherwise: Block | None


@dataclass(slots=True)
class Break(Node):
    """A `break`."""


@dataclass(slots=True)
class Continue(Node):
    """A `continue`."""


@dataclass(slots=True)
class Call(Node):
    """A `template` action."""

    name: str
    pipe: Pipe | None


@dataclass(slots=True)
class End(Node):
    """The end of a block. Only the parser sees it."""


@dataclass(slots=True)
class Else(Node):
    """The other branch of a block. Only the parser sees it."""


def is_empty(node: Node) -> bool:
    """Return whether a node contains only white space."""
    if isinstance(node, Block):
        return all(map(is_empty, node.nodes))
    return isinstance(node, Text) and not node.text.strip()

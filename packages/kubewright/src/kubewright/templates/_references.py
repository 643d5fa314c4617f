"""The fields that a template reads from its values, found without rendering it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kubewright.templates import _nodes as n

_Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """A field that a template reads."""

    path: tuple[str, ...]
    """The names from the values down: `("Params", "REPLICAS")`."""
    file: str
    line: int
    """The line, from 1."""


class References:
    """Finds the fields that templates read: those of the cursor and of `$`.

    Fields of values that a template computes, for example of the items of a `range`, are not fields of its values.
    """

    def __init__(self, trees: Mapping[str, n.Block], sources: Mapping[str, n.Source]) -> None:
        self._trees = trees
        self._sources = sources
        self._seen: set[tuple[str, _Path]] = set()

    def of(self, name: str, root: _Path = ()) -> Iterator[Reference]:
        """Yield the fields that a template and those that it calls read, if its values are those at `root`."""
        if name in self._trees and (name, root) not in self._seen:
            self._seen.add((name, root))
            yield from self._node(self._trees[name], root, root, self._sources[name])

    def _node(self, node: n.Node | None, dot: _Path | None, root: _Path, source: n.Source) -> Iterator[Reference]:
        if isinstance(node, n.Block):
            for each in node.nodes:
                yield from self._node(each, dot, root, source)
        elif isinstance(node, n.Action):
            yield from self._pipe(node.pipe, dot, root, source)
        elif isinstance(node, n.Control):
            yield from self._pipe(node.pipe, dot, root, source)
            inner = {"if": dot, "with": _value(node.pipe, dot, root)}.get(node.keyword)
            yield from self._node(node.body, inner, root, source)
            yield from self._node(node.otherwise, dot, root, source)
        elif isinstance(node, n.Call) and node.pipe is not None:
            yield from self._pipe(node.pipe, dot, root, source)
            if (given := _value(node.pipe, dot, root)) is not None:
                yield from self.of(node.name, given)

    def _pipe(self, pipe: n.Pipe, dot: _Path | None, root: _Path, source: n.Source) -> Iterator[Reference]:
        for command in pipe.commands:
            for argument in command.arguments:
                if isinstance(argument, n.Pipe):
                    yield from self._pipe(argument, dot, root, source)
                elif isinstance(argument, n.Chain) and isinstance(argument.node, n.Pipe):
                    yield from self._pipe(argument.node, dot, root, source)
                elif path := _path(argument, dot, root):
                    yield Reference(path, source.file, source.place(argument.position)[0])


def _value(pipe: n.Pipe, dot: _Path | None, root: _Path) -> _Path | None:
    """Return the path of the value of a pipeline; None if the pipeline computes it."""
    if len(pipe.commands) != 1 or len(pipe.commands[0].arguments) != 1:
        return None
    return _path(pipe.commands[0].arguments[0], dot, root)


def _path(node: n.Node, dot: _Path | None, root: _Path) -> _Path | None:
    """Return the path that an operand reads; None if it is not a field of the values."""
    if isinstance(node, n.Dot):
        return dot
    if isinstance(node, n.Field):
        return None if dot is None else (*dot, *node.names)
    if isinstance(node, n.Variable) and node.names[0] == "$":
        return (*root, *node.names[1:])
    return None

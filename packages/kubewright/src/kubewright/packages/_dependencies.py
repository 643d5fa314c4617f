"""The packages that a package depends on: those of its KudoOperator tasks, and of theirs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kubewright.machinery.errors import TerminalError
from kubewright.packages._api import OperatorVersion, operator_version_name

Find = Callable[[str], Awaitable[OperatorVersion | None]]
"""Returns an OperatorVersion by its name; None if it is not installed."""


async def check_dependencies(version: OperatorVersion, find: Find) -> None:
    """Raise TerminalError if a package that this one depends on is not installed, or depends on this one."""
    await _check(version, find, (version.metadata.name,), set())


async def _check(version: OperatorVersion, find: Find, path: tuple[str, ...], checked: set[str]) -> None:
    for task in version.spec.tasks:
        if task.kind != "KudoOperator":
            continue
        name = operator_version_name(task.spec.package, task.spec.app_version, task.spec.operator_version)
        if name in path:
            raise TerminalError(f"packages depend on each other: {' -> '.join((*path, name))}; remove one of the tasks")
        if name in checked:
            continue
        checked.add(name)
        found = await find(name)
        if found is None:
            raise TerminalError(
                f"task {task.name} of {version.metadata.name} needs the OperatorVersion {name}; install that package"
            )
        await _check(found, find, (*path, name), checked)

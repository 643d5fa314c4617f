"""Answers the kubelet's probes: whether the process is alive (`/healthz`) and ready (`/readyz`).

A path runs its checks and answers 200 with `ok`, or 500 with a line for each check, as the API server's own endpoints
do. With `?verbose` the lines come in both cases. `/healthz/<check>` runs one check.

Follows controller-runtime's pkg/healthz.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from kubewright.http.message import Request, Response

Check: TypeAlias = Callable[[], Awaitable[None] | None]
"""Returns if the process is healthy. Raises an exception whose message says what is wrong."""


class Probes:
    """The checks of one manager, and the handler that runs them."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Check]] = {"/healthz": {"ping": _ping}, "/readyz": {}}

    def add_healthz(self, name: str, check: Check) -> None:
        """Add a check of `/healthz`. The kubelet restarts a process whose check fails."""
        self._checks["/healthz"][name] = check

    def add_readyz(self, name: str, check: Check) -> None:
        """Add a check of `/readyz`. A process whose check fails gets no traffic."""
        self._checks["/readyz"][name] = check

    def add_own_of(self, other: Probes) -> None:
        """Add the checks of `other` whose names are not used here."""
        for path, checks in other._checks.items():
            self._checks[path] = {**checks, **self._checks[path]}

    async def handle(self, request: Request) -> Response:
        """Answer a probe. This is a `Handler`."""
        path = request.path.rstrip("/")
        root, _, single = path[1:].partition("/")
        checks = self._checks.get(f"/{root}")
        if checks is None or (single and single not in checks):
            return _text(404, "404 page not found\n")
        if request.method not in ("GET", "HEAD"):
            return _text(405, "405 method not allowed\n")
        chosen = {single: checks[single]} if single else checks
        lines, good = await _run(chosen)
        if not good:
            return _text(500, f"{lines}{root} check failed\n")
        return _text(200, f"{lines}{root} check passed\n" if "verbose" in request.query else "ok")


async def _run(checks: dict[str, Check]) -> tuple[str, bool]:
    lines: list[str] = []
    good = True
    for name, check in checks.items():
        try:
            result = check()
            if result is not None:
                await result
            lines.append(f"[+]{name} ok\n")
        except Exception as error:  # noqa: BLE001 - a check may raise any error
            good = False
            lines.append(f"[-]{name} failed: {error}\n")
    return "".join(lines), good


def _ping() -> None:
    """Succeeds: a process that answers is alive."""


def _text(status: int, text: str) -> Response:
    headers = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    return Response(status, headers, text.encode())

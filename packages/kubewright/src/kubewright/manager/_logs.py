"""Logs of a program: lines for people on a terminal, JSON for machines elsewhere.

Messages are constant, and what varies is in keys (`kubewright._runtime.log`). A record of another logger has no keys:
it is shown with its formatted message, and in JSON with the constant part as `template`.

Libraries log at WARNING and above, unless the level is DEBUG or their logger has a level of its own. So their INFO
lines do not fill an operator's log:

    logging.getLogger("httpx").setLevel(logging.INFO)       # to see them anyway
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO, TypeAlias

import msgspec

from kubewright._runtime.log import Message, is_library

LogFormat: TypeAlias = Literal["console", "json"]
"""How log records are written: for people, or one JSON object per line."""

_COLORS: Final = {"DEBUG": "\033[2m", "WARNING": "\033[33m", "ERROR": "\033[31m", "CRITICAL": "\033[31m"}
_RESET: Final = "\033[0m"
_OWN: Final = ("kubewright", "kubewright_controlplane", "kubewright_cli", "__main__")


def configure(
    format: LogFormat | None = None,
    level: str = "info",
    stream: TextIO | None = None,
    *,
    packages: Collection[str] = (),
) -> None:
    """Set up the root logger of this process. For programs, not for libraries.

    format: default: for people on a terminal, JSON elsewhere.
    packages: top-level packages of the program. They log at `level` also when they are installed like libraries.
    """
    out = stream or sys.stderr
    is_terminal = out.isatty()
    chosen = format or ("console" if is_terminal else "json")
    handler = logging.StreamHandler(out)
    handler.setFormatter(JSONFormatter() if chosen == "json" else ConsoleFormatter(colors=is_terminal))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    if root.level > logging.DEBUG:
        handler.addFilter(_QuietLibraries({*_OWN, *packages}))


class _QuietLibraries(logging.Filter):
    """Drops what libraries log below WARNING."""

    def __init__(self, own: Collection[str]) -> None:
        super().__init__()
        self._own = own

    def filter(self, record: logging.LogRecord) -> bool:
        return (
            record.levelno >= logging.WARNING
            or record.name.partition(".")[0] in self._own
            or not is_library(record.pathname)
            or _has_own_level(record.name)
        )


def _has_own_level(name: str) -> bool:
    """Return whether the program has set the level of this logger, or of a logger above it that is not the root."""
    logger = logging.getLogger(name)
    while logger.parent is not None:
        if logger.level:
            return True
        logger = logger.parent
    return False


class ConsoleFormatter(logging.Formatter):
    """`16:04:05.123 INFO  controller.webserver  Deployment created  name=web namespace=default`."""

    def __init__(self, *, colors: bool) -> None:
        super().__init__()
        self._colors = colors

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created)
        level = f"{record.levelname:<7}"
        color = _COLORS.get(record.levelname) if self._colors else None
        if color:
            level = f"{color}{level}{_RESET}"
        name = record.name.removeprefix("kubewright.")
        line = f"{moment:%H:%M:%S}.{int(record.msecs):03d} {level} {name}  {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JSONFormatter(logging.Formatter):
    """One JSON object a line: `ts` (RFC 3339), `level`, `logger`, `msg`, then the keys of the line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.msg.text if isinstance(record.msg, Message) else record.getMessage(),
        }
        if record.args:
            line["template"] = record.msg
        line.update((key, value) for key, value in _fields(record).items() if value is not None)
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, "fields", None) or {}
    return fields

"""Logs of a program: lines for people on a terminal, JSON for machines elsewhere.

Messages are constant and what varies is in keys (`kubewright._runtime.log`). A record of another logger, which has no
keys, is shown with its message formatted as usual; in JSON its `template` is what is constant of it.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO, TypeAlias

import msgspec

from kubewright._runtime.log import Message

LogFormat: TypeAlias = Literal["console", "json"]

_COLOURS: Final = {"DEBUG": "\033[2m", "WARNING": "\033[33m", "ERROR": "\033[31m", "CRITICAL": "\033[31m"}
_RESET: Final = "\033[0m"


def configure(format: LogFormat | None = None, level: str = "info", stream: TextIO | None = None) -> None:
    """Set up the root logger of this process. Called by programs, not by libraries.

    Without a `format`, it is for people on a terminal and JSON elsewhere.
    """
    out = stream or sys.stderr
    is_terminal = out.isatty()
    chosen = format or ("console" if is_terminal else "json")
    handler = logging.StreamHandler(out)
    handler.setFormatter(JSONFormatter() if chosen == "json" else ConsoleFormatter(colours=is_terminal))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class ConsoleFormatter(logging.Formatter):
    """`16:04:05.123 INFO  controller.webserver  Deployment created  name=web namespace=default`."""

    def __init__(self, *, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created)
        level = f"{record.levelname:<7}"
        colour = _COLOURS.get(record.levelname) if self._colours else None
        if colour:
            level = f"{colour}{level}{_RESET}"
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

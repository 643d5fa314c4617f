"""Structured logs: constant messages, and keys for what varies.

    ctx.log.info("Deployment scaled", deployment="web", before=3, after=4)

One can search for the message (`record.msg`), count it and alert on it. The keys are in `record.fields`. A formatter
that does not know them shows them after the message, because `record.getMessage()` has both.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, MutableMapping
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    _LoggerAdapter = logging.LoggerAdapter[logging.Logger]
else:
    _LoggerAdapter = logging.LoggerAdapter

_OWN = frozenset({"exc_info", "extra", "stack_info", "stacklevel"})


class Message(str):
    """A constant text. `str()` returns it with its keys."""

    __slots__ = ("_fields",)
    _fields: Mapping[str, object]

    def __new__(cls, text: str, fields: Mapping[str, object]) -> Message:
        message = super().__new__(cls, text)
        message._fields = fields
        return message

    @property
    def text(self) -> str:
        """The text without keys."""
        return super().__str__()

    def __str__(self) -> str:
        keys = "".join(f" {key}={_value_text(value)}" for key, value in self._fields.items() if value is not None)
        return f"{self.text} {keys}" if keys else self.text


class StructuredLogger(_LoggerAdapter):
    """A logger whose keyword arguments become keys of the line, in addition to the keys it was created with."""

    def __init__(self, logger: logging.Logger, fields: Mapping[str, object] | None = None) -> None:
        super().__init__(logger, {})
        self.fields: Mapping[str, object] = fields or {}

    def bind(self, **fields: object) -> StructuredLogger:
        """Return a logger that adds these keys to each line."""
        return StructuredLogger(self.logger, {**self.fields, **fields})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Turn keyword arguments that `logging` does not know into keys. `logging` calls this for each line."""
        given = {key: value for key, value in kwargs.items() if key not in _OWN}
        passed = {key: value for key, value in kwargs.items() if key in _OWN}
        fields = {**self.fields, **given}
        passed["extra"] = {**(passed.get("extra") or {}), "fields": fields}
        return Message(msg, fields), passed


def get_logger(name: str) -> StructuredLogger:
    """Return the structured logger of that name in the standard library's tree."""
    return StructuredLogger(logging.getLogger(name))


def is_library(path: str) -> bool:
    """Return whether a source file belongs to the standard library, to an installed package, or to Kubewright."""
    return path.startswith(_libraries()) or "site-packages" in path or "dist-packages" in path


@cache
def _libraries() -> tuple[str, ...]:
    """Return where the source files of the standard library, of installed packages, and of Kubewright begin."""
    import sysconfig  # reads the settings that Python was built with

    return (
        *{sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")},
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
        "<frozen ",
    )


def _value_text(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return msgspec.json.encode(text).decode() if not text or " " in text or '"' in text or "\n" in text else text

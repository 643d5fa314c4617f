"""Logs with constant messages: what varies is a key and its value.

    ctx.log.info("Deployment spec.replicas change", deployment="web", before=3, after=4)

The message (`record.msg`) can be searched for and counted; the keys are in `record.fields`. A formatter that knows
nothing of them shows them behind the message: `record.getMessage()` has both.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    _LoggerAdapter = logging.LoggerAdapter[logging.Logger]
else:
    _LoggerAdapter = logging.LoggerAdapter

_OWN = frozenset({"exc_info", "extra", "stack_info", "stacklevel"})


class Message(str):
    """A constant text. Shown as a whole (`str()`), it has its keys behind it."""

    __slots__ = ("_fields",)
    _fields: Mapping[str, object]

    def __new__(cls, text: str, fields: Mapping[str, object]) -> Message:
        message = super().__new__(cls, text)
        message._fields = fields
        return message

    @property
    def text(self) -> str:
        """The text alone."""
        return super().__str__()

    def __str__(self) -> str:
        keys = "".join(f" {key}={_shown(value)}" for key, value in self._fields.items() if value is not None)
        return f"{self.text} {keys}" if keys else self.text


class StructuredLogger(_LoggerAdapter):
    """A logger whose keyword arguments are the keys of the line, beside those it was made with."""

    def __init__(self, logger: logging.Logger, fields: Mapping[str, object] | None = None) -> None:
        super().__init__(logger, {})
        self.fields: Mapping[str, object] = fields or {}

    def bind(self, **fields: object) -> StructuredLogger:
        """A logger that adds these keys to each line."""
        return StructuredLogger(self.logger, {**self.fields, **fields})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Called by `logging` for each line: makes keys of the keyword arguments that it does not know."""
        given = {key: value for key, value in kwargs.items() if key not in _OWN}
        passed = {key: value for key, value in kwargs.items() if key in _OWN}
        fields = {**self.fields, **given}
        passed["extra"] = {**(passed.get("extra") or {}), "fields": fields}
        return Message(msg, fields), passed


def get_logger(name: str) -> StructuredLogger:
    """The structured logger of that name in the standard library's tree."""
    return StructuredLogger(logging.getLogger(name))


def _shown(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return msgspec.json.encode(text).decode() if not text or " " in text or '"' in text or "\n" in text else text

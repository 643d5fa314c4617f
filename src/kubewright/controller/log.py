"""Logs with constant messages: what varies is a key and its value.

    ctx.log.info("Deployment spec.replicas change", deployment="web", before=3, after=4)

The message can be searched for and counted; the keys reach a formatter as `record.fields`. The formatters of
`kubewright.manager.logs` show them, for people or as JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _LoggerAdapter = logging.LoggerAdapter[logging.Logger]
else:
    _LoggerAdapter = logging.LoggerAdapter

_OWN = frozenset({"exc_info", "extra", "stack_info", "stacklevel"})


class StructuredLogger(_LoggerAdapter):
    """A logger whose keyword arguments are the keys of the line, beside those it was made with."""

    def __init__(self, logger: logging.Logger, fields: Mapping[str, object] | None = None) -> None:
        super().__init__(logger, {})
        self.fields: Mapping[str, object] = fields or {}

    def bind(self, **fields: object) -> StructuredLogger:
        """A logger that adds these keys to each line."""
        return StructuredLogger(self.logger, {**self.fields, **fields})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        given = {key: value for key, value in kwargs.items() if key not in _OWN}
        passed = {key: value for key, value in kwargs.items() if key in _OWN}
        passed["extra"] = {**(passed.get("extra") or {}), "fields": {**self.fields, **given}}
        return msg, passed


def get_logger(name: str) -> StructuredLogger:
    """The structured logger of that name in the standard library's tree."""
    return StructuredLogger(logging.getLogger(name))

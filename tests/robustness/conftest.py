"""Settings of all robustness tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_tracebacks(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test that logs a traceback: faults outside the operator must not look like bugs."""
    yield
    records = caplog.get_records("call")
    assert [record.getMessage() for record in records if record.exc_info and record.levelno >= logging.WARNING] == []

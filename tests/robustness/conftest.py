"""What holds in every test of robustness."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_tracebacks(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Faults of the world are no faults of the code: a traceback in the log would say so."""
    yield
    records = caplog.get_records("call")
    assert [record.getMessage() for record in records if record.exc_info and record.levelno >= logging.WARNING] == []

"""Container logs, line by line. `Client.logs` uses it.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from typing import Final

from kubewright.machinery import time
from kubewright.machinery.time import Seconds, seconds


def log_query(
    *,
    container: str | None,
    previous: bool,
    follow: bool,
    since: Seconds | datetime | None,
    tail_lines: int | None,
    limit_bytes: int | None,
    timestamps: bool,
) -> dict[str, str | None]:
    """Return the query of a request for a log."""
    age = None if since is None or isinstance(since, datetime) else math.ceil(seconds(since))
    return {
        "container": container,
        "previous": "true" if previous else None,
        "follow": "true" if follow else None,
        "sinceSeconds": None if age is None else str(age),
        "sinceTime": time.format(since) if isinstance(since, datetime) else None,
        "tailLines": None if tail_lines is None else str(tail_lines),
        "limitBytes": None if limit_bytes is None else str(limit_bytes),
        "timestamps": "true" if timestamps else None,
    }


LINE_LIMIT: Final = 16 << 20
"""Bytes of a line. A longer one is yielded in parts."""


async def lines_of(stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[str, None]:
    """Yield the lines of a stream of bytes, without their line breaks. Bytes that are not UTF-8 are replaced."""
    begun: list[bytes] = []
    size = 0
    async with aclosing(stream) as chunks:
        async for chunk in chunks:
            first, *others = chunk.split(b"\n")
            begun.append(first)
            size = len(others[-1]) if others else size + len(first)
            if not others and size > LINE_LIMIT:
                yield _text(begun)
                begun, size = [], 0
            if others:
                yield _text(begun)
                for line in others[:-1]:
                    yield _text([line])
                begun = [others[-1]]
    if any(begun):
        yield _text(begun)


def _text(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")

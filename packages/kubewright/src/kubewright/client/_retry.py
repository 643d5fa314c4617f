"""When a request is sent again: as Kubernetes asks for it, and never so that it could do twice what was meant once.

An answer 429 with Retry-After was not acted on: any request is sent again, after that time. A 5xx with Retry-After, and
a connection that failed, leave open what happened: only idempotent methods are. All else is the caller's to judge.

Follows k8s.io/client-go/rest (with_retry.go), with jitter added, so that clients which were told the same time do not
all come back at once.
"""

from __future__ import annotations

from random import random

from kubewright.http.message import IDEMPOTENT, Request, Response

LIMIT = 10
"""How often a request is sent again when the server asks for it."""
_LOST_LIMIT = 3
"""How often when connections fail: whether the server is there at all is not for one request to find out."""
_LOST_BASE = 0.1
_LONGEST = 60.0
"""Seconds. A server that asks for more is passed on to the caller."""


def delay_after_answer(request: Request, response: Response, attempt: int) -> float | None:
    """Seconds until `request` should be sent again, having been answered so for the `attempt`th time; None: never."""
    status = response.status
    if attempt > LIMIT or not (status == 429 or (status >= 500 and request.method in IDEMPOTENT)):
        return None
    asked = response.headers.get("retry-after", "")
    if not (asked.isascii() and asked.isdigit()):
        return None  # a date, which no API server sends, or nothing
    seconds = float(asked)
    return seconds * (1 + random() / 4) if seconds <= _LONGEST else None


def delay_after_loss(request: Request, attempt: int) -> float | None:
    """The same for a connection that has failed for the `attempt`th time."""
    if attempt > _LOST_LIMIT or request.method not in IDEMPOTENT:
        return None
    return _LOST_BASE * 2.0**attempt * (0.5 + random())

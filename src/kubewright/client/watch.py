"""A watch as it comes from the server: events, and how they are cut out of the stream.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

T_co = TypeVar("T_co", covariant=True)

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T_co]):
    """One change. A BOOKMARK's object has nothing but a resource version: all events up to there have been sent."""

    type: EventType
    object: T_co

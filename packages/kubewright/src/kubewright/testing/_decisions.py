"""What `review` and `evaluate` have in common: the request of a user, and what its answer says."""

from __future__ import annotations

from typing import Final, get_args

from kubewright.machinery.errors import ConfigError, Status, StatusCause
from kubewright.machinery.json import JSONObject
from kubewright.models import Object
from kubewright.webhooks import Operation, User

USER: Final = User(name="test", groups=["system:authenticated"])
"""Who sends the request by default."""


class Decision:
    """The answer to a request: it is allowed, or denied with a status."""

    __slots__ = ()
    status: Status | None

    @property
    def message(self) -> str:
        """Why the request was denied, as a user sees it; "" if it was allowed."""
        return self.status.message if self.status is not None else ""

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The errors of a denied request, by field."""
        return self.status.details.causes if self.status is not None and self.status.details is not None else ()


def operation_of(
    function: str, *objects: Object | JSONObject | None, old: Object | JSONObject | None
) -> tuple[Operation, Object | JSONObject]:
    """Return what a user does, and the object: the one that is given of create, update, delete and connect.

    Raises ConfigError, which names `function`, for any other number of objects, and if only one of update and `old` is
    given.
    """
    operations: tuple[Operation, ...] = get_args(Operation)
    given: list[tuple[Operation, Object | JSONObject]]
    given = [(name, each) for name, each in zip(operations, objects, strict=True) if each is not None]
    if len(given) != 1:
        raise ConfigError(f"{function}: give one of create, update, delete and connect, got {len(given)}")
    if (old is not None) != (given[0][0] == "UPDATE"):
        raise ConfigError(f"{function}: an update has old=, the object before it, and nothing else has")
    return given[0]

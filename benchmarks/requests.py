"""The requests of an operator, from the audit log of the API server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

OPERATOR: Final = "operator"
"""The user whose requests are counted. Requests of other users are not logged."""

_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_REVIEWS: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [OPERATOR]}, {"level": "None"}],
}


class Requests(Counter[str]):
    """Requests by verb."""

    @property
    def writes(self) -> int:
        """The number of write requests."""
        return sum(count for verb, count in self.items() if verb in _WRITES)

    @property
    def sent(self) -> int:
        """The number of requests without watches."""
        return self.total() - self["watch"]


class AuditLog:
    """The audit log of one API server. Start the server with `arguments`."""

    def __init__(self, folder: Path) -> None:
        """Write files to `folder`, which the caller removes."""
        self._log = folder / "audit.log"
        self._log.touch()
        self._read = 0
        policy = folder / "audit-policy.json"
        policy.write_bytes(msgspec.json.encode(_POLICY))
        self.arguments: Final = (
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self._log}",
            "--audit-log-maxsize=10000",
        )

    def take(self) -> Requests:
        """Return the requests since the last call."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            written = log.read()
        whole = written[: written.rfind(b"\n") + 1]
        self._read += len(whole)
        return counted(whole.splitlines())


class _Object(msgspec.Struct, rename="camel"):
    api_group: str = ""


class _Event(msgspec.Struct, rename="camel"):
    verb: str
    stage: str
    object_ref: _Object = msgspec.field(default_factory=_Object)

    @property
    def kind(self) -> str:
        """The verb, or "review": a review of permissions is created, but changes nothing."""
        return "review" if self.object_ref.api_group in _REVIEWS else self.verb


def counted(lines: Iterable[bytes]) -> Requests:
    """Count the requests in lines of an audit log: watches when they begin, all others when they are answered."""
    events = [msgspec.json.decode(line, type=_Event) for line in lines]
    return Requests(each.kind for each in events if (each.stage == "ResponseStarted") == (each.verb == "watch"))

"""What an operator asks of the API server, as the API server itself tells it in its audit log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

OPERATOR: Final = "operator"
"""The user whose requests are told; all other users' are not."""

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
        """Those that would change something."""
        return sum(count for verb, count in self.items() if verb in _WRITES)

    @property
    def sent(self) -> int:
        """All but watches: a stream is counted where what it brings is."""
        return self.total() - self["watch"]


class AuditLog:
    """The audit log of one API server, which is started with `arguments`."""

    def __init__(self, folder: Path) -> None:
        """Files are written to `folder`, which the caller removes."""
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
        """The requests since the last call."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            told = log.read()
        whole = told[: told.rfind(b"\n") + 1]
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
        """The verb; a review, which asks what one may do, is created but changes nothing."""
        return "review" if self.object_ref.api_group in _REVIEWS else self.verb


def counted(lines: Iterable[bytes]) -> Requests:
    """The requests that lines of an audit log tell of: watches when they begin, all others when they are answered."""
    events = [msgspec.json.decode(line, type=_Event) for line in lines]
    return Requests(each.kind for each in events if (each.stage == "ResponseStarted") == (each.verb == "watch"))

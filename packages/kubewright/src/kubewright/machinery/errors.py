"""Every error that Kubewright raises.

    KubewrightError
    ├── ConfigError             a setting, kubeconfig or argument is wrong; the message says what to do
    ├── ModelError              a type cannot be a Kubernetes API type
    ├── ConnectionFailed        no answer arrived: refused, reset, TLS, DNS
    ├── DeadlineExceeded        an answer did not arrive in time
    ├── DecodeError             bytes are not the expected object
    ├── TemplateError           a template cannot be parsed or rendered
    ├── PackageError            a file of a package cannot be read
    ├── CommandFailed           a command in a container failed, or wrote too much
    ├── TerminalError           a retry of this reconcile would not help
    ├── AlreadyOwnedError       a child belongs to another owner, or to none
    ├── LeadershipLost          this process no longer leads, and must not write
    └── APIError                the API server answered with a failure; carries its Status
        ├── BadRequest 400            ├── Gone 410 (reasons Gone, Expired)
        ├── Unauthorized 401          ├── RequestTooLarge 413
        ├── Forbidden 403             ├── UnsupportedMediaType 415
        ├── NotFound 404              ├── Invalid 422
        ├── MethodNotAllowed 405      ├── TooManyRequests 429
        ├── NotAcceptable 406         ├── InternalError 500
        ├── AlreadyExists 409         ├── ServiceUnavailable 503
        └── Conflict 409              └── ServerTimeout 504

The API server raises the same classes that a client catches. Reasons and codes follow
k8s.io/apimachinery/pkg/api/errors and the API conventions (metav1.Status).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import msgspec

from kubewright.machinery.fields import FieldError

UNAPPLIED: Final = "the server rejected our request due to an error in our request"
"""The API server's message for a JSON patch that cannot be applied to the object.
Source: applyJSPatch in k8s.io/apiserver/pkg/endpoints/handlers/patch.go.
"""


class KubewrightError(Exception):
    """Base of all errors raised by Kubewright."""


class ConfigError(KubewrightError):
    """A setting, kubeconfig or argument is wrong. The message names it and says what to do."""


class ModelError(KubewrightError, TypeError):
    """A class cannot be a Kubernetes API type. The message names the field and what to write instead."""


class ConnectionFailed(KubewrightError, ConnectionError):
    """No answer arrived from the server: refused, reset, TLS or name resolution failed. Safe to retry for reads."""


class DeadlineExceeded(KubewrightError, TimeoutError):
    """An answer did not arrive in time. It is unknown whether a write took effect."""


class CommandFailed(KubewrightError):
    """A command in a container ended with an error, could not be run, or wrote too much."""

    def __init__(self, message: str, *, exit_code: int | None = None, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        """None if the command did not end on its own."""
        self.stdout = stdout
        self.stderr = stderr


class DecodeError(KubewrightError, ValueError):
    """Bytes are not the expected object. The message names the kind, the object if known, and the field."""


class TemplateError(KubewrightError, ValueError):
    """A template cannot be parsed or rendered. The message names the place and says what to do."""

    def __init__(self, message: str, *, file: str, line: int = 1, column: int = 1, key: str = "") -> None:
        super().__init__(f"{file}:{line}:{column}: {message}")
        self.reason = message
        """The message without the place."""
        self.file = file
        """The name that the text was parsed under."""
        self.line = line
        """The line, from 1."""
        self.column = column
        """The column in characters, from 1."""
        self.key = key
        """The key that is missing, with the keys before it: `Params.REPLICAS`. Empty for other errors."""


class PackageError(KubewrightError, ValueError):
    """A file of a package cannot be read. The message has a line for each fault, with its place and what to do."""

    def __init__(self, message: str, *, file: str, line: int = 0, key: str = "") -> None:
        super().__init__(message)
        self.file = file
        """The file of the first fault, relative to the package."""
        self.line = line
        """Its line, from 1; 0 for the whole file."""
        self.key = key
        """Its field: `tasks[0].spec`. Empty for the whole file."""


class TerminalError(KubewrightError):
    """Raised by a reconciler when a retry would not help; the request is not retried until something changes."""


class AlreadyOwnedError(KubewrightError):
    """A child was not applied: another object controls the live one, or nothing does and it was not adopted.

    The message names the child, the live controlling owner and what to do. A reconcile that raises this error is
    retried with backoff, so it succeeds when the child becomes free.
    """

    def __init__(
        self, message: str, *, controller: str = "", controller_kind: str = "", controller_uid: str = ""
    ) -> None:
        super().__init__(message)
        self.controller = controller
        """The name of the live controlling owner; empty if there is none."""
        self.controller_kind = controller_kind
        """Its kind."""
        self.controller_uid = controller_uid
        """Its uid."""


class LeadershipLost(KubewrightError):
    """This process is not, or no longer, the leader. It exits, and its replacement becomes a candidate."""


class StatusCause(msgspec.Struct, frozen=True):
    """One of several causes of a failure (metav1.StatusCause)."""

    reason: str = ""
    message: str = ""
    field: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without empty fields."""
        pairs = (("reason", self.reason), ("message", self.message), ("field", self.field))
        return {key: value for key, value in pairs if value}


class StatusDetails(msgspec.Struct, frozen=True):
    """The object of a failure (metav1.StatusDetails). `kind` is the plural resource in most answers."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without empty fields."""
        pairs = (("name", self.name), ("group", self.group), ("kind", self.kind), ("uid", self.uid))
        out: dict[str, Any] = {key: value for key, value in pairs if value}
        if self.causes:
            out["causes"] = [cause.to_dict() for cause in self.causes]
        if self.retry_after_seconds:
            out["retryAfterSeconds"] = self.retry_after_seconds
        return out

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> StatusDetails:
        """Read the JSON form; missing fields are empty."""
        causes = tuple(
            StatusCause(each.get("reason", ""), each.get("message", ""), each.get("field", ""))
            for each in data.get("causes") or ()
        )
        return cls(
            data.get("name", ""),
            data.get("group", ""),
            data.get("kind", ""),
            data.get("uid", ""),
            causes,
            data.get("retryAfterSeconds", 0),
        )


class Status(msgspec.Struct, frozen=True):
    """The API server's description of a failure (metav1.Status)."""

    code: int
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    status: str = "Failure"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without empty fields."""
        out: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": self.status}
        if self.message:
            out["message"] = self.message
        if self.reason:
            out["reason"] = self.reason
        if self.details is not None:
            out["details"] = self.details.to_dict()
        out["code"] = self.code
        return out

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Status:
        """Read the JSON form; missing fields are empty."""
        details = data.get("details")
        return cls(
            code=data.get("code", 0),
            reason=data.get("reason", ""),
            message=data.get("message", ""),
            details=StatusDetails.from_dict(details) if details is not None else None,
            metadata=data.get("metadata") or {},
            status=data.get("status", ""),
        )


class APIError(KubewrightError):
    """The API server answered with a failure. `status` is the complete answer."""

    code: ClassVar[int] = 0
    reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str = "",
        *,
        details: StatusDetails | None = None,
        reason: str | None = None,
        status: Status | None = None,
    ) -> None:
        self.status = status or Status(self.code, self.reason if reason is None else reason, message, details)
        super().__init__(self.status.message or f"{self.status.code} {self.status.reason}")

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The causes, one for each field or reason. Empty if the server named none."""
        return self.status.details.causes if self.status.details else ()

    @property
    def namespace_is_ending(self) -> bool:
        """Whether the request was rejected because the namespace is being deleted."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)

    @property
    def retry_after(self) -> float | None:
        """Seconds after which to try again, according to the server; None if it did not say."""
        seconds = self.status.details.retry_after_seconds if self.status.details else 0
        return float(seconds) if seconds else None


class BadRequest(APIError):
    """The server does not understand the request: its body or its parameters. The message says which."""

    code, reason = 400, "BadRequest"


class Unauthorized(APIError):
    """No credentials, or credentials that the server does not know."""

    code, reason = 401, "Unauthorized"


class Forbidden(APIError):
    """The user may not do this; the message names user, verb and resource."""

    code, reason = 403, "Forbidden"


class NotFound(APIError):
    """There is no object of that name, or the server does not serve the kind: install its CRD."""

    code, reason = 404, "NotFound"

    @property
    def kind_is_missing(self) -> bool:
        """The server does not serve the kind, or not in this version. The object may exist."""
        return self.status.details is None or not self.status.details.name


class MethodNotAllowed(APIError):
    """The resource does not have that verb."""

    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(APIError):
    """The server cannot answer in a requested format."""

    code, reason = 406, "NotAcceptable"


class Conflict(APIError):
    """The object changed since it was read, or another manager owns the field. Read again, then retry."""

    code, reason = 409, "Conflict"


class AlreadyExists(APIError):
    """An object of that name exists. Read it, or use `apply`, which also works on existing objects."""

    code, reason = 409, "AlreadyExists"


class Gone(APIError):
    """The resource version or continue token is too old. List again."""

    code, reason = 410, "Expired"


class RequestTooLarge(APIError):
    """The body is larger than the server accepts: by default 3 MiB."""

    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(APIError):
    """The server does not accept that format, usually a StrategicPatch of a custom resource."""

    code, reason = 415, "UnsupportedMediaType"


_LISTED_ERRORS: Final = 1000
"""A small document may have hundreds of thousands of errors."""


class Invalid(APIError):
    """The object violates a rule; `causes` names each field."""

    code, reason = 422, "Invalid"

    @property
    def patch_did_not_apply(self) -> bool:
        """Whether a `test` of a JSON patch failed, or a path does not exist, although no validation rule is violated.

        The object differs from the state that the author of the patch expected.
        """
        return self.status.message == UNAPPLIED

    @classmethod
    def of(cls, kind: str, group: str, name: str, errors: Sequence[FieldError]) -> Invalid:
        """Return the API server's answer for `errors`: `Kind.group "name" is invalid: ...`. It lists the first 1000."""
        unlisted = len(errors) - _LISTED_ERRORS
        errors = errors[:_LISTED_ERRORS]
        texts = list(dict.fromkeys(str(error) for error in errors))
        if unlisted > 0:
            texts.append(f"and {unlisted} more errors")
        listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        qualified = f"{kind}.{group}" if group else kind
        causes = tuple(StatusCause(error.reason, error.body, error.field) for error in errors)
        details = StatusDetails(name=name, group=group, kind=kind, causes=causes)
        return cls(f'{qualified} "{name}" is invalid: {listed}', details=details)


class TooManyRequests(APIError):
    """The server asks to slow down; see `retry_after`."""

    code, reason = 429, "TooManyRequests"


class InternalError(APIError):
    """The server failed, or an admission webhook did. It is unknown whether a write took effect."""

    code, reason = 500, "InternalError"


class ServiceUnavailable(APIError):
    """The server does not serve this now, because it starts, stops, or is overloaded. Try again."""

    code, reason = 503, "ServiceUnavailable"


class ServerTimeout(APIError):
    """The server did not finish in time. It is unknown whether a write took effect."""

    code, reason = 504, "Timeout"


_BY_REASON: dict[str, type[APIError]] = {
    each.reason: each
    for each in (
        BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, Conflict, AlreadyExists, Gone,
        RequestTooLarge, UnsupportedMediaType, Invalid, TooManyRequests, InternalError, ServiceUnavailable,
        ServerTimeout,
    )
}  # fmt: skip
_BY_CODE: dict[int, type[APIError]] = {each.code: each for each in _BY_REASON.values() if each is not AlreadyExists}


def from_status(status: Status) -> APIError:
    """Return the error for a Status, by its reason, or by its code if the reason is unknown."""
    chosen = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code) or APIError
    return chosen(status=status)
